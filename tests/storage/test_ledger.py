"""The ledger: durable before counted, sealed whole, recovered to the last whole record."""

import asyncio
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import storage.ledger
from storage.ledger import Ledger, ledger_files, read_attempts
from storage.schemas import LEDGER
from storage.workspace import read_parquet


def record(
    call_id: str, attempt: int = 1, run: str = "r", batch: str = "answers s pool", **more: Any
) -> dict[str, Any]:
    blank: dict[str, Any] = dict.fromkeys(LEDGER.columns)
    return blank | {
        "call_id": call_id,
        "attempt": attempt,
        "run": run,
        "stage": "answers",
        "shard": "s",
        "batch": batch,
        "outcome": "ok",
        "text": "one\n\u2028two",
        "sanitized": False,
        "finished_at": datetime(2026, 1, 1, tzinfo=UTC).isoformat(),
        **more,
    }


def append(ledger: Ledger, *records: dict[str, Any]) -> None:
    async def all_of_them() -> None:
        await asyncio.gather(*map(ledger.append, records))

    asyncio.run(all_of_them())


def close(ledger: Ledger) -> None:
    asyncio.run(ledger.close())


def die(ledger: Ledger) -> None:
    """End without closing: the segment stays as a killed process leaves it."""
    assert ledger._file is not None
    ledger._file.close()


def found(ledger: Ledger, *call_ids: str) -> list[str]:
    return ledger.records("answers", pl.Series(call_ids, dtype=pl.String))["call_id"].to_list()


def test_an_appended_record_is_on_disk_before_append_returns(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, "r", simulated=True)
    append(ledger, record("a"), record("b"))
    die(ledger)
    (segment,) = (tmp_path / "ledger" / "open").glob("*.jsonl")
    assert segment.read_bytes().count(b"\n") == 2


def test_a_sealed_batch_is_one_part_and_leaves_no_segment(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, "r", simulated=True)
    append(ledger, record("a"), record("b"))
    ledger.seal("answers", "s", "answers s pool")
    close(ledger)
    assert len(ledger_files(tmp_path)) == 1
    assert list((tmp_path / "ledger" / "open").iterdir()) == []
    assert read_parquet(LEDGER, ledger_files(tmp_path))["text"].to_list() == ["one\n\u2028two"] * 2


def test_records_are_found_by_call_whatever_batch_holds_them(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, "r", simulated=True)
    append(ledger, record("a"), record("b", batch="answers t pool"), record("c"))
    ledger.seal("answers", "s", "answers s pool")
    ledger.seal("answers", "t", "answers t pool")
    close(ledger)
    assert found(ledger, "a", "b") == ["a", "b"]
    assert found(Ledger(tmp_path, "r2", simulated=True), "b", "c", "d") == ["b", "c"]


def test_what_a_dead_process_left_is_sealed_once_and_a_torn_line_is_cut(tmp_path: Path) -> None:
    dead = Ledger(tmp_path, "dead", simulated=True)
    append(dead, record("a"), record("b"))
    die(dead)
    (segment,) = (tmp_path / "ledger" / "open").glob("*.jsonl")
    segment.write_bytes(segment.read_bytes()[:-20])
    ledger = Ledger(tmp_path, "next", simulated=True)
    assert found(ledger, "a", "b") == ["a"]
    assert not segment.exists()
    assert found(Ledger(tmp_path, "after", simulated=True), "a", "b") == ["a"]


def test_a_segment_left_after_its_batch_was_sealed_adds_nothing(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, "dead", simulated=True)
    append(ledger, record("a"))
    ledger.seal("answers", "s", "answers s pool")
    die(ledger)
    again = Ledger(tmp_path, "next", simulated=True)
    assert found(again, "a") == ["a"]


def test_a_damaged_line_in_the_middle_is_set_aside_and_the_rest_recovered(tmp_path: Path) -> None:
    dead = Ledger(tmp_path, "dead", simulated=True)
    append(dead, record("a"), record("b"))
    die(dead)
    (segment,) = (tmp_path / "ledger" / "open").glob("*.jsonl")
    first, second = segment.read_bytes().splitlines()
    segment.write_bytes(first[:-5] + b"\n" + second + b"\n")
    assert found(Ledger(tmp_path, "next", simulated=True), "a", "b") == ["b"]
    assert len(list((tmp_path / "ledger" / "open").glob("*.damaged"))) == 1


