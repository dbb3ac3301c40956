"""Predictions and references from files, by column names: JSONL, JSON, CSV or Parquet.

A reference file is RefineData's export (``exports/refine_data/test.parquet``), any file with such columns, or
Feedback Bench (appendix F), whose rows are

    {"orig_instruction": "...", "orig_response": "...", "orig_reference_answer": "...", "orig_criteria": "...",
     "orig_score1_description": "...", ..., "orig_score": "4", ...}

on a scale from 1 to 5, and without an id: there, rows with the same instruction, response and criteria are one.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import xxhash

from storage.errors import UserError
from tasks.sources.faults import BadRow
from tasks.sources.rows import read_rows

KEYS = ("item_id", "instance_id")
TEXTS = ("reason", "suggestion", "answer", "refined_answer", "reference_answer", "source", "family", "generator")
NUMBERS = ("score", "score_before", "score_after")
CONTENT = ("orig_instruction", "orig_response", "orig_criteria")
_ROW = "row"


class TableError(UserError):
    """A file that cannot be used; the message names file, row and column."""


class Scale(NamedTuple):
    """Lowest and highest score."""

    low: float
    high: float


class Pairs(NamedTuple):
    """Joined rows: a reference's columns as they are, a prediction's with ``predicted_`` in front."""

    frame: pl.DataFrame
    scale: Scale
    out_of_scale: int  # predicted scores outside the scale: counted, and then no score
    without_reference: int  # predictions that no reference has


def read_pairs(
    predictions: Path,
    reference: Path,
    *,
    columns: Mapping[str, str] | None = None,
    key: str | None = None,
    in_order: bool = False,
    scale: Scale | None = None,
    limit: int | None = None,
) -> Pairs:
    """Every reference row, or so many of the first, with its prediction, or with nulls.

    ``columns`` gives a column another name, as ``{"predictions.score": "rating"}``. Rows are joined by ``key``, else
    by item_id or instance_id, else (Feedback Bench) by their content; or by their order. Raises ``TableError``.
    """
    names = dict(columns or {})
    if unknown := [name for name in names if name not in _NAMES]:
        raise TableError(f"column {unknown[0]!r} is not known: {', '.join(_NAMES)}")
    sides = {
        side: _read(path, names, side, key) for side, path in (("predictions", predictions), ("reference", reference))
    }
    if limit is not None:
        sides["reference"] = sides["reference"].head(limit)
    scale = scale or (Scale(1, 5) if "content" in sides["reference"].columns else Scale(0, 5))
    shared = _shared_key(sides, key, in_order)
    for side, path in (("predictions", predictions), ("reference", reference)):
        repeated = sides[side].filter(pl.col(shared).is_duplicated())
        if len(repeated):
            raise TableError(f"{path}: {shared} {repeated[shared][0]!r} stands in more than one row")
    given = sides["predictions"].rename(lambda name: name if name == shared else f"predicted_{name}")
    joined = sides["reference"].join(given, on=shared, how="left", maintain_order="left")
    matched = sides["reference"].join(given, on=shared, how="semi")
    if matched.is_empty():
        raise TableError(f"no {shared} of {predictions} is in {reference}")
    outside = pl.lit(False)
    if "predicted_score" in joined.columns:
        outside = ~pl.col("predicted_score").is_between(scale.low, scale.high)
        count = joined.filter(outside).height
        joined = joined.with_columns(predicted_score=pl.when(~outside).then("predicted_score"))
    else:
        count = 0
    if "score" in joined.columns and len(bad := joined.filter(~pl.col("score").is_between(scale.low, scale.high))):
        raise TableError(
            f"{reference}: score {bad['score'][0]:g} is outside the scale {scale.low:g} to {scale.high:g}; "
            "give the right one by --scale"
        )
    return Pairs(joined, scale, count, len(sides["predictions"]) - len(matched))


_NAMES = tuple(f"{side}.{name}" for side in ("predictions", "reference") for name in (*NUMBERS, *TEXTS))


def _read(path: Path, names: Mapping[str, str], side: str, key: str | None) -> pl.DataFrame:
    wanted = {name: names.get(f"{side}.{name}", name) for name in (*NUMBERS, *TEXTS)}
    keep = {*wanted.values(), *KEYS, *CONTENT, "orig_score", *([key] if key else [])}
    rows, numbers = [], []
    for number, row in read_rows(path.absolute()):
        if isinstance(row, BadRow):
            raise TableError(str(row))
        rows.append({name: row.get(name) for name in keep if name in row})
        numbers.append(number)
    if not rows:
        raise TableError(f"{path}: no row in it")
    there = {name for row in rows for name in row}
    if absent := [names[full] for full in names if full.startswith(f"{side}.") and names[full] not in there]:
        raise TableError(f"{path}: no column {absent[0]!r}; it has {', '.join(sorted(there))}")
    if key is not None and key not in there:
        raise TableError(f"{path}: no column {key!r} to join by")
    bench = set(CONTENT) <= there
    if bench and side == "reference" and wanted["score"] == "score":
        wanted["score"] = "orig_score"
    columns: dict[str, pl.Series] = {_ROW: pl.Series(numbers, dtype=pl.Int64)}
    for name, column in wanted.items():
        if column in there:
            values = [row.get(column) for row in rows]
            columns[name] = (
                pl.Series(
                    [_number(value, path, numbers[at], column) for at, value in enumerate(values)], dtype=pl.Float64
                )
                if name in NUMBERS
                else pl.Series([None if value is None else str(value) for value in values], dtype=pl.String)
            )
    for name in dict.fromkeys([*([key] if key else []), *KEYS]):
        if name in there and name not in columns:
            columns[name] = pl.Series(
                [None if row.get(name) is None else str(row[name]) for row in rows], dtype=pl.String
            )
            if columns[name].has_nulls():
                raise TableError(f"{path}:{numbers[columns[name].is_null().arg_true()[0]]}: no {name}")
    if bench:
        columns["content"] = pl.Series([_content(row) for row in rows])
    return pl.DataFrame(columns)


def _shared_key(sides: Mapping[str, pl.DataFrame], key: str | None, in_order: bool) -> str:
    if in_order:
        lengths = [len(frame) for frame in sides.values()]
        if lengths[0] != lengths[1]:
            raise TableError(f"rows cannot be joined by their order: {lengths[0]} predictions, {lengths[1]} references")
        for side, frame in sides.items():
            sides[side].replace_column(frame.get_column_index(_ROW), pl.Series(_ROW, range(len(frame))))
        return _ROW
    for name in (key, *KEYS, "content"):
        if name is not None and all(name in frame.columns for frame in sides.values()):
            return name
    raise TableError(
        f"no column to join by: neither {' nor '.join(KEYS)} is in both files; name one by --key, or say --in-order "
        "where their rows correspond"
    )


def _number(value: Any, path: Path, row: int, column: str) -> float | None:
    if value is None or value == "":
        return None
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise TableError(f"{path}:{row}: {column} {value!r:.60} is no number")
    return number


def _content(row: Mapping[str, Any]) -> str:
    """A hash of what makes two rows of Feedback Bench one."""
    return xxhash.xxh3_128_hexdigest("\0".join(str(row.get(name)) for name in CONTENT).encode(errors="replace"))


def missing(frame: pl.DataFrame, names: Sequence[str]) -> str | None:
    """The first of the columns that a joined frame lacks, in words."""
    for name in names:
        if name not in frame.columns:
            side, column = ("predictions", name[10:]) if name.startswith("predicted_") else ("reference", name)
            return (
                f"the {side} have no column {column}"
                if side == "predictions"
                else f"the reference has no column {column}"
            )
    return None
