"""Models with prices, and what they bill."""

from pipeline import Simulator

MODELS = {
    name: {"name": name, "max_output_tokens": limit}
    for name, limit in (
        ("openai/sim-tiny", 600), ("openai/sim-teacher", 2_500),
        ("anthropic/sim-judge-a", 1_000), ("google/sim-judge-b", 1_000),
    )
}  # fmt: skip
PRICES = {
    name: {"input_usd_per_mtok": 1 + number, "output_usd_per_mtok": 5 + 5 * number, "cached_input_usd_per_mtok": 0.25}
    for number, name in enumerate(MODELS)
}
SMALL = {
    "answers": {"generators": [MODELS["openai/sim-tiny"]]},
    "teacher": MODELS["openai/sim-teacher"],
    "judges": [MODELS["anthropic/sim-judge-a"], MODELS["google/sim-judge-b"]],
    "prices": PRICES,
    "limit": 1,
    "coverage": {"rounds": 0},
    "max_failed": 1.0,
}


def billed(simulator: Simulator, *, of_price: float = 1.0) -> float:
    """What the simulator's answers cost by its own count, those included that broke off on the way."""
    stats = simulator.get("stats")
    dollars = 0.0
    for name, price in PRICES.items():
        model = name.partition("/")[2]

        def tokens(kind: str, model: str = model) -> float:
            return float(stats[f"{kind}_tokens_by_model"].get(model, 0))

        sent = tokens("input") + tokens("broken_input")
        cached = tokens("cached")
        dollars += (sent - cached) * price["input_usd_per_mtok"] + cached * price["cached_input_usd_per_mtok"]
        dollars += (tokens("output") + tokens("broken_output")) * price["output_usd_per_mtok"]
    return of_price * dollars / 1e6
