"""DuckDB over a workspace: the tables as views over their files, for the command line and the user's own SQL."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storage.errors import UserError
from storage.ledger import ledger_files
from storage.schemas import LEDGER, TABLES, Table
from storage.workspace import Workspace, read_parquet

if TYPE_CHECKING:
    import duckdb
    import polars as pl


class QueryError(UserError):
    """The SQL cannot be run; the message is the database's, or says what is not allowed."""


@contextmanager
def connect(workspace: Workspace) -> "Iterator[duckdb.DuckDBPyConnection]":
    """A connection with a view for each table, and ``ledger``. It reads the workspace's files and nothing else."""
    import duckdb

    with duckdb.connect(":memory:") as connection:
        root = str(workspace.root.resolve())
        connection.execute("SET autoinstall_known_extensions = false")
        connection.execute("SET autoload_known_extensions = false")
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"SET allowed_directories = [{_quoted(root + '/tables')}, {_quoted(root + '/ledger')}]")
        try:
            for table in TABLES.values():
                _view(connection, table, [str(path.resolve()) for path in workspace.table_files(table.name)])
            _view(connection, LEDGER, [str(path.resolve()) for path in ledger_files(workspace.root)])
        except duckdb.Error as error:
            _check_file(error, workspace)
            raise QueryError(str(error)) from None
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        yield connection


def query(workspace: Workspace, sql: str) -> "pl.DataFrame":
    """The result of one SELECT over the tables. Raises ``QueryError``, also for SQL that would change something."""
    import duckdb
    import polars as pl

    with connect(workspace) as connection:
        try:
            statements = connection.extract_statements(sql)
            if len(statements) != 1:
                raise QueryError(f"expected one statement, found {len(statements)}")
            if statements[0].type is not duckdb.StatementType.SELECT:
                raise QueryError("only SELECT (and DESCRIBE, SUMMARIZE) is allowed: queries are read-only")
            frame = pl.from_arrow(connection.sql(sql).to_arrow_table())
        except (duckdb.Error, pl.exceptions.PolarsError) as error:
            _check_file(error, workspace)
            raise QueryError(str(error)) from None
    assert isinstance(frame, pl.DataFrame)
    return frame


def tables(workspace: Workspace) -> list[dict[str, Any]]:
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
            for table in (*TABLES.values(), LEDGER)
        ]


def _view(connection: "duckdb.DuckDBPyConnection", table: Table, files: list[str]) -> None:
    if files:
        listed = ", ".join(map(_quoted, files))
        connection.execute(f'CREATE VIEW "{table.name}" AS SELECT * FROM read_parquet([{listed}])')
    else:
        connection.register(table.name, table.schema.empty_table())


def _check_file(error: Exception, workspace: Workspace) -> None:
    """Where the database names a file that cannot be read, raise what ``read_parquet`` says of it and what to do."""
    files = {path.resolve(): table for table in TABLES.values() for path in workspace.table_files(table.name)}
    files |= {path.resolve(): LEDGER for path in ledger_files(workspace.root)}
    for named in re.findall(r"'([^']+\.parquet)'", str(error)):
        if (path := Path(named)) in files:
            read_parquet(files[path], [path])


def _one(connection: "duckdb.DuckDBPyConnection", sql: str) -> Any:
    row = connection.execute(sql).fetchone()
    return row[0] if row else None


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
