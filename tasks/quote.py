"""The quote: what a run would still cost and how long it would take, as medians and 95th percentiles.

Prices are those of the config and the price list, online and in vendor batches. The share of input that comes from a
vendor's cache is taken as measured; what is written to a cache counts as other input.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
import polars as pl

from tasks.config import Config
from tasks.forecast import REPLICATES, SOURCES, Array, Forecast, Measured
from tasks.models import Usage
from tasks.models.outcomes import UNBILLED
from tasks.models.prices import prices_of
from tasks.settings import Model
from tasks.standing import Standing
from tasks.trajectories import parts_of

FEW = 10  # questions; below, the resampling of them says little
_MILLION = 1_000_000


@dataclass(frozen=True)
class Range:
    p50: float
    p95: float


@dataclass(frozen=True)
class Amounts:
    """What is still to come; US dollars are None where no price is known, ``seconds`` (at the config's limits, online)
    where nothing is known that bounds them.
    """

    calls: Range
    input_tokens: Range
    output_tokens: Range
    usd_online: Range | None
    usd_batch: Range | None
    seconds: Range | None


@dataclass(frozen=True)
class Line:
    """One stage and model. ``done``: calls that are there. ``source``: what the figures rest on (``SOURCES``)."""

    stage: str
    model: str
    transport: str
    source: str
    done: int
    left: Amounts


@dataclass(frozen=True)
class Quote:
    """What a run of the config would still take, ready for JSON by ``dataclasses.asdict``.

    ``usd`` is at the transports that the config names. Sums in US dollars are short of the models ``without_price``.
    ``spent_usd`` is None where a cost is not known.
    """

    name: str
    simulated: bool
    questions: int
    questions_done: int
    questions_measured: int
    source: str
    lines: list[Line]
    left: Amounts
    usd: Range | None
    without_price: list[str]
    spent_calls: int
    spent_usd: float | None
    budget_usd: float | None
    remarks: list[str]


def price(
    config: Config,
    questions: pl.DataFrame,
    found: Standing,
    measured: Measured,
    forecasts: Sequence[Forecast],
    attempts: pl.DataFrame,
    lost_usd: float,
) -> Quote:
    """The quote of these forecasts for these questions; ``attempts`` and ``lost_usd`` are the ledger's."""
    models = {model.name: model for model in config.models}
    dollars = [_usd(config, models[each.model], each) for each in forecasts]
    transports = [config.transport_of(each.stage, each.model) for each in forecasts]
    online, batch = [pair[0] for pair in dollars], [pair[1] for pair in dollars]
    chosen = [pair[way == "batch"] for pair, way in zip(dollars, transports, strict=True)]
    lines = []
    for each, pair, way in zip(forecasts, dollars, transports, strict=True):
        seconds = None if way == "batch" else _seconds(config, each.model, [each])
        left = _amounts([each], [pair[0]], [pair[1]], seconds)
        lines.append(Line(each.stage, each.model, way, SOURCES[each.basis], each.done, left))
    asked = [each for each in forecasts if each.of("calls").any()]
    unfinished = len(found.unfinished)
    unbilled = pl.col("outcome").is_in([outcome.value for outcome in UNBILLED])
    unknown = attempts.filter(pl.col("cost_usd").is_null() & ~unbilled).height > 0
    quote = Quote(
        name=config.name,
        simulated=config.simulated,
        questions=len(questions),
        questions_done=len(questions) - unfinished,
        questions_measured=len(measured.source),
        source=SOURCES[max((each.basis for each in asked), default=0)],
        lines=lines,
        left=_amounts(forecasts, online, batch, _all_seconds(config, asked, unfinished)),
        usd=_range(_sum(chosen)),
        without_price=sorted({each.model for each, usd in zip(forecasts, chosen, strict=True) if usd is None}),
        spent_calls=attempts["call_id"].n_unique(),
        spent_usd=None if unknown else float(attempts["cost_usd"].sum()) + lost_usd,
        budget_usd=config.budget_usd,
        remarks=[],
    )
    at_most = float(attempts.select(pl.coalesce("cost_usd", "most_usd").sum()).item()) + lost_usd
    strange = set(questions["source"]) - set(measured.source.tolist())
    return replace(quote, remarks=_remarks(quote, asked, strange, at_most))


def _amounts(
    forecasts: Sequence[Forecast],
    online: Sequence[Array | None],
    batch: Sequence[Array | None],
    seconds: Array | None,
) -> Amounts:
    names = ("calls", "input_tokens", "output_tokens")
    calls, sent, received = (np.sum([each.of(name) for each in forecasts], axis=0) for name in names)
    ranges = (_range(column) for column in (calls, sent, received, _sum(online), _sum(batch), seconds))
    return Amounts(*ranges)  # type: ignore[arg-type]  # the first three are known


def _usd(config: Config, model: Model, forecast: Forecast) -> tuple[Array | None, Array | None]:
    """US dollars online and in vendor batches. A longer prompt may raise a price: that of the mean prompt is taken."""
    prices = prices_of(config, model)
    requests, sent = forecast.of("requests").sum(), forecast.of("input_tokens").sum()
    length = max(1, round(sent / requests)) if requests else 1

    def total(batch: bool) -> Array | None:
        def cost(cached: int, received: int) -> float | None:
            return prices.cost_usd(Usage(length, cached, received), batch=batch)

        fresh, cached, more = cost(0, 0), cost(length, 0), cost(0, _MILLION)
        if fresh is None or cached is None or more is None:
            return None
        sent, hit, received = (forecast.of(name) for name in ("input_tokens", "cached_tokens", "output_tokens"))
        return ((sent - hit) * fresh + hit * cached) / length + received * (more - fresh) / _MILLION

    return total(batch=False), total(batch=True)


def _seconds(config: Config, model: str, forecasts: Sequence[Forecast]) -> Array | None:
    """What the model's calls take at the least: by its limits of a minute, and by its latency where all is known."""
    limits = config.limits_of(model)
    asked = [each for each in forecasts if each.of("calls").any()]
    if not asked:
        return np.zeros(REPLICATES)
    requests = np.sum([each.of("requests") for each in asked], axis=0)
    tokens = np.sum([each.of("input_tokens") + each.of("output_tokens") for each in asked], axis=0)
    bounds: list[Array] = []
    if limits.requests_per_minute is not None:
        bounds.append(60 * requests / limits.requests_per_minute)
    if limits.tokens_per_minute is not None:
        bounds.append(60 * tokens / limits.tokens_per_minute)
    if all(_latency(each) is not None for each in asked):
        bounds.append(np.sum([each.of("latency_s") for each in asked], axis=0) / limits.max_concurrency)
    return np.max(bounds, axis=0) if bounds else None


def _all_seconds(config: Config, forecasts: Sequence[Forecast], questions: int) -> Array | None:
    """The slowest model's time, since all work at the same time, and no less than a shard's stages take, one after the
    other, as often as shards follow one another. None with vendor batches, and where a model's time is not known."""
    if any(config.transport_of(each.stage, each.model) == "batch" for each in forecasts):
        return None
    slowest = np.zeros(REPLICATES)
    for name in {each.model for each in forecasts}:
        seconds = _seconds(config, name, [each for each in forecasts if each.model == name])
        if seconds is None:
            return None
        slowest = np.maximum(slowest, seconds)
    often = {
        "coverage": config.coverage.rounds,
        "rubrics": len(parts_of(config)),
        "trajectories": len(parts_of(config)),
    }
    chain = 0.0
    for stage in {each.stage for each in forecasts}:
        chain += often.get(stage, 1) * max(_latency(each) or 0.0 for each in forecasts if each.stage == stage)
    return np.maximum(slowest, chain * ceil(questions / config.shard_size / config.shards_in_flight))


def _latency(forecast: Forecast) -> float | None:
    """Mean seconds of a request, None where none was measured."""
    timed = forecast.of("timed").sum()
    return float(forecast.of("latency_s").sum() / timed) if timed else None


def _remarks(quote: Quote, asked: Sequence[Forecast], strange: set[str], at_most: float) -> list[str]:
    """What the reader of the figures has to know. ``strange``: sources of which nothing is measured; ``at_most``: US
    dollars that are spent, or may be.
    """
    said = []
    if quote.simulated:
        said.append("SIMULATED: no vendor is paid; prices and times are those of simulated models.")
    for basis, name in enumerate(SOURCES):
        stages = ", ".join(dict.fromkeys(each.stage for each in asked if each.basis == basis))
        if stages and name == "prompt lengths":
            said.append(
                f"Rough: {stages} rest on prompt lengths (4 bytes a token, 8.4 rubric items an answer, no thinking); "
                "p95 is a guess. `--pilot N` measures N questions first."
            )
        elif stages and name == "other models":
            said.append(f"Rough: the tokens of {stages} are those of other models in the same part.")
    if asked and 0 < quote.questions_measured < FEW:
        said.append(f"Few questions are measured ({quote.questions_measured}): the spread is wider than p95 can tell.")
    if asked and strange and quote.questions_measured:
        said.append(f"No question of {', '.join(sorted(strange))} is measured: those of the other sources stand in.")
    if quote.without_price:
        names = ", ".join(quote.without_price)
        said.append(f"The sums in US dollars are short of {names}: the price is not known; give it under `prices:`.")
    if any(line.transport == "batch" for line in quote.lines) and asked:
        said.append("Vendor batches answer within 24 hours, and a shard's stages follow one another.")
    if quote.budget_usd is not None and quote.usd is not None and at_most + quote.usd.p95 > quote.budget_usd:
        said.append(
            f"budget_usd {quote.budget_usd:g} is below what the run may come to: {at_most:.4f} spent and "
            f"{quote.usd.p95:.4f} (p95) still to be paid."
        )
    return said


def _range(replicates: Array | None) -> Range | None:
    if replicates is None:
        return None
    p50, p95 = np.quantile(replicates, (0.5, 0.95))
    return Range(float(p50), float(p95))


def _sum(columns: Sequence[Array | None]) -> Array | None:
    """Of the columns that are known; None where none is."""
    known = [column for column in columns if column is not None]
    return np.sum(known, axis=0) if known else None
