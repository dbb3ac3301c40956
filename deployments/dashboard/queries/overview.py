"""Where the workspace stands: spend, progress, the runs that the ledger knows."""

from typing import Any

import orjson

from deployments.dashboard.reader import Reader, Row
from storage.ledger import unsealed_attempts
from storage.workspace import Workspace
from tasks.budget import lost_usd
from tasks.config import ASKING

_SPEND = """
    SELECT model, stage, sum(calls)::BIGINT AS calls, sum(input_tokens + output_tokens)::BIGINT AS tokens,
           CASE WHEN sum(unpriced) = 0 THEN sum(cost_usd) END AS cost_usd
    FROM call_counts GROUP BY ALL ORDER BY model, stage
"""
_BUDGET = "SELECT coalesce(sum(most_usd), 0)::DOUBLE AS usd FROM attempt_counts"
_RUNS = """
    SELECT run, min(first_at) AS began, max(last_at) AS ended, sum(attempts)::BIGINT AS attempts,
           coalesce(sum(attempts) FILTER (outcome = 'ok'), 0)::BIGINT AS ok, sum(cost_usd) AS cost_usd
    FROM attempt_counts GROUP BY run ORDER BY ended DESC LIMIT 8
"""


def spend(reader: Reader) -> list[Row]:
    """US dollars, calls and tokens by model and stage; a cost is null where one of its calls' is not known."""
    return reader.rows(_SPEND)


def budget(reader: Reader) -> Row:
    """``limit`` (null for none) and ``used``, which counts as the budget does: what may have been billed is spent."""
    root = reader.workspace.root
    limit = settings(reader.workspace).get("budget_usd")
    if limit is None:
        return {"limit": None, "used": None}
    found = reader.one(_BUDGET) or {"usd": 0.0}
    return {"limit": limit, "used": found["usd"] + lost_usd(root)}


def runs(reader: Reader) -> list[Row]:
    """The last runs by their attempts in the ledger."""
    return reader.rows(_RUNS)


def settings(workspace: Workspace) -> dict[str, Any]:
    """The last run's settings as they were written; none before the first."""
    try:
        found: dict[str, Any] = orjson.loads((workspace.root / "config.json").read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return {}
    return found


def progress(workspace: Workspace, stages: list[Row]) -> Row:
    """A living run: who, attempts in hand, and by stage the batches done of all (``stages`` as ``status.counts``)."""
    shards = len((workspace.read_manifest("questions") or {"shards": []})["shards"])
    rounds = (settings(workspace).get("coverage") or {}).get("rounds", 1)
    each = {"answers": 1, "rubrics": 1 + rounds, "trajectories": 1 + rounds, "coverage": rounds, "judges": 1}
    return {
        "writer": workspace.writer(),
        "in_hand": unsealed_attempts(workspace.root),
        "stages": [
            {"stage": stage["stage"], "done": stage["batches"], "all": max(stage["batches"], shards * each[name])}
            for name, stage in zip(ASKING, stages, strict=True)
        ],
    }
