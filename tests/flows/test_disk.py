"""A full disk, files cut short, a clock that jumps back: an error that says what to do, and nothing kept is lost."""

import errno
import os
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, Self

import pytest
from books import Books
from killing import KILLED, Fall, Runs, runs
from pipeline import Simulator, build_without_prefect, criticgen, differing_tables, load, write_config
from priced import SMALL

from storage.errors import UserError
from storage.ledger import ledger_files
from storage.workspace import Workspace, WriteError
from tasks.status import reconciles, status

ConfigFile = Callable[..., Path]

IN_FLIGHT = 4 * 2  # models, and calls of each at a time
ONLINE: dict[str, Any] = SMALL | {"limits": {"default": {"max_concurrency": 2}}}
BATCH = ONLINE | {"transport": {"default": "batch"}, "batch_poll_s": 0.05}
BUDGET = ONLINE | {"budget_usd": 100}


@pytest.fixture(scope="module")
def forked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    with runs(tmp_path_factory.mktemp("runs")) as started:
        yield started


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, simulator_process: Simulator) -> dict[bool, Workspace]:
    """What runs come to that nothing happens to: by whether they ask in vendor batches, at half the price."""
    folder = tmp_path_factory.mktemp("undisturbed")
    url = simulator_process.url
    return {
        batch: build_without_prefect(load(write_config(folder, url, **changes)), folder / f"{batch}")
        for batch, changes in ((False, ONLINE), (True, BATCH))
    }


