import genai_prices
import pytest
from genai_prices.data_snapshot import get_snapshot
from hypothesis import given, settings, strategies as st

from tasks.config import Config
from tasks.models import Message, Request, Usage
from tasks.models.prices import prices_of


def config_of(model: str, **more) -> Config:
    name = more.pop("name", model)
    return Config(
        name="test",
        sources=[{"name": "s", "path": "x.jsonl"}],
        teacher={"name": name, "params": more.pop("params", {})},
        judges=[name],
        answers={"generators": [name]},
        **more,
    )


def cost_usd(api, model, usage, *, base_url=None, params=None, batch=False, prices=None):
    vendor = model.partition("/")[0]
    url = base_url or ("http://127.0.0.1:1" if "/sim-" in model else None)
    config = config_of(
        model, params=params or {}, endpoints={vendor: {"api": api, "base_url": url}}, prices=prices or {}
    )
    return prices_of(config, config.teacher).cost_usd(usage, batch=batch)


@pytest.mark.parametrize(
    ("api", "model", "usage", "dollars"),
    [
        ("openai", "openai/gpt-5", Usage(1_000, 0, 500), 0.00625),
        ("openai", "openai/gpt-5", Usage(1_000, 400, 500), 0.0058),
        ("anthropic", "anthropic/claude-sonnet-4-5", Usage(1_000, 400, 500, None, 100), 0.009495),
        ("google", "google/gemini-3.1-pro-preview", Usage(1_000, 400, 500), 0.00728),
        ("google", "google/gemini-3.1-pro-preview", Usage(300_000, 0, 0), 1.2),  # a long prompt: 4 dollars a million
    ],
)
def test_the_cost_of_a_response(api, model, usage, dollars):
    assert cost_usd(api, model, usage) == pytest.approx(dollars, abs=1e-12)


@pytest.mark.parametrize(
    ("api", "model", "usage"),
    [
        ("openai", "openai/gpt-of-next-year", Usage(10, 0, 10)),
        ("openai", "openai/sim-gpt-5", Usage(10, 0, 10)),
        ("openai", "openai/gpt-5", Usage(None, 0, 10)),
        ("openai", "openai/gpt-5", Usage(10, 0, None)),
    ],
)
def test_a_cost_that_is_not_known_is_none(api, model, usage):
    assert cost_usd(api, model, usage) is None


def test_a_server_of_ones_own_has_no_price_and_a_known_one_has_its_own():
    usage = Usage(1_000_000, 0, 0)
    assert cost_usd("openai-chat", "local/gpt-oss-20b", usage, base_url="http://127.0.0.1:8000/v1") is None
    assert cost_usd("openai", "azure/gpt-5", usage, base_url="https://api.openai.com/v1") == 1.25


def test_the_service_tier_changes_the_price():
    usage = Usage(1_000_000, 0, 0)
    assert cost_usd("openai", "openai/gpt-5", usage, params={"service_tier": "flex", "temperature": 1}) == 0.625


def test_a_vendor_batch_costs_half_and_so_do_its_cached_tokens():
    usage = Usage(1_000_000, 400_000, 100_000)
    online = cost_usd("openai", "openai/gpt-5", usage)
    assert cost_usd("openai", "openai/gpt-5", usage, batch=True) == pytest.approx(online / 2)


def test_the_configs_own_price_comes_first_also_for_a_simulated_model():
    price = {"input_usd_per_mtok": 2, "output_usd_per_mtok": 10, "cached_input_usd_per_mtok": 0.5, "batch_factor": 0.4}
    usage = Usage(1_000_000, 250_000, 100_000)
    for name in ("openai/gpt-5", "openai/sim-x"):
        assert cost_usd("openai", name, usage, prices={name: price}) == pytest.approx(1.5 + 0.125 + 1)
        assert cost_usd("openai", name, usage, prices={name: price}, batch=True) == pytest.approx(0.4 * 2.625)


def test_a_vendors_impossible_usage_has_a_cost_all_the_same():
    assert cost_usd("openai", "openai/gpt-5", Usage(10, 20, 1, None, 30)) == pytest.approx(11.25e-6)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=400), st.text(max_size=100), st.integers(1, 20_000), st.floats(0, 1))
def test_no_answer_costs_more_than_the_most(prompt, key, limit, used):
    request = Request("c", (Message("system", prompt), Message("user", prompt)), limit, {"title": key})
    config = config_of("anthropic/claude-sonnet-4-5")
    prices = prices_of(config, config.teacher)
    sent = 2 * len(prompt.encode("utf-8", "replace")) + len(key.encode("utf-8", "replace"))
    for batch in (False, True):
        most = prices.most_usd(request, batch=batch)
        assert prices.cost_usd(Usage(sent, 0, int(used * limit), None, sent), batch=batch) <= most


TEXT_PRICES = {"input_mtok", "cache_read_mtok", "cache_write_mtok", "cache_write_1h_mtok", "output_mtok"}
MODELS = [
    (provider.id, model.id)
    for provider in get_snapshot().providers
    if provider.id in ("openai", "anthropic", "google")
    for model in provider.models
    if provider.find_model(model.id) is model
]


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(MODELS),
    st.integers(0, 400_000),
    st.integers(0, 100_000),
    st.integers(0, 100_000),
    st.integers(0, 100_000),
)
def test_costs_are_those_of_the_price_list(model, fresh, cached, written, output):
    api, name = model
    tokens = fresh + cached + written
    ours = cost_usd(api, f"{api}/{name}", Usage(tokens, cached, output, None, written))
    usage = genai_prices.Usage(
        input_tokens=tokens, cache_read_tokens=cached, cache_write_tokens=written, output_tokens=output
    )
    theirs = genai_prices.calc_price(usage, name, provider_id=api)
    if ours is not None:
        assert ours == pytest.approx(float(theirs.total_price), abs=1e-9)
