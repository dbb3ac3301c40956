"""``criticgen failures``: the calls that ended in a class of failure, counted, with examples."""

from typing import Any

from storage.queries import connect
from storage.workspace import Workspace

EXAMPLES = 3
SHOWN = 160  # characters of an error or a text's first line

_CALLS = """
    SELECT stage, model, outcome AS class, count(*) AS calls, sum(attempts)::BIGINT AS attempts,
           sum(cost_usd) AS cost_usd, (list(call_id ORDER BY finished_at DESC, call_id))[:$examples] AS call_ids
    FROM calls
    WHERE wanted AND outcome NOT IN ('ok', 'todo')
      AND ($stage IS NULL OR stage = $stage) AND ($model IS NULL OR model = $model)
      AND ($class IS NULL OR outcome = $class)
    GROUP BY stage, model, outcome ORDER BY calls DESC, stage, model, class
"""
_EXAMPLES = """
    SELECT call_id, error, text, raw FROM (
        SELECT c.call_id, c.error, l.text, l.raw,
               row_number() OVER (PARTITION BY l.call_id ORDER BY l.attempt DESC, l.finished_at DESC) AS place
        FROM calls c JOIN ledger l USING (call_id) WHERE list_contains($ids, l.call_id)
    ) WHERE place = 1
"""


def failures(
    workspace: Workspace, stage: str | None = None, model: str | None = None, class_: str | None = None
) -> list[dict[str, Any]]:
    """A row for each stage, model and class: ``calls``, ``attempts``, ``cost_usd`` and up to three ``examples``.

    An example is a call id, the error, and the first line of the last attempt's text (of its body, where it has
    no text).
    """
    with connect(workspace) as connection:
        asked = {"stage": stage, "model": model, "class": class_, "examples": EXAMPLES}
        groups: list[dict[str, Any]] = _rows(connection.sql(_CALLS, params=asked))
        ids = [call_id for group in groups for call_id in group["call_ids"]]
        found = _rows(connection.sql(_EXAMPLES, params={"ids": ids})) if ids else []
    examples = {
        row["call_id"]: {
            "call_id": row["call_id"],
            "error": _first_line(row["error"]),
            "first_line": _first_line(row["raw"] if row["text"] is None else row["text"]),
        }
        for row in found
    }
    return [
        {name: value for name, value in group.items() if name != "call_ids"}
        | {"examples": [examples[call_id] for call_id in group["call_ids"] if call_id in examples]}
        for group in groups
    ]


def _rows(result: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = result.to_arrow_table().to_pylist()
    return rows


def _first_line(text: str | None) -> str | None:
    """The first line with anything on it, without control characters, which a terminal would obey."""
    line = next((line for line in (text or "").splitlines() if line.strip()), None)
    if line is None:
        return None
    line = "".join(character if character.isprintable() else "\ufffd" for character in line.strip()[: SHOWN + 1])
    return line if len(line) <= SHOWN else f"{line[:SHOWN]}..."
