"""What a critic is asked about, from a reference file: RefineData's or RubricData's export, Feedback Bench, or any
JSONL, JSON, CSV or Parquet file with question, answer, dimension and level_0 to level_5 (from 1, on such a scale).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from storage.schemas import LEVEL_COLUMNS
from tasks.critic import ITEM
from tasks.evaluation.tables import KEYS, TableError
from tasks.sources.faults import BadRow
from tasks.sources.rows import read_rows

COLUMNS = ("question", "answer", *ITEM)
_NEEDED = ("question", "answer", "dimension")
_BENCH = {
    "question": "orig_instruction",
    "answer": "orig_response",
    "dimension": "orig_criteria",
    **{f"level_{level}": f"orig_score{level}_description" for level in range(1, 6)},
}


def read_items(path: Path, columns: Mapping[str, str] | None = None, limit: int | None = None) -> pl.DataFrame:
    """A row for each of the file's, in its order: ``COLUMNS``, family and levels null where the file has none; its ids.

    ``columns`` gives a column of the file another name, as ``{"reference.question": "prompt"}``. Raises ``TableError``.
    """
    rows = _rows(path, limit)
    there = {name for _, row in rows for name in row}
    names = {name: _BENCH.get(name, name) for name in COLUMNS} if _BENCH["dimension"] in there else {}
    given = {name.removeprefix("reference."): column for name, column in (columns or {}).items()}
    names = {name: given.get(name, names.get(name, name)) for name in COLUMNS}
    lacking = [names[name] for name in COLUMNS if (name in _NEEDED or name in given) and names[name] not in there]
    if lacking:
        raise TableError(
            f"{path}: no column {lacking[0]!r} to ask a critic about; name it by --column, as reference.question=prompt"
        )
    found, ids = [], [name for name in KEYS if name in there]
    for number, row in rows:
        texts = {name: _text(row.get(column)) for name, column in names.items()}
        if empty := [names[name] for name in _NEEDED if texts[name] is None]:
            raise TableError(f"{path}:{number}: no {empty[0]}")
        found.append(texts | {name: _text(row.get(name)) for name in ids})
    items = pl.DataFrame(found, schema=dict.fromkeys((*COLUMNS, *ids), pl.String))
    if all(items[name].null_count() == len(items) for name in LEVEL_COLUMNS):
        raise TableError(f"{path}: no column says what a score means: level_0 to level_5")
    return items


def lowest_score(items: pl.DataFrame) -> int:
    """The lowest score of the items' scale: 0, or 1 where no item has a level 0."""
    return 1 if items["level_0"].null_count() == len(items) else 0


def read_answers(path: Path, limit: int | None = None) -> pl.DataFrame:
    """RubricData's rows: question_id, instance_id, question, answer and rubric (dimension names). ``TableError``."""
    found = []
    for number, row in _rows(path, limit):
        texts = {name: _text(row.get(name)) for name in ("instance_id", "question", "answer")}
        if empty := [name for name, text in texts.items() if text is None]:
            raise TableError(f"{path}:{number}: no {empty[0]}")
        rubric = row.get("rubric")
        if not isinstance(rubric, list) or not all(isinstance(item, dict) and item.get("dimension") for item in rubric):
            raise TableError(f"{path}:{number}: rubric is no list of items with a dimension")
        question_id = _text(row.get("question_id")) or texts["question"]
        found.append({**texts, "question_id": question_id, "dimensions": [str(item["dimension"]) for item in rubric]})
    return pl.DataFrame(found)


def has_rubrics(path: Path) -> bool:
    """Whether the file's rows are RubricData's: whole rubrics, no single item."""
    _, row = next(iter(read_rows(path.absolute())))
    return not isinstance(row, BadRow) and "rubric" in row and "dimension" not in row


def _rows(path: Path, limit: int | None) -> list[tuple[int, dict[str, Any]]]:
    rows = []
    for number, row in read_rows(path.absolute()):
        if isinstance(row, BadRow):
            raise TableError(str(row))
        rows.append((number, row))
        if len(rows) == limit:
            break
    if not rows:
        raise TableError(f"{path}: no row in it")
    return rows


def _text(value: Any) -> str | None:
    return None if value is None or value == "" else str(value)
