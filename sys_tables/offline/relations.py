"""Brings the tables that a query names into DuckDB under their own names: `fluss.sys.x`, `fluss.db.t` and `lake.db.t`.

System tables come as Arrow from their modules, all of one moment; tables of the lake are views over the files of their newest
snapshot. `fluss` is the default catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
from pyarrow import ipc

from sys_tables.declare.scan import ScanRequest
from sys_tables.query.data_tables import status_of, why_not_in_lake
from sys_tables.query.lookup import near_hint, resolve_table
from sys_tables.query.reading import StatementView
from sys_tables.registry import Registry
from tiering.coordinator.interface import NamesView
from tiering.errors import InvalidArgument, LakeUnavailable, LakewardError, UnknownTable
from tiering.lake.base import Lake
from tiering.lake.file_lists import FIELD_ID_KEY, FileLists, ReadableLake
from tiering.library_guards.duckdb_guard import duckdb_reason
from tiering.model.names import SYSTEM_DATABASE, table_path
from tiering.model.tables import BUCKET_COLUMN, OFFSET_COLUMN, TIMESTAMP_COLUMN, TablePath
from tiering.validate.duckdb_rows import LakeColumns, live_rows, quoted, unreadable_file

CATALOG = "fluss"
LAKE_CATALOG = "lake"
HIDDEN = (BUCKET_COLUMN, OFFSET_COLUMN, TIMESTAMP_COLUMN)
"""Columns of `fluss.db.t` that a query gets only by name, as in Spark."""
DAMAGE_SEARCH_FILES = 200
"""How many files are read one by one to find a damaged one, once a query failed; a validation reads all."""

Name = tuple[str, str, str]
"""Catalog, database and table, by their stored names."""


@dataclass(frozen=True)
class ResolvedTable:
    """The table that a name means. `hides`: its HIDDEN columns are no part of a `*`."""

    name: Name
    hides: bool = False


def resolve(parts: Sequence[str], view: NamesView, registry: Registry) -> ResolvedTable:
    """The table that `sys.x`, `db.t`, `fluss.db.t` or `lake.db.t` stands for.

    Raises UnknownTable, UnknownDatabase, InvalidArgument, InvalidName.
    """
    catalog, database, name = _three(parts)
    if catalog.lower() == LAKE_CATALOG:
        path = _stored_path(table_path(database, name), view)
        return ResolvedTable((LAKE_CATALOG, path.database_name, path.table_name))
    if catalog.lower() != CATALOG:
        raise InvalidArgument(
            f"there is no catalog {catalog!r} offline", hint=f"There are {CATALOG} (the store and {SYSTEM_DATABASE}) and {LAKE_CATALOG}."
        )
    if database.lower() == SYSTEM_DATABASE:
        return ResolvedTable((CATALOG, SYSTEM_DATABASE, registry.table(name).name))
    path = resolve_table(view, table_path(database, name)).path
    return ResolvedTable((CATALOG, path.database_name, path.table_name), hides=True)


def _three(parts: Sequence[str]) -> Name:
    match list(parts):
        case [database, name]:
            return CATALOG, database, name
        case [catalog, database, name]:
            return catalog, database, name
        case [name]:
            raise UnknownTable(f"there is no table {name!r}", hint=f"Name the database, too: {SYSTEM_DATABASE}.{name} or db.{name}.")
    raise UnknownTable(
        f"{'.'.join(parts)} is not a table that can be read offline", hint="The lake's own metadata tables are read with Spark."
    )


def _stored_path(path: TablePath, view: NamesView) -> TablePath:
    """Returns the path as the store spells it; the lake may have tables that the store never had."""
    try:
        return resolve_table(view, path).path
    except LakewardError:
        return path


class Relations:
    """Creates relations in one connection. `mentioned` are the lower-case names that a query uses; None = perhaps all columns."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        registry: Registry,
        view: StatementView,
        open_lake: Callable[[str], Lake],
        lake_format: str,
        mentioned: frozenset[str] | None,
    ) -> None:
        self._connection = connection
        self._registry = registry
        self._view = view
        self._open_lake = open_lake
        self._lake_format = lake_format
        self._mentioned = mentioned
        self._created: set[Name] = set()
        self._lake_tables: dict[ResolvedTable, LakeTable] = {}
        for catalog in (CATALOG, LAKE_CATALOG):
            self._run(f"ATTACH ':memory:' AS {catalog}")

    def files(self, resolved: Iterable[ResolvedTable]) -> list[str]:
        """All files of lake tables that `create` reads. Raises as `create` does."""
        tables = [self._lake_table(table) for table in resolved if table.name[1] != SYSTEM_DATABASE]
        return [file.path for table in tables for file in table.files.all_files]

    def name_damage(self, error: duckdb.Error) -> str | None:
        """Which file of the lake tables in use DuckDB cannot read, with its table and column; None if none is to blame for `error`."""
        times_only = isinstance(error, (duckdb.ConversionException, duckdb.OutOfRangeException))
        for resolved, table in self._lake_tables.items():
            if (damage := unreadable_file(table.files.all_files, times_only, DAMAGE_SEARCH_FILES)) is not None:
                return f"{'.'.join(resolved.name[1:])}: {damage}"
        return None

    def _lake_table(self, resolved: ResolvedTable) -> LakeTable:
        """The lake table, looked up once, so that a query reads one snapshot."""
        if resolved not in self._lake_tables:
            self._lake_tables[resolved] = lake_table(self._view.names, self._open_lake, self._lake_format, resolved)
        return self._lake_tables[resolved]

    def create(self, resolved: ResolvedTable, with_hidden: bool) -> None:
        """Creates the relation of a table. Raises UnknownTable (not in the lake), LakeUnavailable, InvalidArgument."""
        if resolved.name in self._created:
            return
        catalog, database, name = resolved.name
        self._run(f"CREATE SCHEMA IF NOT EXISTS {catalog}.{quoted(database)}")
        if database == SYSTEM_DATABASE:
            self._make_system_table(name)
        else:
            self._make_lake_table(resolved, with_hidden)
        self._created.add(resolved.name)

    def _make_system_table(self, name: str) -> None:
        table = self._registry.table(name)
        names = table.schema.names
        columns = names if self._mentioned is None else [column for column in names if column.lower() in self._mentioned] or names[:1]
        scan = ScanRequest(columns=tuple(columns), procedures=self._registry.procedures)
        rows = ipc.open_stream(pa.py_buffer(b"".join(self._view.read(table, scan)))).read_all()
        self._connection.register("source_rows", rows)
        self._run(f"CREATE TABLE {CATALOG}.{SYSTEM_DATABASE}.{quoted(name)} AS SELECT * FROM source_rows")
        self._connection.unregister("source_rows")

    def _make_lake_table(self, resolved: ResolvedTable, with_hidden: bool) -> None:
        catalog, database, name = resolved.name
        table = self._lake_table(resolved)
        shown = [column for column in table.shown if with_hidden or not resolved.hides or column not in HIDDEN]
        target = f"{catalog}.{quoted(database)}.{quoted(name)}"
        if not table.files.data:
            self._connection.register("source_rows", table.columns.empty_table())
            self._run(f"CREATE TABLE {target} AS SELECT {', '.join(map(quoted, shown))} FROM source_rows")
            self._connection.unregister("source_rows")
            return
        try:
            requested_columns = self._requested_columns(table)
            rows = live_rows(self._run, table.files, requested_columns, f"{database}.{name}", f"of_{len(self._created)}_")
            values = rows.expressions if requested_columns.field_ids is not None else typed(rows.expressions, requested_columns.types)
            picked = ", ".join(f"{values[column]} AS {quoted(column)}" for column in shown)
            self._run(f"CREATE VIEW {target} AS SELECT {picked} FROM {rows.relation}")
        except duckdb.Error as error:
            damage = (
                unreadable_file(table.files.all_files, at_most=DAMAGE_SEARCH_FILES)
                or f"its lake files cannot be read: {duckdb_reason(error)}"
            )
            raise LakeUnavailable(
                f"{database}.{name}: {damage}",
                hint=f"`lakeward validate {database}.{name}` names the file.",
            ) from error

    def _requested_columns(self, table: LakeTable) -> LakeColumns:
        self._connection.register("no_rows", table.columns.empty_table())
        types = {row[0]: row[1] for row in self._run("DESCRIBE SELECT * FROM no_rows")}
        self._connection.unregister("no_rows")
        if not table.files.has_field_ids:
            return LakeColumns(types)
        return LakeColumns(types, {field.name: int((field.metadata or {})[FIELD_ID_KEY]) for field in table.columns})

    def _run(self, sql: str, parameters: Mapping[str, object] | None = None) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql, dict(parameters or {})).fetchall()


