"""What the critics learn to write, as text, and the chat around it.

The text is JSON in a fixed key order: RubricData ``{"items": [{"family", "dimension", "level_0", ..., "level_5"}]}``,
RefineData ``{"score", "reason", "suggestion", "refined_answer"}``. It parses back to the row it came from, byte for
byte; JSON escapes what LaTeX, line ends and U+2028 would break in any form of our own.
"""

from collections.abc import Iterator
from typing import Any

import orjson
import polars as pl

from storage.schemas import LEVEL_COLUMNS
from tasks.config import Export
from tasks.prompts import fenced, fenced_item, load_prompt

Chat = dict[str, Any]

_FIELDS = ("score", "reason", "suggestion", "refined_answer")


def target_fields(options: Export) -> list[str]:
    """The fields of RefineData's target, in the paper's order, less those an ablation leaves out."""
    if options.rewrite_only:
        return ["refined_answer"]
    return [name for name in _FIELDS if name not in options.without]


def target_of(data_set: str, row: dict[str, Any], options: Export) -> str:
    """The target's text for one row of an export."""
    shown = {"items": row["rubric"]} if data_set == "rubric_data" else {k: row[k] for k in target_fields(options)}
    return orjson.dumps(shown).decode()


def parse_target(data_set: str, text: str) -> dict[str, Any]:
    """The columns that a target was made from: ``rubric``, or those of ``target_fields``. Bad JSON: ``ValueError``."""
    found = orjson.loads(text)
    return {"rubric": found["items"]} if data_set == "rubric_data" else dict(found)


def chats(data_set: str, rows: pl.DataFrame, options: Export) -> Iterator[Chat]:
    """For each row its ``prompt`` (system and user message) and its ``completion`` (the target)."""
    fields = ", ".join(target_fields(options))
    template = load_prompt("critic_rubric" if data_set == "rubric_data" else "critic_refine")
    for row in rows.iter_rows(named=True):
        shown = {"question": fenced("question", row["question"]), "answer": fenced("answer", row["answer"])}
        if data_set == "refine_data":
            item = fenced_item(row["family"], row["dimension"], [row[level] for level in LEVEL_COLUMNS])
            shown |= {"rubric_item": item, "fields": fields}
        yield {
            "id": row["instance_id"],
            "simulated": row["simulated"],
            "prompt": [{"role": message.role, "content": message.text} for message in template.render(**shown)],
            "completion": [{"role": "assistant", "content": target_of(data_set, row, options)}],
        }
