"""The near-duplicate filter and Distinct-n over any file of texts: what the commands of the same name do."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from storage.errors import UserError
from tasks.diversity import NS, distinct
from tasks.near_duplicates import IdTwice, Order, decisions
from tasks.text import Mode
from tasks.text_files import read_texts

WRITERS: dict[str, Callable[[pl.DataFrame, Path], object]] = {
    ".parquet": pl.DataFrame.write_parquet,
    ".jsonl": pl.DataFrame.write_ndjson,
    ".csv": pl.DataFrame.write_csv,
}


def filter_file(
    path: Path,
    fields: Sequence[str],
    out: Path,
    *,
    id_field: str | None = None,
    threshold: float = 0.75,
    n: int = 4,
    order: Order = "id",
    mode: Mode = "word",
) -> dict[str, Any]:
    """Write a decision for each row of the file, in its order: id, kept, twin, shared, union, jaccard.

    ``out`` is there complete or not at all. Returns the counts. Raises a ``UserError`` for what cannot be read, an id
    that stands twice, a threshold that is no Jaccard and an ``out`` of another format.
    """
    if out.suffix.lower() not in WRITERS:
        raise UserError(f"{out}: decisions are written as {', '.join(WRITERS)}")
    try:
        found = decisions(read_texts(path, fields, id_field), threshold=threshold, n=n, mode=mode, order=order)
    except IdTwice as error:
        raise IdTwice(f"{path}: {error} (field {id_field!r}); without --id rows are named by their number") from None
    except ValueError as error:
        raise UserError(str(error)) from None
    table = found.rename({"instance_id": "id", "twin_id": "twin"})
    part = out.with_name(f".{out.name}.part")
    WRITERS[out.suffix.lower()](table, part)
    part.replace(out)
    kept = int(found["kept"].sum())
    return {"rows": len(found), "kept": kept, "dropped": len(found) - kept, "out": str(out)}


def file_diversity(path: Path, fields: Sequence[str], *, mode: Mode = "word") -> list[dict[str, Any]]:
    """Distinct-2, -3 and -4 of each field of the file: field, n, texts, ngrams, unique_ngrams, distinct."""
    return [
        {
            "field": field,
            "n": n,
            "texts": count.texts,
            "ngrams": count.ngrams,
            "unique_ngrams": count.unique,
            "distinct": count.distinct,
        }
        for field in dict.fromkeys(fields)
        for n, count in distinct((frame["text"] for frame in read_texts(path, [field])), NS, mode).items()
    ]
