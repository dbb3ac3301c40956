"""The ledger: every attempt at a call, durable before anything parses it.

    ledger/open/RUN.NNN.jsonl             what a living process has written, one attempt a line
    ledger/sealed/STAGE/SHARD/PART.parquet  a finished batch's attempts, moved there by an atomic rename

A process appends to a segment of its own; attempts that come together share one fsync. What a dead process
left in its segment is sealed by the next one. A torn last line was never acknowledged and is cut.
"""

import asyncio
import contextlib
import os
import re
import threading
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pyarrow as pa

from storage.schemas import LEDGER
from storage.workspace import read_parquet, write_bytes, write_parquet

Record = dict[str, Any]

SEGMENT_BYTES = 64 * 2**20
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
READ = [name for name in LEDGER.columns if name != "raw"]
GROUP_S = 0.004  # how long an attempt waits for others to share its fsync


class Ledger:
    """The ledger of one workspace, open for writing by one process: hold the workspace's lock."""

    def __init__(self, root: Path, run: str, *, simulated: bool) -> None:
        self.run = run
        self._simulated = simulated
        self._open = root / "ledger" / "open"
        self._sealed = root / "ledger" / "sealed"
        self._open.mkdir(parents=True, exist_ok=True)
        self._waiting: list[tuple[Record, bytes, asyncio.Future[None]]] = []
        self._flusher: asyncio.Task[None] | None = None
        self._live: dict[str, list[Record]] = defaultdict(list)
        self._index: dict[str, pl.DataFrame] = {}
        self._reading = threading.Lock()  # records() and seal() are called from threads
        self._segments: dict[Path, set[str]] = {}
        self._number = 0
        self._disk = ThreadPoolExecutor(1, "ledger")  # its own, so that no batch's work stands before an fsync
        self._file: FileIO | None = None
        self._path = self._open
        self._size = 0
        self._failed: OSError | None = None
        self._recover()

    async def append(self, record: Record) -> None:
        """Return when the record is on disk. Raises ``OSError`` when it could not be put there."""
        line = orjson.dumps(record) + b"\n"
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((record, line, future))
        if self._flusher is None or self._flusher.done():
            self._flusher = asyncio.create_task(self._flush())
        await asyncio.shield(future)

    def calls(self, stage: str) -> pl.DataFrame:
        """The sealed calls of a stage: ``call_id``, and the ``path`` of a part with attempts at it."""
        with self._reading:
            if stage not in self._index:
                self._index[stage] = self._read_index(stage)
            return self._index[stage]

    def records(self, stage: str, call_ids: pl.Series, batch: str | None = None) -> pl.DataFrame:
        """All attempts at these calls, in the order they were made, those of an unsealed batch of this run included.

        Columns: ``READ``, which is all but the body as it came.
        """
        hits = self.calls(stage).filter(pl.col("call_id").is_in(call_ids.implode()))
        wanted = pl.col("call_id").is_in(call_ids.implode())
        paths = [Path(path) for path in hits["path"].unique(maintain_order=True)]
        sealed = [read_parquet(LEDGER, [path], READ).filter(wanted) for path in paths]
        live = frame_of(self._live.get(batch, []) if batch else []).select(READ)
        return pl.concat([*sealed, live]).sort("call_id", "attempt", "finished_at")

    def seal(self, stage: str, shard: str, batch: str) -> None:
        """Move this run's attempts of a finished batch into one sealed part."""
        records = self._live.pop(batch, [])
        if not records:
            return
        part = batch.removeprefix(f"{stage} {shard} ")
        path = self._sealed / stage / shard / f"{part}.{self.run}.{datetime.now(UTC):%H%M%S%f}.parquet"
        write_parquet(path, LEDGER, frame_of(records), simulated=self._simulated)
        with self._reading:
            if stage in self._index:
                self._index[stage] = pl.concat([self._index[stage], _index_of(records, path)])
            for segment, batches in list(self._segments.items()):
                batches.discard(batch)
                if not batches and segment != self._path:
                    segment.unlink()
                    del self._segments[segment]

    async def close(self) -> None:
        """Write what waits and close the segment. One with unsealed attempts stays for the next process to seal."""
        if self._flusher is not None:
            await self._flusher
        self._disk.shutdown()
        if self._file is not None:
            self._file.close()
            self._file = None
            if not self._segments[self._path]:
                self._path.unlink()

    async def _flush(self) -> None:
        while self._waiting:
            await asyncio.sleep(GROUP_S)
            group, self._waiting = self._waiting, []
            data = b"".join(line for _, line, _ in group)
            try:
                await asyncio.get_running_loop().run_in_executor(self._disk, self._write, data)
            except Exception as error:
                for _, _, future in group:
                    future.set_exception(error)
                    future.exception()  # an attempt nobody waits for any more is no unhandled error
            else:
                for record, _, future in group:
                    self._live[record["batch"]].append(record)
                    self._segments[self._path].add(record["batch"])
                    future.set_result(None)

    def _write(self, data: bytes) -> None:
        if self._failed is not None:
            raise self._failed
        if self._file is None or self._size > SEGMENT_BYTES:
            self._next_segment()
        assert self._file is not None
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
        except OSError as problem:
            error = OSError(problem.errno, f"{self._path}: {problem.strerror}")
            # A torn line in mid-segment would hide what follows it: cut it, or write no more.
            try:
                os.ftruncate(self._file.fileno(), self._size)
                os.lseek(self._file.fileno(), self._size, os.SEEK_SET)
            except OSError:
                self._failed = error
            raise error from None
        self._size += len(data)

    def _next_segment(self) -> None:
        if self._file is not None:
            self._file.close()
        self._path = self._open / f"{self.run}.{self._number:03d}.jsonl"
        self._number += 1
        self._file = FileIO(self._path, "xb")
        self._segments[self._path] = set()
        self._size = 0

    def _recover(self) -> None:
        for segment in sorted(self._open.glob("*.jsonl")):
            *lines, torn = segment.read_bytes().split(b"\n")
            groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
            damaged = [torn] if torn else []
            for line in lines:
                try:
                    record = orjson.loads(line)
                    frame_of([record])
                    if not all(_NAME.fullmatch(record[name]) for name in ("stage", "shard")):
                        raise ValueError("not a name of this project's")
                    groups[record["stage"], record["shard"]].append(record)
                except (ValueError, KeyError, TypeError, AttributeError, pa.ArrowException):
                    damaged.append(line)
            for (stage, shard), records in groups.items():
                known = self._identities(stage, shard)
                fresh = [r for r in records if (r["call_id"], r["run"], r["attempt"]) not in known]
                if fresh:
                    path = self._sealed / stage / shard / f"recovered.{segment.stem}.parquet"
                    write_parquet(path, LEDGER, frame_of(fresh), simulated=self._simulated)
            if damaged:
                write_bytes(segment.with_suffix(".damaged"), b"\n".join(damaged))
            segment.unlink()

    def _identities(self, stage: str, shard: str) -> set[tuple[str, str, int]]:
        paths = sorted((self._sealed / stage / shard).glob("*.parquet"))
        return set(read_parquet(LEDGER, paths, ["call_id", "run", "attempt"]).iter_rows())

    def _read_index(self, stage: str) -> pl.DataFrame:
        pieces = [_index_of([], Path())]
        for path in sorted((self._sealed / stage).rglob("*.parquet")):
            ids = read_parquet(LEDGER, [path], ["call_id"]).unique()
            pieces.append(ids.with_columns(path=pl.lit(str(path))))
        return pl.concat(pieces)


