"""SQL of the user's own reads the tables and nothing else, and ends."""

import time
from pathlib import Path

import pytest

from storage.limited_sql import run_limited, select_limited
from storage.queries import QueryError, query
from storage.workspace import Workspace

ESCAPES = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT (SELECT content FROM read_blob('/etc/hostname'))",
    "WITH x AS (SELECT * FROM read_json('{root}/workspace.json')) SELECT * FROM x",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM '{root}/ledger/budget.json'",
    "SELECT * FROM read_text('{root}/ledger/budget.json')",
    'SELECT * FROM "{root}/ledger/budget.json", (WITH "{root}/ledger/budget.json" AS (SELECT 1) SELECT 1)',
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM 'https://127.0.0.1:1/x.parquet'",
    "COPY questions TO '{root}/out.csv'",
    "COPY (SELECT 1) TO '{root}/tables/out.parquet'",
    "EXPORT DATABASE '{root}/out'",
    "ATTACH '{root}/out.db'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "PRAGMA database_list",
    "CALL pragma_version()",
    "SELECT * FROM pragma_database_list()",
    "SELECT getenv('HOME')",
    "SELECT current_setting('allowed_directories')",
    "SELECT * FROM duckdb_settings()",
    "SET enable_external_access = true",
    "RESET lock_configuration",
    "SELECT * FROM query('SELECT 1')",
    "SELECT * FROM query_table('questions')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "DESCRIBE SELECT * FROM read_text('/etc/passwd')",
    "SUMMARIZE '/etc/passwd'",
    "CREATE TABLE x AS SELECT 1",
    "DROP VIEW questions",
    "SELECT 1; SELECT 2",
    "SELECT * FROM workspace",  # a variable of the program
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    place = Workspace(tmp_path_factory.mktemp("w"))
    place.claim("w", simulated=True)
    (place.root / "ledger").mkdir()
    (place.root / "ledger" / "budget.json").write_text('{"lost_usd": 1}')
    return place


@pytest.mark.parametrize("sql", ESCAPES)
def test_nothing_but_the_tables_can_be_read_or_written(place: Workspace, sql: str) -> None:
    before = sorted(place.root.rglob("*"))
    with pytest.raises(QueryError):
        query(place, sql.replace("{root}", str(place.root)))
    assert sorted(place.root.rglob("*")) == before


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM questions",
        "FROM answers SELECT model, count(*) GROUP BY ALL",
        "WITH RECURSIVE x(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM x WHERE a < 3) SELECT * FROM x",
        "SELECT v.model FROM consensus, unnest(votes) AS t(v)",
        "DESCRIBE ledger",
        "SUMMARIZE coverage",
        "SHOW TABLES",
        "SELECT * FROM range(3)",
        "SELECT table_name FROM information_schema.tables",
    ],
)
def test_what_only_reads_the_tables_runs(place: Workspace, sql: str) -> None:
    query(place, sql)


def test_a_process_of_its_own_keeps_the_same_lock(place: Workspace) -> None:
    assert select_limited(place.root, "SELECT 7 AS n", rows=5).to_pylist() == [{"n": 7}]
    with pytest.raises(QueryError, match="read_text"):
        select_limited(place.root, "SELECT * FROM read_text('/etc/passwd')", rows=5)


def test_the_time_limit_ends_a_query(place: Workspace) -> None:
    began = time.monotonic()
    with pytest.raises(QueryError, match="longer than 2 s"):
        select_limited(place.root, "SELECT count(*) FROM range(10000000000) a, range(1000) b", rows=1, seconds=2)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    "sql",
    ["SELECT length(repeat('x', 4000000000))", "SELECT list(repeat('x', 100000)) FROM range(100000)"],
)
def test_the_memory_limit_ends_a_query(place: Workspace, sql: str) -> None:
    with pytest.raises(QueryError, match=r"(?i)memory"):
        select_limited(place.root, sql, rows=1)


def test_a_file_holds_lists_as_json_in_csv(place: Workspace, tmp_path: Path) -> None:
    with run_limited(place.root, "SELECT 1 AS a, [1, 2] AS b", rows=5, form="csv") as found:
        assert found.read().decode().splitlines() == ['"a","b"', '1,"[1,2]"']
