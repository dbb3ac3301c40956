"""The ledger: every attempt at a call, durable before anything parses it.

    ledger/open/RUN.NNN.jsonl             what a living process has written, one attempt a line
    ledger/sealed/STAGE/SHARD/PART.parquet  a finished batch's attempts, moved there by an atomic rename

A process appends to a segment of its own; attempts that come together share one fsync. What a dead process
left in its segment is sealed by the next one. A torn last line was never acknowledged and is cut.
"""

import asyncio
import contextlib
import logging
import os
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from io import FileIO
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pyarrow as pa

from storage.schemas import LEDGER
from storage.workspace import not_written, read_parquet, sync_folder, write_bytes, write_parquet

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
        self._live: dict[str, list[tuple[Record, Path]]] = defaultdict(list)  # unsealed, by batch; and the segment
        self._live_of: dict[str, list[Record]] = defaultdict(list)  # the same by call
        self._unsealed: Counter[Path] = Counter()  # by segment
        self._counting = threading.Lock()
        self._index: dict[str, pl.DataFrame] = {}
        self._reading = threading.RLock()  # records() and seal() are called from threads
        self._sealings = 0
        self._number = 0
        self._disk = ThreadPoolExecutor(1, "ledger")  # its own, so that no batch's work stands before an fsync
        self._file: FileIO | None = None
        self._path = self._open
        self._size = 0
        self._failed: OSError | None = None
        self._recover()

    async def append(self, record: Record) -> None:
        """Return when the record is on disk. Raises ``WriteError`` when it could not be put there."""
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

    def records(self, stage: str, call_ids: pl.Series) -> pl.DataFrame:
        """All attempts at these calls, in the order they were made, those included that this run has not sealed.

        Columns: ``READ``, which is all but the body as it came.
        """
        wanted = pl.col("call_id").is_in(call_ids.implode())
        with self._reading:
            hits = self.calls(stage).filter(wanted)
            live = [record for call_id in call_ids for record in self._live_of.get(call_id, ())]
        paths = [Path(path) for path in hits["path"].unique(maintain_order=True)]
        sealed = [read_parquet(LEDGER, [path], READ).filter(wanted) for path in paths]
        return pl.concat([*sealed, frame_of(live).select(READ)]).sort("call_id", "attempt", "finished_at")

    def seal(self, stage: str, shard: str, batch: str) -> None:
        """Move this run's attempts of a finished batch into one sealed part. What comes for it later stays unsealed."""
        with self._reading:
            live = list(self._live.get(batch, ()))
            if not live:
                return
            self._sealings += 1
            part = batch.removeprefix(f"{stage} {shard} ")
            path = self._sealed / stage / shard / f"{part}.{self.run}.{self._sealings:06d}.parquet"
            records = [record for record, _ in live]
            write_parquet(path, LEDGER, frame_of(records), simulated=self._simulated)
            if stage in self._index:
                self._index[stage] = pl.concat([self._index[stage], _index_of(records, path)])
            with self._counting:
                del self._live[batch][: len(live)]
                for record, segment in live:
                    self._live_of[record["call_id"]].remove(record)
                    self._unsealed[segment] -= 1
                done = [segment for segment, n in self._unsealed.items() if not n and segment != self._path]
                for segment in done:
                    segment.unlink()
                    del self._unsealed[segment]

    async def close(self) -> None:
        """Write what waits and close the segment. One with unsealed attempts stays for the next process to seal."""
        if self._flusher is not None:
            await self._flusher
        self._disk.shutdown()
        if self._file is not None:
            self._file.close()
            self._file = None
            if not self._unsealed[self._path]:
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
                with self._counting:
                    for record, _, _ in group:
                        self._live[record["batch"]].append((record, self._path))
                        self._live_of[record["call_id"]].append(record)
                        self._unsealed[self._path] += 1
                for _, _, future in group:
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
            error = not_written(self._path, problem)
            # A torn line in mid-segment would hide what follows it: cut it, or write no more.
            try:
                os.ftruncate(self._file.fileno(), self._size)
                os.lseek(self._file.fileno(), self._size, os.SEEK_SET)
            except OSError:
                self._failed = error
            raise error from None
        self._size += len(data)

    def _next_segment(self) -> None:
        path = self._open / f"{self.run}.{self._number:03d}.jsonl"
        try:
            file = FileIO(path, "xb")
            sync_folder(self._open)
        except OSError as problem:
            raise not_written(path, problem) from None
        finally:
            self._number += 1
        if self._file is not None:
            self._file.close()
        self._file, self._path, self._size = file, path, 0

    def _recover(self) -> None:
        for left in self._open.parent.rglob(".*"):  # what a killed process was writing
            left.unlink()
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
                aside = segment.with_suffix(".damaged")
                write_bytes(aside, b"\n".join(damaged))
                if damaged != [torn]:  # a last line without its end was never acknowledged
                    said = "%s: lines that cannot be read, set aside: what they held will be asked and paid again"
                    logging.getLogger(__name__).warning(said, aside)
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
    costs = read_parquet(LEDGER, ledger_files(root), ["cost_usd", "most_usd"])
    return float(costs.select(pl.coalesce("cost_usd", "most_usd").sum()).item())


def read_attempts(root: Path, columns: Sequence[str], stage: str | None = None) -> pl.DataFrame:
    """These columns of all attempts, of one stage or of all, those included that are not sealed. Needs no lock."""
    names = list(dict.fromkeys([*columns, "call_id", "run", "attempt", "stage"]))
    records = []
    for path in sorted((root / "ledger" / "open").glob("*.jsonl")):
        with contextlib.suppress(FileNotFoundError):  # sealed meanwhile
            for line in path.read_bytes().split(b"\n")[:-1]:
                with contextlib.suppress(ValueError):
                    records.append(orjson.loads(line))
    live = frame_of([record for record in records if stage in (None, record["stage"])]).select(names)
    sealed = [path for path in ledger_files(root) if stage in (None, path.relative_to(root).parts[2])]
    found = pl.concat([read_parquet(LEDGER, sealed, names), live])
    return found.unique(["call_id", "run", "attempt"], maintain_order=True).select(columns)


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