@pytest.fixture(autouse=True)
def quick_batches(
    undisturbed: dict[bool, Workspace], simulator: Simulator, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    simulator.post("reset")
    monkeypatch.setattr("tasks.vendor_batches.QUIET_S", 0.05)
    simulator.post("knobs", {"batch_s": 0.05})
    yield
    simulator.post("knobs", {"batch_s": 0.5})


def no_room_for(part: str, after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no room left on the disk from the ``after``-th file on whose path has ``part`` in it."""
    fsync, met = os.fsync, 0

    def full(descriptor: int) -> None:
        nonlocal met
        met += part in os.readlink(f"/proc/self/fd/{descriptor}")
        if met >= after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    monkeypatch.setattr("os.fsync", full)


def check_end(books: Books, place: Workspace, undisturbed: dict[bool, Workspace]) -> None:
    assert differing_tables(undisturbed[not books.in_flight], place) == []
    assert reconciles(status(place))
    books.check_end()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "part", "after"),
    [
        (ONLINE, "ledger/open/", 3),
        (ONLINE, "ledger/sealed/", 2),
        (ONLINE, "tables/questions/", 1),
        (ONLINE, "tables/", 6),
        (ONLINE, "manifests/", 5),
        (ONLINE, "exports/", 2),
        (BUDGET, "budget.json", 1),
        (BATCH, ".calls.jsonl", 2),
        (BATCH, "ledger/batches/", 4),
        (BATCH, "ledger/open/", 2),
    ],
)
def test_on_a_full_disk_a_run_ends_and_goes_on_when_there_is_room(
    tmp_path: Path,
    config_file: ConfigFile,
    simulator: Simulator,
    undisturbed: dict[bool, Workspace],
    monkeypatch: pytest.MonkeyPatch,
    config: dict[str, Any],
    part: str,
    after: int,
) -> None:
    asked, root = load(config_file(**config)), tmp_path / "w"
    books = Books(simulator, root, 0 if config is BATCH else IN_FLIGHT)
    with monkeypatch.context() as patched:
        no_room_for(part, after, patched)
        with pytest.raises(WriteError, match=r"cannot be written \(No space left on device\).*Make room there") as full:
            build_without_prefect(asked, root)
    assert str(root) in str(full.value)
    books.check_kill()
    check_end(books, build_without_prefect(asked, root), undisturbed)


@pytest.mark.slow
def test_a_file_that_may_not_grow_is_an_error_of_one_line(
    tmp_path: Path, config_file: ConfigFile, simulator: Simulator, undisturbed: dict[bool, Workspace], forked: Runs
) -> None:
    config, books = config_file(**ONLINE), Books(simulator, tmp_path / "w", IN_FLIGHT)
    for kilobytes in (6, 20, 45):
        forked.start(config, books.root, file_bytes=1024 * kilobytes)
        assert forked.wait() == 1
        assert "cannot be written (File too large)" in forked.log.read_text().splitlines()[-1]
        books.check_kill()
    forked.start(config, books.root)
    assert forked.wait() == 0
    check_end(books, Workspace(books.root), undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize(
    "damaged",
    [lambda line: line[:-40], lambda line: line[:50] + bytes(100) + line[150:]],
    ids=["torn", "zeros"],
)
def test_what_a_damaged_segment_has_lost_alone_is_asked_again(
    tmp_path: Path,
    config_file: ConfigFile,
    simulator: Simulator,
    undisturbed: dict[bool, Workspace],
    forked: Runs,
    damaged: Callable[[bytes], bytes],
) -> None:
    config, root = config_file(**ONLINE), tmp_path / "w"
    forked.start(config, root, fall=Fall("tasks.calls:Caller.keep", number=17))
    assert forked.wait() == KILLED
    books = Books(simulator, root, IN_FLIGHT)
    books.check_kill()
    (segment,) = (root / "ledger" / "open").glob("*.jsonl")
    *lines, _ = segment.read_bytes().split(b"\n")
    torn = damaged(lines[-1])
    segment.write_bytes(b"\n".join([*lines[:-1], torn, b""][: None if len(torn) == len(lines[-1]) else -1]))
    place = build_without_prefect(load(config), root)
    assert differing_tables(undisturbed[False], place) == []
    assert simulator.calls() == place.read_table("calls")["attempts"].sum() + books.most_lost + 1
    assert len(list((root / "ledger" / "open").glob("*.damaged"))) == 1


@pytest.mark.slow
def test_a_ledger_part_cut_in_half_stops_the_run_and_moved_away_is_asked_again(
    tmp_path: Path, config_file: ConfigFile, simulator: Simulator, undisturbed: dict[bool, Workspace]
) -> None:
    config, root = load(config_file(**ONLINE)), tmp_path / "w"
    build_without_prefect(config, root)
    asked = simulator.calls()
    part = next(path for path in ledger_files(root) if "judges" in path.parts)
    held = Workspace(root).read_table("calls").filter(stage="judges")["attempts"].sum()
    part.write_bytes(part.read_bytes()[: part.stat().st_size // 2])
    (root / "manifests" / "judges").rename(tmp_path / "manifests")
    with pytest.raises(UserError, match=f"{part}: damaged.*move it away: what it held will be asked and paid again"):
        build_without_prefect(config, root)
    assert simulator.calls() == asked
    part.rename(tmp_path / "damaged.parquet")
    place = build_without_prefect(config, root)
    assert simulator.calls() == asked + held
    assert differing_tables(undisturbed[False], place) == []


@pytest.mark.slow
def test_a_table_part_cut_in_half_is_made_anew_from_the_ledger(
    tmp_path: Path, config_file: ConfigFile, simulator: Simulator, undisturbed: dict[bool, Workspace]
) -> None:
    path, root = config_file(**ONLINE), tmp_path / "w"
    place = build_without_prefect(load(path), root)
    asked = simulator.calls()
    for table in ("trajectories", "consensus", "splits"):
        part = place.table_files(table)[0]
        whole = part.read_bytes()
        part.write_bytes(whole[: len(whole) // 2])
        shown = criticgen("query", f"SELECT * FROM {table}", "--workspace", root)
        assert (shown.returncode, "Traceback" in shown.stderr) == (1, False)
        assert str(part) in shown.stderr
        if table == "splits":
            part.write_bytes(whole)
            continue
        assert criticgen("rebuild", "--workspace", root).returncode == 0
        assert differing_tables(undisturbed[False], place) == []
    assert simulator.calls() == asked


class Clock(datetime):
    """Each look at it is an hour before the last."""

    looks = 0

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        cls.looks += 1
        return super().now(tz) - timedelta(hours=cls.looks)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [ONLINE, BATCH], ids=["online", "batch"])
def test_a_clock_that_jumps_back_changes_nothing(
    tmp_path: Path,
    config_file: ConfigFile,
    simulator: Simulator,
    undisturbed: dict[bool, Workspace],
    forked: Runs,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
) -> None:
    config, books = config_file(**changes), Books(simulator, tmp_path / "w", 0 if changes is BATCH else IN_FLIGHT)
    forked.start(config, books.root, fall=Fall("tasks.calls:Caller.keep", number=8))
    assert forked.wait() == KILLED
    books.check_kill()
    for module in ("tasks.calls", "tasks.vendor_batches", "storage.workspace"):
        monkeypatch.setattr(f"{module}.datetime", Clock)
    place = build_without_prefect(load(config), books.root)
    assert Clock.looks > 20
    check_end(books, place, undisturbed)
