"""The rows of a local file, one at a time: JSONL, JSON, CSV or Parquet. JSONL, CSV and Parquet are streamed."""

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tasks.sources.faults import BadRow, SourceError
from tasks.sources.json_text import BOM, parse_list, parse_object

LONGEST_CSV_FIELD = 2**26  # characters
PARQUET_BATCH = 4096  # rows
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")

Rows = Iterator[tuple[int, dict[str, Any] | BadRow]]


def read_rows(path: Path, columns: Sequence[str] = ()) -> Rows:
    """Every row with its number, from 1: in JSONL the line's (blank lines are counted, not read), else the record's.

    ``columns`` are those that a CSV or Parquet file must have; of Parquet only they are read (all, when none is
    given). Raises ``SourceError`` for a file that is missing, unreadable, empty, of an unknown format or encoding,
    without one of ``columns``, or (.json) not a list.
    """
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise SourceError(f"{path}: unknown format {path.suffix!r}; a source is a {', '.join(READERS)} file")
    if path.is_dir():
        raise SourceError(f"{path}: this is a folder; name a file in it")
    with _readable(path), path.open("rb") as file:
        start = file.read(2)
    if not start:
        raise SourceError(f"{path}: the file is empty")
    if start in (b"\xff\xfe", b"\xfe\xff"):
        raise SourceError(f"{path}: the text is UTF-16; save it as UTF-8")
    return reader(path, columns)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise SourceError(f"{path}: no such file (a relative path starts at the config's folder)") from None
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror or error}") from None


def _jsonl(path: Path, columns: Sequence[str]) -> Rows:
    with _readable(path), path.open("rb") as file:
        for number, line in enumerate(file, 1):  # a binary file's lines end at "\n" and nowhere else
            if number == 1:
                line = line.removeprefix(BOM)
            if line.strip():
                try:
                    row: dict[str, Any] | BadRow = parse_object(line)
                except ValueError as error:
                    row = BadRow(str(path), number, str(error))
                yield number, row


def _json(path: Path, columns: Sequence[str]) -> Rows:
    with _readable(path):
        data = path.read_bytes().removeprefix(BOM)
    try:
        elements = parse_list(data)
    except ValueError as error:
        raise SourceError(
            f"{path}: {error}. A .json file holds one list of objects; with an object on each line, name it .jsonl"
        ) from None
    for number, (element, finite) in enumerate(elements, 1):
        if type(element) is not dict:
            yield number, BadRow(str(path), number, "not a JSON object")
        elif not finite:
            yield number, BadRow(str(path), number, "not JSON: NaN or an infinity is no number there")
        else:
            yield number, element


def _csv(path: Path, columns: Sequence[str]) -> Rows:
    csv.field_size_limit(LONGEST_CSV_FIELD)
    # A byte that is not UTF-8 becomes a surrogate, which no UTF-8 holds, so that its row alone is bad.
    with _readable(path), path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        lines = csv.reader(file, strict=True)
        try:
            header = next(lines, [])
        except csv.Error as error:
            raise SourceError(f"{path}: the header is not CSV: {error}") from None
        _check_columns(path, header, columns)
        number = 0
        while True:
            try:
                values = next(lines, None)
            except csv.Error as error:
                number += 1
                yield number, BadRow(str(path), number, f"not CSV: {error} (the record ends at line {lines.line_num})")
                continue
            if values is None:
                return
            if not values:
                continue
            number += 1
            if len(values) != len(header):
                reason = f"{len(values)} fields where the header has {len(header)} (line {lines.line_num})"
                yield number, BadRow(str(path), number, reason)
            elif any(not value.isascii() and _ESCAPED_BYTE.search(value) for value in values):
                yield number, BadRow(str(path), number, f"not UTF-8 (line {lines.line_num})")
            else:
                yield number, dict(zip(header, values, strict=True))


def _parquet(path: Path, columns: Sequence[str]) -> Rows:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            _check_columns(path, names, columns)
            number = 0
            for batch in file.iter_batches(PARQUET_BATCH, columns=list(columns) or names):
                names = batch.schema.names
                for values in zip(*map(_values, batch.columns), strict=True):
                    number += 1
                    if any(value is UnicodeDecodeError for value in values):
                        yield number, BadRow(str(path), number, "not UTF-8")
                    else:
                        yield number, dict(zip(names, values, strict=True))
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{path}: not a Parquet file that can be read: {error}") from None


def _values(column: Any) -> list[Any]:
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        return [_value(scalar) for scalar in column]


def _value(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return UnicodeDecodeError


def _check_columns(path: Path, names: Sequence[str], wanted: Sequence[str]) -> None:
    missing = [name for name in wanted if name not in names]
    if missing:
        raise SourceError(
            f"{path}: no column {' or '.join(map(repr, missing))}; the file has {', '.join(map(repr, names)) or 'none'}"
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SourceError(f"{path}: more than one column is named {', '.join(map(repr, twice))}")


READERS = {".jsonl": _jsonl, ".json": _json, ".csv": _csv, ".parquet": _parquet}
