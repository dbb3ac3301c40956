"""Quotes of made books: every question's calls are written down, so what is to come can be worked out by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from tasks.config import Config
from tasks.forecast import forecast, measure
from tasks.quote import Quote, Range, price
from tasks.standing import Standing, chain_of

GENERATOR, TEACHER, JUDGE = "openai/gen", "openai/teacher", "anthropic/judge"
MODELS = {"answers": GENERATOR, "judges": JUDGE}
TOKENS = {
    "answers": (100, 10),
    "rubrics": (300, 200),
    "trajectories": (500, 50),
    "coverage": (120, 12),
    "judges": (400, 40),
}
PRICES = {
    GENERATOR: {"input_usd_per_mtok": 1, "output_usd_per_mtok": 2},
    TEACHER: {"input_usd_per_mtok": 10, "output_usd_per_mtok": 100, "cached_input_usd_per_mtok": 1},
    JUDGE: {"input_usd_per_mtok": 5, "output_usd_per_mtok": 50, "batch_factor": 0.25},
}


def config_of(**changes: Any) -> Config:
    values: dict[str, Any] = {
        "name": "made",
        "sources": [{"name": "a", "path": "a.jsonl"}],
        "answers": {"generators": [GENERATOR]},
        "teacher": TEACHER,
        "judges": [JUDGE],
        "prices": PRICES,
    }
    return Config.model_validate(values | changes)


def calls_of(question: str, items: int, levels: int) -> list[tuple[str, str, str, str]]:
    """A question's calls: an answer with so many items, and so many levels synthesized with as many items each."""
    rows = []
    for part, answers in (("pool", 1), ("coverage-1", levels)):
        for stage in chain_of(part):
            number = answers * (items if stage.name in ("trajectories", "judges") else 1)
            rows += [(question, part, stage.name, f"{question} {part} {stage.name} {i}") for i in range(number)]
    return rows


def quote_of(
    config: Config, measured: dict[str, tuple[str, int, int]], fresh: dict[str, str], cached: int = 0
) -> Quote:
    """``measured``: each question's source, items, levels; ``fresh``: the source of each question still to come."""
    done = [row for name, (_, items, levels) in measured.items() for row in calls_of(name, items, levels)]
    names = ["question_id", "part", "stage", "call_id"]
    known = pl.DataFrame(done, dict.fromkeys(names, pl.String), orient="row").with_columns(ok=True, settled=True)
    wanted = pl.DataFrame(
        [(name, "pool", "answers", f"{name} new") for name in fresh], dict.fromkeys(names, pl.String), orient="row"
    )
    calls = pl.concat([known, wanted.with_columns(ok=False, settled=False)]).with_columns(
        model=pl.col("stage").replace_strict(MODELS, default=TEACHER)
    )
    nodes = [
        (name, part, stage.name, name in measured or stage.name == "answers", name in measured)
        for name in [*measured, *fresh]
        for part in ("pool", "coverage-1")
        for stage in chain_of(part)
    ]
    found = Standing(calls, pl.DataFrame(nodes, ["question_id", "part", "stage", "known", "begun"], orient="row"))
    sources = {name: source for name, (source, _, _) in measured.items()} | fresh
    questions = pl.DataFrame(list(sources.items()), ["question_id", "source"], orient="row").with_columns(bytes=400)
    attempts = calls.filter("settled").select("call_id", "stage", "model", outcome=pl.lit("ok")).with_columns(
        input_tokens=pl.col("stage").replace_strict({stage: sent for stage, (sent, _) in TOKENS.items()}),
        output_tokens=pl.col("stage").replace_strict({stage: got for stage, (_, got) in TOKENS.items()}),
        cached_tokens=pl.lit(cached),
        cost_usd=pl.lit(0.5),
        most_usd=pl.lit(None, pl.Float64),
        latency_s=pl.lit(2.0),
        vendor_batch=pl.lit(None, pl.String),
    )  # fmt: skip
    took = measure(config, questions, found, attempts)
    return price(config, questions, found, took, forecast(config, questions, found, took), attempts, 0.0)


def p50(value: Range | None) -> float:
    assert value is not None
    return value.p50


ALIKE = {f"m{i}": ("a", 3, 2) for i in range(4)}
TEN = {f"n{i}": "a" for i in range(10)}


def test_questions_that_are_alike_give_exact_figures() -> None:
    quote = quote_of(config_of(), ALIKE, TEN)
    found = {line.stage: (line.done, line.left.calls.p50, line.left.calls.p95) for line in quote.lines}
    assert found == {
        "answers": (4, 10, 10),
        "rubrics": (12, 30, 30),
        "trajectories": (36, 90, 90),
        "coverage": (8, 20, 20),
        "judges": (36, 90, 90),
    }
    judges = quote.lines[-1].left
    assert (judges.input_tokens.p50, judges.output_tokens.p95) == (pytest.approx(36_000), pytest.approx(3_600))
    assert p50(judges.usd_online) == pytest.approx((36_000 * 5 + 3_600 * 50) / 1e6)
    assert p50(judges.usd_batch) == pytest.approx(0.25 * p50(judges.usd_online))
    assert (quote.questions, quote.questions_done, quote.questions_measured) == (14, 4, 4)
    assert quote.source == "measured calls"
    assert quote.spent_usd == pytest.approx(0.5 * (4 + 12 + 36 + 8 + 36))


