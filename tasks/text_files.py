"""The texts of any JSONL, JSON, CSV or Parquet file, read in frames: for the lexical commands.

A row is an id and a text, its fields joined by a line break. A null field is an empty one. Parquet is read by columns,
only those that are named; the other formats row by row.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from storage.errors import UserError
from tasks.sources.faults import BadRow, described
from tasks.sources.rows import read_rows

AT_A_TIME = 8192  # rows


class TextFileError(UserError):
    """A file cannot be read as texts; the message says where and why."""


def read_texts(path: Path, fields: Sequence[str], id_field: str | None = None) -> Iterator[pl.DataFrame]:
    """Frames of ``instance_id`` and ``text``. Without ``id_field`` the id is the row's number in the file, from 1.

    Raises ``TextFileError`` for a row that cannot be read, lacks a field, or has something else than text there (an
    id may be a whole number too), and ``SourceError`` for a file that cannot be read.
    """
    columns = [*dict.fromkeys([*fields, *([id_field] if id_field else [])])]
    if path.suffix.lower() == ".parquet" and path.is_file():
        frames = _parquet(path, columns, fields, id_field)
    else:
        frames = _rows(path, columns, fields, id_field)
    number = 1
    for frame in frames:
        ids = pl.col(id_field) if id_field else pl.int_range(number, number + pl.len())
        text = pl.concat_str(*(pl.col(field).fill_null("") for field in fields), separator="\n")
        yield frame.select(ids.cast(pl.String).alias("instance_id"), text.alias("text"))
        number += len(frame)


def _rows(path: Path, columns: list[str], fields: Sequence[str], id_field: str | None) -> Iterator[pl.DataFrame]:
    schema = dict.fromkeys(columns, pl.String)
    waiting: list[tuple[Any, ...]] = []
    for number, row in read_rows(path, columns):
        if isinstance(row, BadRow):
            raise TextFileError(str(row))
        waiting.append(tuple(_value(row, name, name == id_field, f"{path}:{number}") for name in columns))
        if len(waiting) == AT_A_TIME:
            yield pl.DataFrame(waiting, schema, orient="row")
            waiting = []
    yield pl.DataFrame(waiting, schema, orient="row")


def _value(row: dict[str, Any], name: str, is_id: bool, place: str) -> str | None:
    if name not in row:
        raise TextFileError(f"{place}: no field {name!r}; the row has {', '.join(map(repr, row)) or 'none'}")
    value = row[name]
    if is_id and type(value) is int:
        return str(value)
    if value is None and not is_id:
        return None
    if not isinstance(value, str):
        raise TextFileError(f"{place}: {name!r} is {described(value)}, not text")
    try:
        value.encode()
    except UnicodeEncodeError:  # a lone surrogate, which JSON can hold and UTF-8 cannot
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value


def _parquet(path: Path, columns: list[str], fields: Sequence[str], id_field: str | None) -> Iterator[pl.DataFrame]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
            if missing := [name for name in columns if name not in schema.names]:
                raise TextFileError(
                    f"{path}: no column {' or '.join(map(repr, missing))}; the file has "
                    f"{', '.join(map(repr, schema.names))}"
                )
            for name in columns:
                kind = schema.field(name).type
                kind = kind.value_type if pa.types.is_dictionary(kind) else kind
                text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
                if not (text or (name == id_field and pa.types.is_integer(kind))):
                    raise TextFileError(f"{path}: the column {name!r} is {kind}, not text")
            number = 0
            for batch in file.iter_batches(AT_A_TIME, columns=columns):
                frame = pl.DataFrame(pl.from_arrow(batch))
                if id_field and frame[id_field].has_nulls():
                    row = number + int(frame[id_field].is_null().arg_max() or 0) + 1
                    raise TextFileError(f"{path}:{row}: {id_field!r} is null, not text")
                yield frame
                number += len(batch)
    except (pa.ArrowException, OSError) as error:
        raise TextFileError(f"{path}: not a Parquet file that can be read: {error}") from None