def typed(expressions: Mapping[str, str], types: Mapping[str, str]) -> Mapping[str, str]:
    """SQL of columns in the table's types, where those of files may be others: a narrower number, a time without its zone."""
    return {name: f"CAST({expression} AS {types[name]})" for name, expression in expressions.items()}


@dataclass(frozen=True)
class LakeTable:
    """A table of the lake. `columns` are all that it has now; `shown` those of the name that a query uses, in its order."""

    columns: pa.Schema
    shown: tuple[str, ...]
    files: FileLists


def lake_table(view: NamesView, open_lake: Callable[[str], Lake], lake_format: str, resolved: ResolvedTable) -> LakeTable:
    """The lake's newest snapshot of a table. Raises UnknownTable: not in the lake; InvalidArgument, LakeUnavailable."""
    _, database, name = resolved.name
    path = TablePath(database, name)
    info = resolve_table(view, path) if resolved.hides else None
    if info is not None and not info.lake_enabled:
        raise UnknownTable(why_not_in_lake(info, None))
    lake = open_lake(lake_format if info is None else info.lake_format)
    snapshot = lake.view(path)
    if snapshot is None:
        if info is not None:
            raise UnknownTable(why_not_in_lake(info, status_of(view, info)))
        raise _not_in_lake(view, path, lake_format)
    if not isinstance(lake, ReadableLake):
        raise InvalidArgument(f"rows of {lake.format} lakes cannot be read offline by this version", hint="Read them with Spark.")
    columns = lake.columns(snapshot)
    names = columns.names if info is None else [*info.schema.names, *HIDDEN]
    return LakeTable(columns, tuple(name for name in names if name in columns.names), lake.file_lists(snapshot, None))


def _not_in_lake(view: NamesView, path: TablePath, lake_format: str) -> UnknownTable:
    """The error for a name of the catalog `lake`, which has the copies of one format."""
    formats = {str(table.path): table.lake_format for database in view.databases() for table in view.tables(database) if table.lake_enabled}
    other = formats.get(str(path), lake_format)
    if other != lake_format:
        reason = (
            f"there is no table {path} in {LAKE_CATALOG}, which has tables of the format {lake_format}: its copy is of the format {other}"
        )
        return UnknownTable(reason, hint=f"{CATALOG}.{path} names the copy.")
    names_of_format = [name for name, table_format in formats.items() if table_format == lake_format]
    return UnknownTable(f"there is no table {path} in the lake", hint=near_hint(str(path), names_of_format, "tables that are tiered"))
