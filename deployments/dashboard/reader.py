"""The workspace's tables for many requests: one locked DuckDB, opened anew when a file has come, changed or gone."""

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import duckdb

from deployments.dashboard import facts
from storage.queries import Parts, open_database, view_parts
from storage.workspace import Workspace

Row = dict[str, Any]

LOOK_EVERY_S = 2.0
QUICK_S = 0.5  # a database that opens in less is opened within the request that needs it
REST = (
    10.0  # times as long as opening took, the old one serves: while a run writes, a large workspace is minutes behind
)
KEPT_RESULTS, KEPT_ROWS = 128, 2_000
SETTINGS = {"memory_limit": "1200MB", "temp_directory": "", "parquet_metadata_cache": "true"}


class Reader:
    """Answers SQL over the tables and ``facts``. Small results are kept while the files they came from stand."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.as_of = datetime.now(UTC)  # the state of the files that answers tell of
        self._opening = threading.Lock()
        self._database: duckdb.DuckDBPyConnection | None = None
        self._parts: Parts = {}
        self._opened = 0  # how often
        self._took_s = 0.0
        self._looked = 0.0
        self._results: OrderedDict[object, list[Row]] = OrderedDict()

    def rows(self, sql: str, params: Mapping[str, Any] | None = None) -> list[Row]:
        """The result of one query. A file that a run has replaced meanwhile is looked up once more."""
        try:
            return self._rows(sql, params or {}, self._current())
        except duckdb.IOException:
            with self._opening:
                self._open(view_parts(self.workspace.root))
            return self._rows(sql, params or {}, self._current())

    def one(self, sql: str, params: Mapping[str, Any] | None = None) -> Row | None:
        found = self.rows(sql, params)
        return found[0] if found else None

    def _rows(self, sql: str, params: Mapping[str, Any], database: duckdb.DuckDBPyConnection) -> list[Row]:
        key = (self._opened, sql, repr(sorted(params.items())))
        if (kept := self._results.get(key)) is not None:
            return kept
        with database.cursor() as cursor:
            found: list[Row] = cursor.sql(sql, params=dict(params)).to_arrow_table().to_pylist()
        if len(found) <= KEPT_ROWS:
            self._results[key] = found
            while len(self._results) > KEPT_RESULTS:
                self._results.popitem(last=False)
        return found

    def _current(self) -> duckdb.DuckDBPyConnection:
        database = self._database
        if database is None or self._took_s < QUICK_S:
            with self._opening:
                self._look()
        elif time.monotonic() - self._looked > max(LOOK_EVERY_S, REST * self._took_s):
            threading.Thread(target=self._look_behind, daemon=True).start()
        assert self._database is not None
        return self._database

    def _look_behind(self) -> None:
        if self._opening.acquire(blocking=False):
            try:
                self._look()
            finally:
                self._opening.release()

    def _look(self) -> None:
        if self._database is not None and time.monotonic() - self._looked < LOOK_EVERY_S:
            return
        parts = view_parts(self.workspace.root)
        if parts != self._parts or self._database is None:
            self._open(parts)
        self.as_of, self._looked = datetime.now(UTC), time.monotonic()

    def _open(self, parts: Parts) -> None:
        began = time.monotonic()
        database = open_database(self.workspace.root, parts, **SETTINGS)
        facts.make(database)
        # The old one ends when the last query on it has ended.
        self._database, self._parts, self._took_s = database, parts, time.monotonic() - began
        self._opened += 1
        self._results.clear()
