"""The annotation batches: the grid of their states, and one batch's counts, failures, examples, cost and time."""

from dataclasses import dataclass
from typing import Any

from deployments.dashboard.queries.overview import settings
from deployments.dashboard.reader import Reader, Row
from storage.workspace import Workspace

SHARDS_A_PAGE = 60
EXAMPLES = 12

# What a state is called, and the sign that tells it without its colour.
STATES = {
    "done": ("✓", "done"),
    "failures": ("△", "done, some calls failed"),
    "red": ("✕", "red: too many failed, or a model was stopped"),
    "waiting": ("…", "waits for vendor batches"),
    "absent": ("·", "not yet"),
}

_BY_CLASS = """
    SELECT model, outcome, sum(calls)::BIGINT AS calls, sum(attempts)::BIGINT AS attempts, sum(cost_usd) AS cost_usd
    FROM call_counts WHERE batch = $batch GROUP BY ALL ORDER BY model, outcome
"""
_TIMES = "SELECT min(first_at) AS began, max(last_at) AS ended FROM call_counts WHERE batch = $batch"
_EXAMPLES = """
    SELECT call_id, model, outcome, error, item_id, answer_id, question_id FROM (
        SELECT *, row_number() OVER (PARTITION BY model, outcome ORDER BY finished_at DESC, call_id) AS place
        FROM calls WHERE shard = $shard AND batch = $batch AND outcome NOT IN ('ok', 'todo')
    ) WHERE place <= 3 ORDER BY outcome, model LIMIT $most
"""


@dataclass(frozen=True)
class Grid:
    """``cells`` has, for each shard shown, a state for each of ``columns`` (stage, part)."""

    columns: list[tuple[str, str]]
    shards: list[str]
    cells: dict[tuple[str, str, str], Row]
    total: int
    counts: dict[str, int]


def grid(workspace: Workspace, offset: int = 0, state: str | None = None) -> Grid:
    """The states of a page of shards, those alone that have a batch of ``state`` where one is asked for."""
    shards = list((workspace.read_manifest("questions") or {"shards": []})["shards"])
    columns = _columns(workspace)
    cells: dict[tuple[str, str, str], Row] = {}
    counts = dict.fromkeys(STATES, 0)
    for stage in dict.fromkeys(stage for stage, _ in columns):
        for manifest in workspace.manifests(stage):
            key = (manifest["stage"], manifest["shard"], manifest["part"])
            cells[key] = manifest | {"state": state_of(manifest)}
            counts[cells[key]["state"]] += 1
    counts["absent"] = max(0, len(shards) * len(columns) - len(cells))
    if state:
        shards = [
            shard
            for shard in shards
            if any(cells.get((stage, shard, part), {"state": "absent"})["state"] == state for stage, part in columns)
        ]
    return Grid(columns, shards[offset : offset + SHARDS_A_PAGE], cells, len(shards), counts)


def state_of(manifest: Row) -> str:
    if manifest["red"]:
        return "red"
    if manifest["todo"]:
        return "waiting"
    return "failures" if manifest["failed"] else "done"


def _columns(workspace: Workspace) -> list[tuple[str, str]]:
    """(stage, part) in the order of a shard's batches."""
    rounds = (settings(workspace).get("coverage") or {}).get("rounds", 1)
    found = [(stage, "pool") for stage in ("answers", "rubrics", "trajectories")]
    for number in range(1, rounds + 1):
        found += [(stage, f"coverage-{number}") for stage in ("coverage", "rubrics", "trajectories")]
    return [*found, ("judges", "all")]


def batch(reader: Reader, stage: str, shard: str, part: str) -> dict[str, Any] | None:
    """A batch's manifest with ``by_class``, ``times`` and ``examples``; None where there is none."""
    manifest = reader.workspace.read_manifest(stage, shard, part)
    if manifest is None:
        return None
    name = f"{stage} {shard} {part}"
    return manifest | {
        "name": name,
        "state": state_of(manifest),
        "by_class": reader.rows(_BY_CLASS, {"batch": name}),
        "times": reader.one(_TIMES, {"batch": name}),
        "examples": reader.rows(_EXAMPLES, {"batch": name, "shard": shard, "most": EXAMPLES}),
    }
