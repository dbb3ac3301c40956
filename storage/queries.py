"""DuckDB over a workspace: the tables as views over their files, for the command line and the user's own SQL."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from storage.errors import UserError
from storage.schemas import LEDGER, TABLES, Table

if TYPE_CHECKING:
    import duckdb
    import polars as pl
    import pyarrow as pa

    from storage.workspace import Workspace

INDEX = "compact/index.json"
VIEWS = TABLES | {LEDGER.name: LEDGER}


class QueryError(UserError):
    """The SQL cannot be run; the message is the database's, or says what is not allowed."""


@contextmanager
def connect(workspace: "Workspace") -> "Iterator[duckdb.DuckDBPyConnection]":
    """A connection with a view for each table, and ``ledger``. It reads the workspace's files and nothing else."""
    import duckdb

    try:
        with open_database(workspace.root) as connection:
            yield connection
    except (duckdb.Error, QueryError) as error:
        _check_file(error, workspace.root)
        if isinstance(error, QueryError):
            raise
        raise QueryError(str(error)) from None


def open_database(root: Path, parts: "Parts | None" = None, **settings: str) -> "duckdb.DuckDBPyConnection":
    """A database in memory with the views of the workspace at ``root``, locked.

    It reads no other file, asks no network, loads no extension and takes no other setting.

    ``parts`` are ``view_parts`` where they are known already, ``settings`` DuckDB's own.
    """
    import duckdb

    connection = duckdb.connect(":memory:")
    root = root.resolve()
    folders = [_quoted(f"{root}/{name}") for name in ("tables", "ledger", "compact")]
    connection.execute("SET autoinstall_known_extensions = false")
    connection.execute("SET autoload_known_extensions = false")
    connection.execute("SET python_enable_replacements = false")  # a name in SQL is never one of our variables
    connection.execute("SET TimeZone = 'UTC'")
    for name, value in settings.items():
        connection.execute(f"SET {name} = {_quoted(value)}")
    connection.execute(f"SET allowed_directories = [{', '.join(folders)}]")
    for name, files in (parts or view_parts(root)).items():
        _view(connection, VIEWS[name], [part.path for part in files])
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


class Part(NamedTuple):
    """A file of a table as it stands: another size or time is another file."""

    path: str
    size: int
    mtime_ns: int

    @property
    def file(self) -> Path:
        return Path(self.path)


Parts = dict[str, list[Part]]


def table_parts(root: Path) -> Parts:
    """The files of each table, in the order of their names."""
    root = root.resolve()
    folders = {name: root / "tables" / name for name in TABLES} | {LEDGER.name: root / "ledger" / "sealed"}
    return {name: sorted(_parquet_files(str(folder))) for name, folder in folders.items()}


def view_parts(root: Path) -> Parts:
    """The files that each view reads: ``table_parts``, or the compact file that holds them as they stand."""
    root = root.resolve()
    found = table_parts(root)
    for file, held in compact_index(root).items():
        path = root / file
        parts = found.get(held["table"], [])
        joined = {Part(f"{root}/{name}", size, mtime_ns) for name, size, mtime_ns in held["parts"]}
        if path.exists() and joined.issubset(parts):
            stat = path.stat()
            rest = [part for part in parts if part not in joined]
            found[held["table"]] = [Part(str(path), stat.st_size, stat.st_mtime_ns), *rest]
    return found


