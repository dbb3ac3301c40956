"""The workspace: tables of one schema, one writer, nothing half-written."""

import subprocess
import sys
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from storage.schemas import SPLITS, TABLES
from storage.workspace import Workspace, WorkspaceError, read_parquet, write_parquet

ROW = {"data_set": "rubric_data", "instance_id": "a", "question_id": "q", "cluster": "q", "split": "test"}


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.claim("demo", simulated=True)
    workspace.write_table("splits", pl.DataFrame([ROW]), "all")
    assert pq.read_schema(tmp_path / "tables" / "splits" / "all.parquet").metadata[b"criticgen.simulated"] == b"true"
    assert workspace.read_table("splits").to_dicts() == [ROW]
    assert workspace.read_table("questions").is_empty()


def test_unknown_and_missing_columns_are_named(tmp_path: Path) -> None:
    frame = pl.DataFrame([ROW]).rename({"split": "part"})
    workspace = Workspace(tmp_path)
    workspace.claim("demo", simulated=True)
    with pytest.raises(WorkspaceError, match=r"unknown columns \['part'\], missing \['split'\]"):
        workspace.write_table("splits", frame, "all")


def test_another_schema_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "splits.parquet"
    write_parquet(path, SPLITS, pl.DataFrame([ROW]), simulated=True)
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({"criticgen.version": "0"}), path)
    with pytest.raises(WorkspaceError, match="schema version 0, this release reads 2"):
        read_parquet(SPLITS, [path])


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "splits.parquet"
    write_parquet(path, SPLITS, pl.DataFrame([ROW]), simulated=True)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(WorkspaceError, match=r"splits\.parquet: damaged"):
        read_parquet(SPLITS, [path])


def test_simulated_and_real_models_do_not_share_a_workspace(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.claim("demo", simulated=True)
    workspace.claim("demo", simulated=True)
    with pytest.raises(WorkspaceError, match="holds simulated models' data"):
        workspace.claim("demo", simulated=False)
    with pytest.raises(WorkspaceError, match="holds data set 'demo', not 'other'"):
        workspace.claim("other", simulated=True)


def test_a_second_writer_is_told_who_holds_the_lock(tmp_path: Path) -> None:
    holder = "import sys, time; from storage.workspace import Workspace\n"
    holder += "with Workspace(sys.argv[1]).lock(): print('held', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", holder, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(WorkspaceError, match=f"in use by process {process.pid} on"), Workspace(tmp_path).lock():
            pass
        process.kill()
    with Workspace(tmp_path).lock():  # a dead process holds nothing
        pass


def test_no_workspace_is_made_where_one_is_only_read(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="no workspace here"):
        Workspace(tmp_path / "none", create=False)
    assert not (tmp_path / "none").exists()


def test_every_column_says_what_it_means() -> None:
    assert all(meaning for table in TABLES.values() for _, meaning in table.columns.values())