@pytest.mark.parametrize("line", [b"{}", b"[]", b'{"stage": "answers", "shard": "s"}', b"7"])
def test_a_line_that_is_no_attempt_is_set_aside(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "ledger" / "open").mkdir(parents=True)
    (tmp_path / "ledger" / "open" / "x.jsonl").write_bytes(line + b"\n")
    assert found(Ledger(tmp_path, "r", simulated=True)) == []
    assert (tmp_path / "ledger" / "open" / "x.damaged").read_bytes() == line


def test_no_line_writes_outside_the_workspace(tmp_path: Path) -> None:
    dead = Ledger(tmp_path / "w", "dead", simulated=True)
    append(dead, record("a", shard="../../../evil"))
    die(dead)
    assert found(Ledger(tmp_path / "w", "next", simulated=True), "a") == []
    assert [path.name for path in tmp_path.iterdir()] == ["w"]


def test_a_failed_write_is_raised_and_what_was_acknowledged_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(tmp_path, "r", simulated=True)
    append(ledger, record("a"))

    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        append(ledger, record("b"))
    monkeypatch.undo()
    append(ledger, record("c"))
    die(ledger)
    assert found(Ledger(tmp_path, "next", simulated=True), "a", "b", "c") == ["a", "c"]


def test_segments_follow_each_other_while_batches_are_sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage.ledger, "SEGMENT_BYTES", 1)  # a segment for each write
    ledger = Ledger(tmp_path, "r", simulated=True)
    for number in range(6):
        append(ledger, record(f"c{number}", batch=f"answers s part-{number}"))
        if number % 2:
            ledger.seal("answers", "s", f"answers s part-{number - 1}")
            ledger.seal("answers", "s", f"answers s part-{number}")
    close(ledger)
    ids = [f"c{number}" for number in range(6)]
    assert found(Ledger(tmp_path, "next", simulated=True), *ids) == ids
    assert list((tmp_path / "ledger" / "open").iterdir()) == []


def test_what_is_on_its_way_to_the_disk_when_a_run_is_cancelled_is_kept(tmp_path: Path) -> None:
    async def cancelled() -> None:
        ledger = Ledger(tmp_path, "r", simulated=True)
        appending = asyncio.create_task(ledger.append(record("a")))
        await asyncio.sleep(0)
        appending.cancel()
        await ledger.close()

    asyncio.run(cancelled())
    assert found(Ledger(tmp_path, "next", simulated=True), "a") == ["a"]


def test_a_record_that_cannot_be_written_is_its_own_error_and_no_other_waits_for_it(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, "r", simulated=True)
    with pytest.raises(TypeError):
        append(ledger, record("a", request_id="\ud800"))
    append(ledger, record("b"))
    close(ledger)
    assert found(Ledger(tmp_path, "next", simulated=True), "a", "b") == ["b"]


KILLED = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_ledger import record
from storage.ledger import Ledger

async def main():
    ledger = Ledger(Path(sys.argv[1]), "killed", simulated=True)
    for number in range(100_000):
        await ledger.append(record(f"{number:06}"))
        print(number, flush=True)

asyncio.run(main())
"""


def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", KILLED, str(tmp_path), str(Path(__file__).parent)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        acknowledged = [int(process.stdout.readline()) for _ in range(20)]
        process.send_signal(signal.SIGKILL)
    ledger = Ledger(tmp_path, "next", simulated=True)
    ids = [f"{number:06}" for number in acknowledged]
    assert found(ledger, *ids) == ids


def test_attempts_are_read_without_the_lock_sealed_or_not_and_each_once(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, "r", simulated=True)
    append(ledger, record("a", input_tokens=5), record("b"), record("c", stage="judges", batch="judges s all"))
    ledger.seal("answers", "s", "answers s pool")
    append(ledger, record("d", input_tokens=7))
    (segment,) = (tmp_path / "ledger" / "open").glob("*.jsonl")
    with segment.open("ab") as torn:
        torn.write(b'{"call_id": "e", "sta')
    read = read_attempts(tmp_path, ["call_id", "input_tokens"])
    assert sorted(read.rows()) == [("a", 5), ("b", None), ("c", None), ("d", 7)]
    assert read_attempts(tmp_path, ["call_id"], "judges").rows() == [("c",)]
    die(ledger)
