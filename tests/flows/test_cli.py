"""The command as it is typed: what it prints, its exit status, and that bad input never gives a traceback."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pipeline import (
    QUESTIONS,
    Ended,
    Simulator,
    build_without_prefect,
    criticgen,
    criticgen_process,
    load,
    tables_of,
)

from storage.workspace import Workspace

ConfigFile = Callable[..., Path]


def refused(*arguments: str | Path, env: dict[str, str] | None = None) -> str:
    """What the command says when it refuses, before any flow is run."""
    return complaint(criticgen(*arguments, env=env))


def complaint(ended: Ended) -> str:
    """The message of a command that failed: never a traceback, never exit status 0."""
    assert ended.returncode not in (0, -9), ended.stdout
    assert "Traceback" not in ended.stderr + ended.stdout
    assert "criticgen: " in ended.stderr
    return ended.stderr[ended.stderr.index("criticgen: ") :]


def source_of(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "own.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"question": "a", "answer": "1"}\n{"question": \n', "own.jsonl:2: not JSON"),
        (
            '{"question": "a", "answer": "1"}\n{"question": "a", "answer": "1"}\n',
            "own.jsonl:2: the question of row 1 again",
        ),
        ('{"question": "  ", "answer": "1"}\n{"question": "a"}\n', "own.jsonl:1: 'question' is empty"),
        (json.dumps({"question": "long " * 1_000_000}) + '\n{"question": "a"}\n', "own.jsonl:1: 5,000,000 characters"),
        ("", "the file is empty"),
    ],
)
def test_bad_rows_are_named_by_file_and_line(tmp_path: Path, config_file: ConfigFile, text: str, says: str) -> None:
    source = [{"name": "own", "path": str(source_of(tmp_path, text)), "question": "question"}]
    assert says in refused("run", config_file(sources=source), "--workspace", tmp_path / "w")


def test_a_missing_file_is_named(tmp_path: Path, config_file: ConfigFile) -> None:
    path = config_file(sources=[{"name": "own", "path": "none.jsonl"}])
    assert "none.jsonl" in refused("run", path, "--workspace", tmp_path / "w")
    assert "none.yaml: no such file" in refused("run", tmp_path / "none.yaml")


def test_a_typo_in_the_config_is_named_with_its_place(config_file: ConfigFile) -> None:
    assert "near_duplicates.treshold: unknown key" in refused("run", config_file(near_duplicates={"treshold": 0.8}))
    assert "near_duplicates.treshold: unknown key" in refused("check", config_file(near_duplicates={"treshold": 0.8}))


REAL: dict[str, Any] = {
    "simulator": None,
    "answers": {"generators": ["openai/gpt-5-mini"]},
    "teacher": "openai/gpt-5",
    "judges": ["anthropic/claude-sonnet-4-5"],
}


def test_a_missing_key_is_named_before_anything_is_asked(tmp_path: Path, config_file: ConfigFile) -> None:
    env = {"OPENAI_API_KEY": "", "ANTHROPIC_API_KEY": "secret-of-mine"}
    message = refused("run", config_file(**REAL), "--workspace", tmp_path / "w", env=env)
    assert "OPENAI_API_KEY" in message
    assert "secret-of-mine" not in message
    ended = criticgen("check", config_file(**REAL), "--json", env=env)
    assert ended.returncode == 1
    assert json.loads(ended.stdout)["good"] is False
    assert "warning" in {finding["level"] for finding in json.loads(ended.stdout)["findings"]}


def test_a_401_stops_the_model_and_leaves_the_calls_to_be_done(
    tmp_path: Path, config_file: ConfigFile, simulator: Simulator, prefect_url: str
) -> None:
    endpoints = {"mine": {"api": "openai", "base_url": f"{simulator.url}/v1", "key_env": "MY_KEY"}}
    path = config_file(
        simulator=None,
        endpoints=endpoints,
        answers={"generators": ["mine/sim-tiny"]},
        teacher="mine/sim-teacher",
        judges=["mine/sim-judge-a"],
    )
    place = tmp_path / "w"
    env = {"PREFECT_API_URL": prefect_url, "MY_KEY": "bad-key-of-mine"}
    message = complaint(criticgen_process("run", path, "--workspace", place, env=env))
    assert "mine/sim-tiny: auth (401" in message
    assert "bad-key" not in message
    found = json.loads(criticgen("status", "--workspace", place, "--json").stdout)
    assert found["stages"][0]["todo"] == len(QUESTIONS)
    env["MY_KEY"] = "good-key"
    ended = criticgen_process("run", path, "--workspace", place, env=env)
    assert ended.returncode == 0, ended.stderr
    assert not any(b"bad-key" in file.read_bytes() for file in place.rglob("*") if file.is_file())


def test_check_pings_every_model(config_file: ConfigFile) -> None:
    ended = criticgen("check", config_file(), "--ping", "--json")
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)["findings"]
    assert {f["message"] for f in found if f["message"].endswith("answers")} == {
        "openai/sim-tiny answers",
        "google/sim-medium answers",
        "openai/sim-teacher answers",
        "anthropic/sim-judge-a answers",
        "google/sim-judge-b answers",
    }


def test_status_tables_query_and_show_read_a_finished_workspace(finished: Path) -> None:
    found = json.loads(criticgen("status", "--workspace", finished, "--json").stdout)
    assert found["simulated"] is True
    assert "SIMULATED" in criticgen("status", "--workspace", finished).stdout
    tables = json.loads(criticgen("tables", "--workspace", finished, "--json").stdout)
    assert {table["name"] for table in tables} >= {"questions", "calls", "ledger"}
    counted = criticgen("query", "--workspace", finished, "SELECT count(*) AS n FROM questions", "--json")
    assert json.loads(counted.stdout) == [{"n": len(QUESTIONS)}]
    item = Workspace(finished).read_table("consensus").filter("kept")["item_id"][0]
    story = json.loads(criticgen("show", "--workspace", finished, item, "--json").stdout)
    assert story["kind"] == "rubric item"
    assert len(story["trajectories"]) == 3
    assert len(story["calls"]) == 5  # the answer, its rubric, the teacher and two judges
    assert item in criticgen("show", "--workspace", finished, item).stdout


def test_rebuild_makes_the_same_tables_and_keeps_what_was_held_out(finished: Path) -> None:
    before = tables_of(Workspace(finished))
    for name in ("tables/answers", "tables/trajectories", "manifests/judges", "exports"):
        shutil.rmtree(finished / name)
    found = json.loads(criticgen("rebuild", "--workspace", finished, "--json").stdout)
    after = tables_of(Workspace(finished))
    assert [name for name in before if not before[name].equals(after[name])] == []
    assert all(check["holds"] for check in found["checks"])
    assert (finished / "exports" / "README.md").exists()


def test_rebuild_says_which_part_of_the_ledger_is_damaged_and_deletes_nothing(finished: Path) -> None:
    part = next((finished / "ledger" / "sealed" / "judges").rglob("*.parquet"))
    part.write_bytes(part.read_bytes()[:100])
    before = sorted((finished / "tables").rglob("*.parquet"))
    assert f"{part.name}: damaged" in refused("rebuild", "--workspace", finished)
    assert sorted((finished / "tables").rglob("*.parquet")) == before


def test_deleted_tables_are_made_anew_and_nothing_is_asked(
    finished: Path, config_file: ConfigFile, simulator: Simulator
) -> None:
    before = tables_of(Workspace(finished))
    for name in ("tables/questions", "tables/rubrics", "tables/consensus", "exports"):
        shutil.rmtree(finished / name)
    after = tables_of(build_without_prefect(load(config_file()), finished))
    assert simulator.calls() == 0
    assert [name for name in before if not before[name].equals(after[name])] == []


def test_a_key_pasted_for_its_name_is_not_printed(config_file: ConfigFile) -> None:
    endpoint = {"api": "openai", "key_env": "sk-canary-0123456789"}
    message = refused("check", config_file(endpoints={"mine": endpoint}))
    assert "endpoints.mine.key_env: expected the name of an environment variable" in message
    assert "canary" not in message


def test_what_is_not_there_is_said(finished: Path, tmp_path: Path) -> None:
    assert "no workspace here" in refused("status", "--workspace", tmp_path / "none")
    assert "no question, answer, rubric item or call" in refused("show", "--workspace", finished, "nothing")
    assert "there is no table nothing: " in refused("query", "--workspace", finished, "SELECT * FROM nothing")


@pytest.mark.parametrize(
    "sql",
    [
        "DROP VIEW questions",
        "CREATE TABLE t AS SELECT 1",
        "COPY (SELECT 1) TO 'out.csv'",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "ATTACH 'other.db'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SELECT 1; SELECT 2",
        "EXPLAIN ANALYZE COPY (SELECT 42) TO 'out.parquet' (FORMAT parquet)",
        "SELECT * FROM answers JOIN rubrics USING (answer_id)",
        "SELECT INTERVAL 1 DAY",
    ],
)
def test_queries_are_read_only(finished: Path, sql: str) -> None:
    from storage.queries import QueryError, query

    with pytest.raises(QueryError):
        query(Workspace(finished), sql)


def test_simulated_and_real_models_do_not_mix(finished: Path, config_file: ConfigFile) -> None:
    env = {"OPENAI_API_KEY": "x", "ANTHROPIC_API_KEY": "x"}
    message = refused("run", config_file(**REAL), "--workspace", finished, env=env)
    assert "holds simulated models' data" in message


def test_a_second_run_on_the_same_workspace_is_told_who_holds_it(finished: Path, config_file: ConfigFile) -> None:
    holder = "import sys, time; from storage.workspace import Workspace\n"
    holder += "with Workspace(sys.argv[1]).lock(): print('held', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", holder, str(finished)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        message = refused("run", config_file(coverage={"rounds": 2}), "--workspace", finished)
        process.kill()
    assert f"in use by process {process.pid}" in message


def test_help_imports_nothing_heavy() -> None:
    code = "import sys; from flows.cli import app; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"prefect", "polars", "pyarrow", "duckdb", "openai", "anthropic", "google.genai", "pydantic", "numpy"}
    assert heavy.isdisjoint(loaded)


def test_skip_bad_rows_goes_on_and_counts(tmp_path: Path, config_file: ConfigFile, prefect_url: str) -> None:
    rows = "".join(json.dumps(row) + "\n" for row in QUESTIONS[:2])
    path = source_of(tmp_path, rows + "broken\n" + rows)
    source = {"name": "own", "path": str(path), "question": "question", "reference_answer": "answer"}
    env = {"PREFECT_API_URL": prefect_url}
    arguments = ["run", config_file(sources=[source]), "--workspace", tmp_path / "w", "--skip-bad-rows"]
    ended = criticgen_process(*arguments, env=env)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(criticgen("status", "--workspace", tmp_path / "w", "--json").stdout)
    assert found["questions"]["dropped"] == {"broken": 1, "duplicate": 2}
    assert "Nothing to do" in criticgen(*arguments[:-1], env=env).stdout
