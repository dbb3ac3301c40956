"""The user's own SQL: run under limits, kept as files of the workspace, shown as a table or a chart."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from storage.errors import UserError
from storage.limited_sql import select_limited
from storage.workspace import Workspace, write_bytes

SHOWN_ROWS = 500
CHART_POINTS = 120
DOWNLOADED_ROWS = 1_000_000

# For a start. What is saved from the page stands in the workspace's folder ``queries``.
SHIPPED = {
    "Why items were dropped": "SELECT reason, count(*) AS items\nFROM consensus\nGROUP BY reason\nORDER BY items DESC",
    "Mean score by generator": "SELECT answers.model, round(avg(score), 2) AS mean_score\nFROM answers\n"
    "JOIN trajectories USING (answer_id)\nWHERE role = 'teacher'\nGROUP BY ALL\nORDER BY ALL",
    "Scores by family": "SELECT score, count(*) FILTER (family = 'subjective') AS subjective,\n"
    "       count(*) FILTER (family = 'objective') AS objective,\n"
    "       count(*) FILTER (family = 'self_derived') AS self_derived\n"
    "FROM rubrics\nJOIN trajectories USING (item_id)\nWHERE role = 'teacher'\nGROUP BY score\nORDER BY score",
    "Failures with their errors": "SELECT stage, model, outcome, error, calls\nFROM (\n"
    "  SELECT stage, model, outcome, error, count(*) AS calls\n"
    "  FROM calls\n  WHERE outcome <> 'ok'\n  GROUP BY ALL\n)\nORDER BY calls DESC\nLIMIT 50",
    "Longest calls": "SELECT call_id, stage, model, latency_s, output_tokens\nFROM calls\n"
    "ORDER BY latency_s DESC\nLIMIT 50",
    "Rubric items of an answer": "SELECT answer_id, count(*) AS items, count(DISTINCT family) AS families\n"
    "FROM rubrics\nGROUP BY answer_id\nORDER BY items DESC\nLIMIT 50",
}
_NAME = re.compile(r"[\w][\w -]{0,60}")


class NotSaved(UserError):
    """The query cannot be kept under this name."""


@dataclass(frozen=True)
class Result:
    """``columns``, and the first ``SHOWN_ROWS`` rows; ``more`` where there are others."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    more: bool


def run(workspace: Workspace, sql: str) -> Result:
    """Raises ``QueryError``."""
    table = select_limited(workspace.root, sql, rows=SHOWN_ROWS + 1)
    # By place: two columns may have one name.
    columns = list(table.column_names)
    values = [column.to_pylist() for column in table.slice(0, SHOWN_ROWS).columns]
    return Result(columns, list(zip(*values, strict=True)), len(table) > SHOWN_ROWS)


def series(result: Result) -> tuple[list[str], dict[str, list[float | None]]]:
    """For a chart: labels from the first column, a series of each later column that holds numbers."""
    rows = result.rows[:CHART_POINTS]
    found = {}
    for place, name in enumerate(result.columns[1:], start=1):
        values = [row[place] for row in rows]
        if all(value is None or _is_number(value) for value in values):
            found[name] = [None if value is None else float(value) for value in values]
    return ["–" if row[0] is None else str(row[0])[:24] for row in rows], found


def _is_number(value: Any) -> bool:
    from decimal import Decimal

    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def saved(workspace: Workspace) -> Mapping[str, str]:
    """Queries by name: those shipped, and the workspace's own."""
    files = sorted((workspace.root / "queries").glob("*.sql"))
    return SHIPPED | {file.stem: file.read_text(errors="replace") for file in files}


def save(workspace: Workspace, name: str, sql: str) -> None:
    """Raises ``NotSaved`` for a name that is none."""
    if not _NAME.fullmatch(name) or not sql.strip():
        raise NotSaved("a name for a query has letters, digits, blanks and dashes, and the query some text")
    write_bytes(workspace.root / "queries" / f"{name}.sql", sql.encode())