def test_each_source_is_quoted_by_its_own_questions() -> None:
    measured = {"m1": ("a", 3, 0), "m2": ("a", 3, 0), "m3": ("b", 10, 0)}
    quote = quote_of(config_of(), measured, {"n1": "a", "n2": "b", "n3": "b"})
    assert {line.stage: line.left.calls.p50 for line in quote.lines}["trajectories"] == pytest.approx(3 + 2 * 10)
    quote = quote_of(config_of(), measured, {"n1": "c"})
    assert "No question of c is measured: those of the other sources stand in." in quote.remarks


def test_the_spread_is_that_of_resampled_questions() -> None:
    items = [2, 3, 3, 4, 5, 5, 6, 9]
    fresh = {f"n{i}": "a" for i in range(20)}
    quote = quote_of(config_of(), {f"m{i}": ("a", n, 0) for i, n in enumerate(items)}, fresh)
    rng = np.random.default_rng(5)
    resampled = rng.choice(items, (100_000, len(items)))
    drawn = rng.integers(len(items), size=(100_000, len(fresh)))
    sums = np.take_along_axis(resampled, drawn, 1).sum(axis=1)
    left = next(line.left.calls for line in quote.lines if line.stage == "trajectories")
    assert left.p50 == pytest.approx(np.quantile(sums, 0.5), rel=0.03)
    assert left.p95 == pytest.approx(np.quantile(sums, 0.95), rel=0.03)
    assert quote_of(config_of(), {f"m{i}": ("a", n, 0) for i, n in enumerate(items)}, fresh) == quote


def test_cached_input_has_its_own_price() -> None:
    rubrics = quote_of(config_of(), ALIKE, TEN, cached=100).lines[1].left
    assert p50(rubrics.usd_online) == pytest.approx(30 * (200 * 10 + 100 * 1 + 200 * 100) / 1e6)


def test_an_unknown_price_is_null_and_named() -> None:
    known = {name: value for name, value in PRICES.items() if name != JUDGE}
    quote = quote_of(config_of(judges=["anthropic/no-such-judge"], prices=known), ALIKE, TEN)
    assert quote.lines[-1].left.usd_online is None
    whole = quote_of(config_of(), ALIKE, TEN)
    assert p50(quote.usd) == pytest.approx(p50(whole.usd) - p50(whole.lines[-1].left.usd_online))
    assert quote.without_price == ["anthropic/no-such-judge"]
    assert any("short of anthropic/no-such-judge" in remark for remark in quote.remarks)


@pytest.mark.parametrize(("limits", "seconds"), [
    ({"max_concurrency": 4}, 90 * 2 / 4),
    ({"max_concurrency": 64, "requests_per_minute": 10}, 90 * 60 / 10),
    ({"max_concurrency": 64, "tokens_per_minute": 3_960}, 600),
])  # fmt: skip
def test_time_is_that_of_the_limit_that_binds(limits: dict[str, int], seconds: float) -> None:
    quote = quote_of(config_of(limits={JUDGE: limits}), ALIKE, TEN)
    assert p50(quote.lines[-1].left.seconds) == pytest.approx(seconds)
    assert p50(quote.left.seconds) == pytest.approx(seconds)


def test_time_is_no_less_than_a_shards_stages_one_after_the_other() -> None:
    quote = quote_of(config_of(shard_size=1, shards_in_flight=2), ALIKE, TEN)
    assert p50(quote.left.seconds) == pytest.approx(5 * 7 * 2)


def test_vendor_batches_have_their_price_and_no_time() -> None:
    quote = quote_of(config_of(transport={"judges": "batch"}), ALIKE, TEN)
    judges = quote.lines[-1]
    assert (judges.transport, judges.left.seconds, quote.left.seconds) == ("batch", None, None)
    online = quote_of(config_of(), ALIKE, TEN)
    assert quote.left == replace(online.left, seconds=None)
    saved = p50(judges.left.usd_online) - p50(judges.left.usd_batch)
    assert p50(online.usd) - p50(quote.usd) == pytest.approx(saved)


def test_a_budget_below_p95_is_named() -> None:
    quote = quote_of(config_of(), ALIKE, TEN)
    assert quote.usd is not None
    assert quote.spent_usd is not None
    enough = quote.spent_usd + quote.usd.p95
    assert not any("budget" in remark for remark in quote_of(config_of(budget_usd=enough + 1e-6), ALIKE, TEN).remarks)
    assert any("budget" in remark for remark in quote_of(config_of(budget_usd=0.99 * enough), ALIKE, TEN).remarks)


def test_without_any_measure_prompt_lengths_stand_in_and_it_says_so() -> None:
    quote = quote_of(config_of(), {}, TEN)
    assert {line.source for line in quote.lines} == {"prompt lengths"}
    calls = {line.stage: line.left.calls.p50 for line in quote.lines}
    assert calls["answers"] == 10
    assert calls["coverage"] == pytest.approx(10 * 5, rel=0.01)
    assert calls["trajectories"] == pytest.approx(8.4 * (10 + 50), rel=0.15)
    answers = quote.lines[0].left.input_tokens
    assert answers.p95 == pytest.approx(2 * answers.p50, rel=0.05)
    assert answers.p50 > 10 * 400 / 4
    assert any(remark.startswith("Rough: answers, rubrics") for remark in quote.remarks)
    assert quote.left.seconds is None


def test_nothing_to_come_costs_nothing() -> None:
    quote = quote_of(config_of(), ALIKE, {})
    assert (quote.left.calls, quote.usd, quote.questions_done) == (Range(0, 0), Range(0, 0), 4)
