"""SQL with nothing running: one statement after the other in Spark's dialect, on DuckDB.

Every statement sees one moment of the coordinator's folder and the newest snapshots of the lake, through a connection of its
own; nothing is written anywhere but to a temporary folder, when a query needs more than its memory limit.
"""

from __future__ import annotations

import getpass
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import duckdb
from sqlglot import exp

from sys_tables.offline.allowed_sources import check_statement
from sys_tables.offline.answers import Answer, queried
from sys_tables.offline.calls import Validate, call
from sys_tables.offline.fresh_rows import OpenRead, StatementReads
from sys_tables.offline.parsing import CallStatement, Describe, Query, Show, Statement, UseStatement, parse
from sys_tables.offline.relations import Relations, ResolvedTable, StatementNeeds, resolve
from sys_tables.offline.show_and_describe import describe, show, used_database
from sys_tables.offline.translate import duckdb_sql, mentioned_names, mentions_hidden, qualified
from sys_tables.query.reading import StatementView
from sys_tables.registry import Registry, default_registry
from tiering.errors import StatementFailed
from tiering.lake.base import Lake
from tiering.library_guards.duckdb_guard import lock
from tiering.procedures.arguments import SessionNames
from tiering.union_read.plan import plan_again_if_stale

DEFAULT_MEMORY_LIMIT = "1GB"


@dataclass(frozen=True)
class OfflineSource:
    """The data that statements read. `read_view` is called for each statement.

    `open_read` fixes the moment of a table that is read fresh. `lake_format` is the format of tables that the store does not know.
    `start_command` is the command that starts a service on the same folder, for hints; None = one runs already.
    """

    read_view: Callable[[], StatementView]
    open_lake: Callable[[str], Lake]
    open_read: OpenRead
    lake_format: str
    validate: Validate
    start_command: str | None


class OfflineEngine:
    """Executes statements. Nothing stays open between them, and nothing of one is left but the database of a USE."""

    def __init__(
        self,
        source: OfflineSource,
        registry: Registry | None = None,
        memory_limit: str = DEFAULT_MEMORY_LIMIT,
        *,
        max_rows: int | None = None,
        settings: Mapping[str, str] | None = None,
        refused_functions: frozenset[str] = frozenset(),
    ) -> None:
        """`max_rows` limits the rows of an answer; None = all. `settings` are DuckDB's. A query that names a refused function fails."""
        self._source = source
        self._registry = registry or default_registry()
        self._memory_limit = memory_limit
        self._max_rows = max_rows
        self._settings = dict(settings or {})
        self._refused_functions = refused_functions
        self._database = ""
        """The database of the last USE; empty = none."""

    def execute(self, text: str) -> Answer:
        """All rows. Raises StatementFailed (cannot be parsed, translated or run), BadRequest (unknown names, wrong arguments),
        LakeUnavailable, StoreError, ClusterUnavailable; KeyboardInterrupt ends the work."""
        return self.execute_parsed(parse(text))

    def execute_parsed(self, statement: Statement) -> Answer:
        """Does the same as `execute` for a parsed statement."""
        source = self._source
        view = source.read_view()
        match statement:
            case Query(tree):
                return self._query(tree, view)
            case Show(kind="TABLES", inside=()) if self._database:
                return show(replace(statement, inside=(self._database,)), view.names, self._registry)
            case Show():
                return show(statement, view.names, self._registry)
            case UseStatement(name):
                self._database = used_database(name, view.names)
                return Answer((), ())
            case Describe(name=name):
                described = replace(statement, name=self._named(name))
                return describe(described, view.names, self._registry, source.open_lake, source.lake_format)
            case CallStatement():
                names = SessionNames(database=self._database)
                return call(statement, view.names, self._registry, source.validate, source.start_command, getpass.getuser(), names)

    def _named(self, parts: Sequence[str]) -> tuple[str, ...]:
        """The name of a table with the database that is used, if it has none of its own."""
        return (self._database, *parts) if len(parts) == 1 and self._database else tuple(parts)

    def _query(self, tree: exp.Query, view: StatementView) -> Answer:
        full, tables = qualified(tree, lambda parts: resolve(self._named(parts), view.names, self._registry))
        sql, hidden, mentioned = duckdb_sql(full), mentions_hidden(tree), mentioned_names(tree)
        try:
            return self._run(sql, full, view, tables, mentioned, hidden)
        except StatementFailed as error:
            if mentioned is None or not isinstance(error.__cause__, duckdb.BinderException):
                raise
            # Run once more with all columns, so that the error can list them.
            return self._run(sql, full, view, tables, None, hidden)

    @plan_again_if_stale  # a coordinator may cut the log between the plan and the read
    def _run(
        self,
        sql: str,
        query: exp.Query,
        view: StatementView,
        tables: list[ResolvedTable],
        mentioned: frozenset[str] | None,
        hidden: bool,
    ) -> Answer:
        with StatementReads(self._source.open_read) as reads, self._connection() as connection:
            check_statement(connection, sql, self._refused_functions)
            needs = StatementNeeds(query, mentioned)
            relations = Relations(connection, self._registry, view, self._source.open_lake, self._source.lake_format, needs, reads)
            lock(connection, relations.files(tables))
            for table in tables:
                relations.create(table, hidden)
            return queried(connection, sql, relations.name_damage, self._max_rows)

    @contextmanager
    def _connection(self) -> Iterator[duckdb.DuckDBPyConnection]:
        with tempfile.TemporaryDirectory(prefix="lakeward-sql-") as folder, duckdb.connect() as connection:
            settings = {"memory_limit": self._memory_limit, "temp_directory": folder, "TimeZone": "UTC", **self._settings}
            for name, value in settings.items():
                connection.execute(f"SET {name} = $value", {"value": value}).fetchall()
            connection.execute("SET ieee_floating_point_ops = false").fetchall()  # x / 0 is an error, as in Spark (ANSI)
            yield connection
