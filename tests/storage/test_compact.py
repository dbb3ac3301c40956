import shutil
from pathlib import Path

import pytest
from made_workspace import make

from storage import compact as module
from storage.compact import compact
from storage.queries import query, table_parts, view_parts
from storage.schemas import LEDGER, TABLES
from storage.workspace import Workspace

SUMS = " UNION ALL ".join(
    f"SELECT '{name}' AS name, count(*) AS rows, sum(hash({name}))::VARCHAR AS sum FROM {name}"
    for name in (*TABLES, LEDGER.name)
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return make(tmp_path_factory.mktemp("made"), answers=500, items=3)


@pytest.fixture
def place(made: Workspace, tmp_path: Path) -> Workspace:
    return Workspace(shutil.copytree(made.root, tmp_path / "w"))


def test_views_read_few_files_and_the_same_rows(place: Workspace) -> None:
    before, parts = query(place, SUMS).sort("name"), table_parts(place.root)
    counts = compact(place)
    assert counts["calls"] == {"parts": 16, "files": 1}
    assert len(view_parts(place.root)["calls"]) == 1
    assert query(place, SUMS).sort("name").equals(before)
    assert table_parts(place.root) == parts  # what a run looks at is as it was


def test_a_part_that_is_written_anew_is_read_and_its_compact_file_is_not(place: Workspace) -> None:
    compact(place)
    one = place.read_table("answers", "limo-0000", "pool")
    place.write_table("answers", one.head(7), "limo-0000", "pool")
    assert query(place, "SELECT count(*) AS n FROM answers")["n"][0] == 500 - len(one) + 7
    assert len(view_parts(place.root)["answers"]) == 4
    old = set((place.root / "compact" / "answers").glob("*"))
    compact(place)
    assert len(view_parts(place.root)["answers"]) == 1
    assert not old & set((place.root / "compact" / "answers").glob("*"))


def test_a_part_that_went_is_not_read(place: Workspace) -> None:
    compact(place)
    place.table_path("answers", "limo-0000", "pool").unlink()
    assert query(place, "SELECT count(*) AS n FROM answers")["n"][0] == 350


def test_a_kill_leaves_what_was_before(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    before = query(place, SUMS).sort("name")

    def killed(*args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_bytes", killed)  # all files are joined, and the index is not written
        with pytest.raises(KeyboardInterrupt):
            compact(place)
    (place.root / "compact" / "calls" / ".half.parquet.4711").write_bytes(b"PAR1")
    assert query(place, SUMS).sort("name").equals(before)
    compact(place)
    assert query(place, SUMS).sort("name").equals(before)
    assert not list((place.root / "compact").rglob(".*"))


def test_a_damaged_index_is_no_index(place: Workspace) -> None:
    before = query(place, SUMS).sort("name")
    compact(place)
    (place.root / "compact" / "index.json").write_text("{")
    assert query(place, SUMS).sort("name").equals(before)
    compact(place)
    assert len(view_parts(place.root)["calls"]) == 1
