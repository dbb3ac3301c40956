"""Pairs of rubrics to rate: RubricData's export against another such file or the static rubric.

A row has instance_id, question, answer, and rubric: a list of items {family, dimension, level_0, ..., level_5}, or
text; source where the sample is to be spread over the sources.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from storage.schemas import LEVEL_COLUMNS
from tasks.evaluation.ratings import RatingError, RubricPair
from tasks.evaluation.static_rubric import STATIC_RUBRIC
from tasks.sources.faults import BadRow
from tasks.sources.rows import read_rows

_WANTED = ("instance_id", "question", "answer", "rubric")
STATIC = "static"


def read_rubric_pairs(
    rubrics: Path, against: str, *, sample: int | None = None, seed: int = 0
) -> tuple[list[RubricPair], tuple[str, str]]:
    """The pairs and the two systems' names (the files' folder and name, or ``static``). Raises ``RatingError``.

    Answers that only one file has are left out. A sample takes as many of each source as it can.
    """
    rows = _rows(rubrics)
    if against == STATIC:
        static = rubric_text(
            [{**item._asdict(), **dict(zip(LEVEL_COLUMNS, item.levels, strict=True))} for item in STATIC_RUBRIC]
        )
        others = dict.fromkeys(rows, static)
    else:
        others = {name: rubric_text(row["rubric"]) for name, row in _rows(Path(against)).items()}
    ids = [name for name in rows if name in others]
    if not ids:
        raise RatingError(f"no instance_id of {rubrics} is in {against}")
    if sample is not None:
        ids = _spread(ids, [str(rows[name].get("source")) for name in ids], sample, seed)
    pairs = [
        RubricPair(name, str(row["question"]), str(row["answer"]), (rubric_text(row["rubric"]), others[name]))
        for name, row in ((name, rows[name]) for name in ids)
    ]
    return pairs, (_system(rubrics), against if against == STATIC else _system(Path(against), rubrics))


def rubric_text(rubric: str | Sequence[Mapping[str, Any]]) -> str:
    """A rubric as a rater reads it."""
    if isinstance(rubric, str):
        return rubric
    items = []
    for number, item in enumerate(rubric, 1):
        levels = [f"   {name[-1]}: {item[name]}" for name in LEVEL_COLUMNS if item.get(name)]
        items.append(
            "\n".join([f"{number}. {item['dimension']} ({str(item.get('family', '')).replace('_', '-')})", *levels])
        )
    return "\n".join(items)


def _rows(path: Path) -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for number, row in read_rows(path.absolute()):
        if isinstance(row, BadRow):
            raise RatingError(str(row))
        if lacking := [name for name in _WANTED if not row.get(name)]:
            raise RatingError(f"{path}:{number}: no {lacking[0]}; a row has {', '.join(_WANTED)}")
        rows[str(row["instance_id"])] = row
    return rows


def _spread(ids: Sequence[str], sources: Sequence[str], sample: int, seed: int) -> list[str]:
    """Round after round one of each source, in a drawn order."""
    order = np.random.default_rng(seed).permutation(len(ids))
    drawn = pl.DataFrame({"id": [ids[at] for at in order], "source": [sources[at] for at in order]})
    turns = drawn.with_columns(turn=pl.int_range(pl.len()).over("source"))
    return turns.sort("turn", "source", maintain_order=True)["id"].head(sample).to_list()


def _system(path: Path, other: Path | None = None) -> str:
    return path.stem if other is None or path.stem != other.stem else f"{path.parent.name}/{path.stem}"
