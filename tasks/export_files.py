"""The files of one data set's export, written piece by piece: each split in every format, and what is too long."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from storage.schemas import TEXT, Table
from tasks.config import Export
from tasks.lengths import Measure
from tasks.targets import Chat, chats

BINS = (256, 512, 1024, 2048, 4096, 8192, 16384, 32768)  # upper ends, in tokens, of the histogram of lengths
_PIECE = 2_000  # rows that are chats in memory together
_MESSAGES = pa.list_(pa.struct([("role", pa.string()), ("content", TEXT)]))
_VERL = pa.schema([("id", pa.string()), ("simulated", pa.bool_()), ("messages", _MESSAGES)])
_TOO_LONG = pa.schema([("instance_id", pa.string()), ("split", pa.string()), ("tokens", pa.int64())])

Write = Callable[[pl.DataFrame, Sequence[Chat]], object]


class SplitFiles:
    """Writes the rows of a data set as they come, a context. ``counts`` and ``histogram`` say what was written."""

    def __init__(
        self, folder: Path, table: Table, options: Export, lengths: Measure, splits: Iterable[str], *, simulated: bool
    ) -> None:
        folder.mkdir(parents=True)
        self.counts: dict[str, int] = dict.fromkeys(splits, 0)
        self.histogram: dict[int, int] = {}
        self._table = table
        self._options = options
        self._lengths = lengths
        self._seen: Counter[int] = Counter()
        self._open = ExitStack()
        marked = {"criticgen.simulated": str(simulated).lower()}
        self._schema = table.schema.with_metadata({**(table.schema.metadata or {}), **marked})
        self._writers = {split: self._writers_of(folder, split) for split in self.counts}
        self._too_long = self._parquet(folder / "too_long.parquet", _TOO_LONG)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()
        self.histogram = dict(sorted(self._seen.items()))

    def write(self, split: str, rows: pl.DataFrame) -> None:
        """Write rows of a split, less those that are longer than ``max_tokens``, which are listed."""
        for piece in rows.iter_slices(_PIECE):
            made = list(chats(self._table.name, piece, self._options))
            tokens = self._lengths(made)
            self._seen.update(next((end for end in BINS if length <= end), 0) for length in tokens)
            fits = [length <= self._options.max_tokens for length in tokens]
            if not all(fits):
                long = [length for length, fit in zip(tokens, fits, strict=True) if not fit]
                ids = piece["instance_id"].filter(~pl.Series(fits)).to_list()
                listed = {"instance_id": ids, "split": [split] * len(ids), "tokens": long}
                self._too_long(pa.table(listed, schema=_TOO_LONG))
                self.counts["too_long"] = self.counts.get("too_long", 0) + len(ids)
                piece = piece.filter(pl.Series(fits))
                made = [chat for chat, fit in zip(made, fits, strict=True) if fit]
            self.counts[split] += len(made)
            for write in self._writers[split]:
                write(piece, made)

    def _writers_of(self, folder: Path, split: str) -> list[Write]:
        write_table = self._parquet(folder / f"{split}.parquet", self._schema)
        writers: list[Write] = [lambda rows, _: write_table(_arrow(rows, self._schema))]
        if "messages" in self._options.formats:
            messages = self._open.enter_context((folder / f"{split}.jsonl").open("wb"))
            writers.append(lambda _, made: messages.writelines(_line(_joined(chat)) for chat in made))
        if "prompt-completion" in self._options.formats:
            apart = self._open.enter_context((folder / f"{split}.prompt_completion.jsonl").open("wb"))
            writers.append(lambda _, made: apart.writelines(_line(chat) for chat in made))
        if "verl" in self._options.formats:
            write_verl = self._parquet(folder / f"{split}.verl.parquet", _VERL)
            writers.append(lambda _, made: write_verl(pa.Table.from_pylist([_joined(c) for c in made], schema=_VERL)))
        return writers

    def _parquet(self, path: Path, schema: pa.Schema) -> Callable[[pa.Table], None]:
        writer = self._open.enter_context(pq.ParquetWriter(path, schema, compression="zstd"))
        return lambda table: writer.write_table(table)


def _arrow(rows: pl.DataFrame, schema: pa.Schema) -> pa.Table:
    return rows.select(schema.names).to_arrow().cast(schema)


def _joined(chat: Chat) -> dict[str, Any]:
    return {
        "id": chat["id"],
        "simulated": chat["simulated"],
        "messages": [*chat["prompt"], *chat["completion"]],
    }


def _line(value: dict[str, Any]) -> bytes:
    return orjson.dumps(value) + b"\n"