def compact_index(root: Path) -> dict[str, Any]:
    """Which parts each compact file holds (storage/compact.py); none where there is no index, or a damaged one."""
    try:
        found = orjson.loads((root / INDEX).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def _parquet_files(folder: str) -> Iterator[Part]:
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.is_dir():
            yield from _parquet_files(entry.path)
        elif entry.name.endswith(".parquet"):
            with suppress(FileNotFoundError):  # a run has just replaced it
                found = entry.stat()
                yield Part(entry.path, found.st_size, found.st_mtime_ns)


def query(workspace: "Workspace", sql: str) -> "pl.DataFrame":
    """The result of one SELECT over the tables. Raises ``QueryError``, also for SQL that would change something."""
    import polars as pl

    with connect(workspace) as connection:
        try:
            frame = pl.from_arrow(run_select(connection, sql))
        except pl.exceptions.PolarsError as error:
            raise QueryError(str(error)) from None
    assert isinstance(frame, pl.DataFrame)
    return frame


def run_select(connection: "duckdb.DuckDBPyConnection", sql: str, rows: int | None = None) -> "pa.Table":
    """The (first ``rows``) rows of one SELECT that reads our views and nothing else. Raises ``QueryError``."""
    import duckdb

    try:
        statements = connection.extract_statements(sql)
        if len(statements) != 1:
            raise QueryError(f"expected one statement, found {len(statements)}")
        if statements[0].type is not duckdb.StatementType.SELECT:
            raise QueryError("only SELECT (and DESCRIBE, SUMMARIZE) is allowed: queries are read-only")
        _check(connection, sql)
        found = connection.sql(sql)
        return (found if rows is None else found.limit(rows)).to_arrow_table()
    except duckdb.Error as error:
        raise QueryError(str(error)) from None


# Table functions that read no file and no setting. Others would list folders, run SQL given as text, ...
_TABLE_FUNCTIONS = {"range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree"}
_FORBIDDEN_FUNCTIONS = {"getenv", "current_setting", "read_text", "read_blob", "glob", "query", "query_table"}


def _check(connection: "duckdb.DuckDBPyConnection", sql: str) -> None:
    """Raises ``QueryError`` for a SELECT that names a file, a function that reaches outside, or an unknown table."""
    ((serialized,),) = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
    tree = orjson.loads(serialized)
    if tree["error"]:
        raise QueryError(str(tree.get("error_message", "not a SELECT")))
    nodes = list(_nodes(tree))
    ours = {name for node in nodes for name in _cte_names(node) if name.isidentifier()} | VIEWS.keys()
    for node in nodes:
        if node.get("type") == "TABLE_FUNCTION":
            name = str(node["function"].get("function_name", "")).lower()
            if name not in _TABLE_FUNCTIONS:
                raise QueryError(f"the table function {name} is not allowed: queries read the tables alone")
        elif node.get("type") == "BASE_TABLE":
            table, schema = str(node["table_name"]), str(node.get("schema_name") or "")
            known = schema.lower() in ("", "main") and table.lower() in ours
            if schema.lower() != "information_schema" and not known:
                raise QueryError(f"there is no table {table}: {', '.join(VIEWS)}")
        elif node.get("class") == "FUNCTION" and str(node.get("function_name", "")).lower() in _FORBIDDEN_FUNCTIONS:
            raise QueryError(f"the function {node['function_name']} is not allowed: queries read the tables alone")


def _nodes(value: Any) -> "Iterator[dict[str, Any]]":
    waiting = [value]
    while waiting:
        here = waiting.pop()
        if isinstance(here, dict):
            yield here
            waiting.extend(here.values())
        elif isinstance(here, list):
            waiting.extend(here)


def _cte_names(node: dict[str, Any]) -> list[str]:
    found = node.get("cte_map")
    return [entry["key"].lower() for entry in found.get("map", [])] if isinstance(found, dict) else []


def tables(workspace: "Workspace") -> list[dict[str, Any]]:
    """Each table: name, what a row is, number of rows, and its columns with type and meaning."""
    with connect(workspace) as connection:
        return [
            {
                "name": table.name,
                "row": table.row,
                "rows": _one(connection, f'SELECT count(*) FROM "{table.name}"'),
                "columns": [
                    {"name": name, "type": str(type_), "meaning": meaning}
                    for name, (type_, meaning) in table.columns.items()
                ],
            }
            for table in VIEWS.values()
        ]


def _view(connection: "duckdb.DuckDBPyConnection", table: Table, files: list[str]) -> None:
    if files:
        listed = ", ".join(map(_quoted, files))
        connection.execute(f'CREATE VIEW "{table.name}" AS SELECT * FROM read_parquet([{listed}])')
    else:
        # A table, since what is registered is seen by one cursor alone.
        connection.register("nothing", table.schema.empty_table())
        connection.execute(f'CREATE TABLE "{table.name}" AS SELECT * FROM nothing')
        connection.unregister("nothing")


def _check_file(error: Exception, root: Path) -> None:
    """Where the database names a file that cannot be read, raise what ``read_parquet`` says of it and what to do."""
    from storage.workspace import read_parquet

    files = {part.path: VIEWS[name] for name, parts in table_parts(root).items() for part in parts}
    for named in re.findall(r"'([^']+\.parquet)'", str(error)):
        if named in files:
            read_parquet(files[named], [Path(named)])


def _one(connection: "duckdb.DuckDBPyConnection", sql: str) -> Any:
    row = connection.execute(sql).fetchone()
    return row[0] if row else None


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
