"""The models: calls, failures, tokens, cost, latency, and when they said to wait."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from deployments.dashboard.reader import Reader, Row
from storage.waits import read_waits
from storage.workspace import Workspace

POINTS = 48  # of a line over time, at the most
STEPS_MIN = (1, 5, 15, 60, 180, 360, 720, 1440, 10_080)

_MODELS = """
    SELECT c.model, sum(calls)::BIGINT AS calls, coalesce(sum(calls) FILTER (outcome = 'ok'), 0)::BIGINT AS ok,
           coalesce(sum(calls) FILTER (outcome NOT IN ('ok', 'todo')), 0)::BIGINT AS failed,
           sum(attempts)::BIGINT AS attempts, sum(input_tokens)::BIGINT AS input_tokens,
           sum(cached_tokens)::BIGINT AS cached_tokens, sum(output_tokens)::BIGINT AS output_tokens,
           sum(thinking_tokens)::BIGINT AS thinking_tokens,
           CASE WHEN sum(unpriced) = 0 THEN sum(cost_usd) END AS cost_usd,
           any_value(l.seconds) AS seconds, any_value(l.longest) AS longest
    FROM call_counts c LEFT JOIN latencies l ON l.model = c.model
    GROUP BY c.model ORDER BY calls DESC
"""
_FAILURES = """
    SELECT model, outcome, stage, sum(calls)::BIGINT AS calls FROM call_counts
    WHERE outcome NOT IN ('ok', 'todo') GROUP BY ALL ORDER BY calls DESC, model, outcome, stage
"""
_SPAN = "SELECT min(minute) AS first, max(minute) AS last FROM attempt_counts"
_OVER_TIME = """
    SELECT time_bucket(to_minutes($step), minute) AS time, model, sum(attempts)::BIGINT AS attempts,
           coalesce(sum(attempts) FILTER (outcome <> 'ok'), 0)::BIGINT AS failed
    FROM attempt_counts GROUP BY ALL ORDER BY ALL
"""


def models(reader: Reader) -> list[Row]:
    """A row a model; ``seconds`` are the median, 90 % and 99 % of its successful online calls."""
    return reader.rows(_MODELS)


def failures(reader: Reader) -> list[Row]:
    return reader.rows(_FAILURES)


@dataclass(frozen=True)
class OverTime:
    """A value for each of ``labels``, by model: attempts, those that failed, and 429s that said to wait."""

    labels: list[str]
    attempts: dict[str, list[float]]
    failed: dict[str, list[float]]
    waits: dict[str, list[float]]


def over_time(reader: Reader) -> OverTime | None:
    """What the ledger's attempts and the runs' waits were like, in at most ``POINTS`` steps; None before the first."""
    waits = read_waits(reader.workspace.root)
    span = reader.one(_SPAN) or {"first": None}
    if span["first"] is None:
        return None
    minutes = [datetime.fromisoformat(wait["minute"]) for wait in waits]
    first, last = min([span["first"], *minutes]), max([span["last"], *minutes])
    length = (last - first) / timedelta(minutes=1)
    step = next((step for step in STEPS_MIN if length / step <= POINTS), STEPS_MIN[-1])
    start = _floor(first, step)
    points = int((last - start) / timedelta(minutes=step)) + 1
    found = reader.rows(_OVER_TIME, {"step": step})

    def series(rows: Sequence[tuple[str, datetime, float]]) -> dict[str, list[float]]:
        lines: dict[str, list[float]] = {}
        for model, time, value in rows:
            place = int((time - start) / timedelta(minutes=step))
            if 0 <= place < points:
                lines.setdefault(model, [0.0] * points)[place] += value
        return dict(sorted(lines.items()))

    pattern = "%H:%M" if step < 60 else "%d.%m. %Hh" if step < 1440 else "%Y-%m-%d"
    labels = [f"{start + place * timedelta(minutes=step):{pattern}}" for place in range(points)]
    return OverTime(
        labels,
        series([(row["model"], row["time"], row["attempts"]) for row in found]),
        series([(row["model"], row["time"], row["failed"]) for row in found if row["failed"]]),
        series([(wait["model"], time, wait["times"]) for wait, time in zip(waits, minutes, strict=True)]),
    )


def _floor(time: datetime, step: int) -> datetime:
    """The bucket as DuckDB's time_bucket has it: counted from Monday 2000-01-03, UTC."""
    origin = datetime(2000, 1, 3, tzinfo=time.tzinfo)
    return time - (time - origin) % timedelta(minutes=step)


def waits_by_model(workspace: Workspace) -> dict[str, Row]:
    """How often each model said to wait, and the seconds that it said in all."""
    found: dict[str, Row] = {}
    for wait in read_waits(workspace.root):
        row = found.setdefault(wait["model"], {"times": 0, "told_s": 0.0})
        row["times"] += wait["times"]
        row["told_s"] += wait["told_s"]
    return found