def frame_of(records: Sequence[Record]) -> pl.DataFrame:
    """Ledger records as the ledger's frame; times are ISO text in a record."""
    times = [datetime.fromisoformat(record["finished_at"]) for record in records]
    columns = {
        name: pa.array(times if name == "finished_at" else [record.get(name) for record in records], type_)
        for name, (type_, _) in LEDGER.columns.items()
    }
    frame = pl.from_arrow(pa.table(columns, schema=LEDGER.schema))
    assert isinstance(frame, pl.DataFrame)
    return frame


def _index_of(records: Sequence[Record], path: Path) -> pl.DataFrame:
    ids = sorted({record["call_id"] for record in records})
    return pl.DataFrame({"call_id": ids}, {"call_id": pl.String}).with_columns(path=pl.lit(str(path)))


def spent_usd(root: Path) -> float:
    """US dollars of all sealed attempts; one whose cost is not known counts as what it may have cost."""
    spent = pl.coalesce("cost_usd", "most_usd").sum()
    files = ledger_files(root)
    return sum(float(pl.read_parquet(file, columns=["cost_usd", "most_usd"]).select(spent).item()) for file in files)


def ledger_files(root: Path) -> list[Path]:
    """The sealed parts of a workspace's ledger."""
    return sorted((root / "ledger" / "sealed").rglob("*.parquet"))


def unsealed_attempts(root: Path) -> int:
    """Attempts of batches that a living run has in hand or a dead one left: in the ledger, not in any table yet."""
    count = 0
    for path in (root / "ledger" / "open").glob("*.jsonl"):
        with contextlib.suppress(FileNotFoundError), path.open("rb") as segment:
            count += sum(block.count(b"\n") for block in iter(lambda: segment.read(2**20), b""))
    return count
