"""Brings the tables that a query names into DuckDB under their own names: `fluss.sys.x`, `fluss.db.t`, `fluss.db."t$lake"`, `lake.db.t`.

System tables come as Arrow from their modules, all of one moment; tables of the lake are views over the files of their newest
snapshot. `fluss.db.t` has the rows of lake and log at one moment: a view over the lake's files, and the log part as Arrow. `fluss` is the
default catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import duckdb
import pyarrow as pa
from pyarrow import ipc
from sqlglot import exp

from sys_tables.declare.scan import ScanRequest
from sys_tables.offline.fresh_rows import FreshRead, StatementReads, chunks
from sys_tables.offline.needed_rows import NeededRows, needed_rows
from sys_tables.query.data_tables import status_of, why_not_in_lake
from sys_tables.query.lookup import near_hint, resolve_table
from sys_tables.query.reading import StatementView
from sys_tables.registry import Registry
from tiering.coordinator.interface import NamesView
from tiering.errors import InvalidArgument, LakeUnavailable, LakewardError, UnknownTable
from tiering.lake.base import Lake, LakeView
from tiering.lake.file_lists import FileLists, FollowingLake, ReadableLake
from tiering.lake.schema.sql_text import quoted
from tiering.lake.schema.stored_columns import stored_columns
from tiering.lake.table_options import LAYOUT
from tiering.library_guards.duckdb_guard import duckdb_reason
from tiering.model.names import CHANGELOG_SUFFIX, LAKE_SUFFIX, SYSTEM_DATABASE, table_path
from tiering.model.reading.conditions import Filter
from tiering.model.reading.scans import ReadPart, ReadScan
from tiering.model.schema.field_ids import field_id
from tiering.model.tables import BUCKET_COLUMN, OFFSET_COLUMN, SYSTEM_COLUMN_FIELDS, TIMESTAMP_COLUMN, Partition, TableInfo, TablePath
from tiering.union_read.changelog import changelog_schema
from tiering.union_read.plan import check_columns, check_mark
from tiering.union_read.pushdown.pruning import matching_partitions
from tiering.validate.duckdb_rows import LakeColumns, live_rows, unreadable_file

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
    """The table that a name means. `hides`: its HIDDEN columns are no part of a `*`. `fresh`: the part of a fresh read that it has."""

    name: Name
    hides: bool = False
    fresh: ReadPart | None = None

    @property
    def path(self) -> TablePath:
        """The table without the suffix of the name."""
        return TablePath(self.name[1], self.name[2].removesuffix(LAKE_SUFFIX).removesuffix(CHANGELOG_SUFFIX))


def resolve(parts: Sequence[str], view: NamesView, registry: Registry) -> ResolvedTable:
    """The table that `sys.x`, `db.t`, `fluss.db.t`, `fluss.db."t$lake"` or `lake.db.t` stands for.

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
    suffix = next((suffix for suffix in (LAKE_SUFFIX, CHANGELOG_SUFFIX) if name.lower().endswith(suffix)), "")
    path = resolve_table(view, table_path(database, name[: len(name) - len(suffix)])).path
    part = {LAKE_SUFFIX: None, CHANGELOG_SUFFIX: ReadPart.CHANGELOG}.get(suffix, ReadPart.ROWS)
    full_name = (CATALOG, path.database_name, path.table_name + suffix)
    return ResolvedTable(full_name, hides=part is not ReadPart.CHANGELOG, fresh=part)


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


@dataclass(frozen=True)
class StatementNeeds:
    """The statement, with full names of its tables. `mentioned`: the lower-case names that it uses; None = perhaps all columns."""

    query: exp.Query
    mentioned: frozenset[str] | None


class Relations:
    """Creates relations in one connection, with what the statement needs of them."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        registry: Registry,
        view: StatementView,
        open_lake: Callable[[str], Lake],
        lake_format: str,
        needs: StatementNeeds,
        reads: StatementReads,
    ) -> None:
        self._connection = connection
        self._registry = registry
        self._view = view
        self._open_lake = open_lake
        self._lake_format = lake_format
        self._query = needs.query
        self._mentioned = needs.mentioned
        self._reads = reads
        self._created: set[Name] = set()
        self._lake_tables: dict[ResolvedTable, LakeTable] = {}
        for catalog in (CATALOG, LAKE_CATALOG):
            self._run(f"ATTACH ':memory:' AS {catalog}")

    def files(self, resolved: Iterable[ResolvedTable]) -> list[str]:
        """Fixes the moments of fresh tables, and returns all files of lake tables that `create` reads. Raises as `create` does."""
        data_tables = [table for table in resolved if table.name[1] != SYSTEM_DATABASE]
        for table in data_tables:
            if table.fresh is not None:
                self._reads.open(table.path)
        tables = [self._lake_table(table) for table in data_tables if self._has_lake_part(table)]
        return [file.path for table in tables for file in table.files.all_files]

    def name_damage(self, error: duckdb.Error) -> str | None:
        """Which file of the lake tables in use DuckDB cannot read, with its table and column; None if none is to blame for `error`."""
        times_only = isinstance(error, (duckdb.ConversionException, duckdb.OutOfRangeException))
        for resolved, table in self._lake_tables.items():
            if (damage := unreadable_file(table.files.all_files, times_only, DAMAGE_SEARCH_FILES)) is not None:
                return f"{resolved.path}: {damage}"
        return None

    def _has_lake_part(self, resolved: ResolvedTable) -> bool:
        if resolved.fresh is ReadPart.CHANGELOG:
            return False
        return resolved.fresh is None or self._reads.open(resolved.path).lake_snapshot_id is not None

    def _lake_table(self, resolved: ResolvedTable) -> LakeTable:
        """The lake table, looked up once, so that a query reads one snapshot."""
        if resolved not in self._lake_tables:
            read = self._reads.opened(resolved.path)
            snapshot_id = None if read is None else read.lake_snapshot_id
            table = lake_table(self._view.names, self._open_lake, self._lake_format, resolved, snapshot_id)
            if read is not None and read.lake_snapshot_id is not None:
                check_mark(resolved.path, table.view, read.lake_snapshot_id, read.lake_mark)
            if read is not None and resolved.fresh is not None:
                # The columns are those of now, and a user may have renamed one since the read began: it would be read as NULL.
                check_columns(table.lake, read.table, table.view)
                files = self._needed_files(resolved, read.table, table.files)
                table = replace(table, files=files, fields=source_columns(table, read.table))
            self._lake_tables[resolved] = table
        return self._lake_tables[resolved]

    def _needed_files(self, resolved: ResolvedTable, table: TableInfo, files: FileLists) -> FileLists:
        """Returns the files without those of partitions that the conditions of the statement exclude."""
        conditions = self._needed(resolved, table.schema).conditions
        if not conditions or not table.partition_keys:
            return files
        names = sorted({file.place for file in files.data if file.place is not None})
        matching = matching_partitions(table, conditions, [Partition(number, name) for number, name in enumerate(names)])
        needed = {None, *(names[number] for number in matching)}
        return replace(files, data=tuple(file for file in files.data if file.place in needed))

    def _needed(self, resolved: ResolvedTable, schema: pa.Schema) -> NeededRows:
        return needed_rows(self._query, resolved.name, schema)

    def create(self, resolved: ResolvedTable, with_hidden: bool) -> None:
        """Creates the relation of a table. Raises UnknownTable (not in the lake), LakeUnavailable, InvalidArgument, and for a fresh table
        the errors of its readers.
        """
        if resolved.name in self._created:
            return
        catalog, database, name = resolved.name
        self._run(f"CREATE SCHEMA IF NOT EXISTS {catalog}.{quoted(database)}")
        if database == SYSTEM_DATABASE:
            self._make_system_table(name)
        elif resolved.fresh is ReadPart.CHANGELOG:
            self._make_changelog(resolved)
        elif resolved.fresh is not None:
            self._make_fresh_table(resolved, with_hidden)
        else:
            self._make_lake_table(resolved, with_hidden)
        self._created.add(resolved.name)

    def _make_system_table(self, name: str) -> None:
        table = self._registry.table(name)
        names = table.schema.names
        columns = names if self._mentioned is None else [column for column in names if column.lower() in self._mentioned] or names[:1]
        needed = self._needed(ResolvedTable((CATALOG, SYSTEM_DATABASE, name)), table.schema)
        scan = ScanRequest(
            columns=tuple(columns),
            filters=tuple(condition for condition in needed.conditions if isinstance(condition, Filter)),
            conditions=tuple(condition for condition in needed.conditions if not isinstance(condition, Filter)),
            limit=needed.limit,
            procedures=self._registry.procedures,
        )
        rows = ipc.open_stream(pa.py_buffer(b"".join(self._view.read(table, scan)))).read_all()
        self._create_as(f"TABLE {CATALOG}.{SYSTEM_DATABASE}.{quoted(name)}", rows)

    def _make_lake_table(self, resolved: ResolvedTable, with_hidden: bool) -> None:
        catalog, database, name = resolved.name
        table = self._lake_table(resolved)
        shown = [column for column in table.shown if with_hidden or not resolved.hides or column not in HIDDEN]
        target = f"{catalog}.{quoted(database)}.{quoted(name)}"
        if not table.files.data:
            self._create_as(f"TABLE {target}", table.columns.empty_table(), ", ".join(map(quoted, shown)))
            return
        self._run(f"CREATE VIEW {target} AS {self._lake_rows(resolved, table, shown)}")

    def _make_fresh_table(self, resolved: ResolvedTable, with_hidden: bool) -> None:
        catalog, database, name = resolved.name
        read = self._reads.open(resolved.path)
        lake = self._lake_table(resolved) if self._has_lake_part(resolved) else None
        schema = self._fresh_schema(read, lake, with_hidden)
        number, shown = len(self._created), ", ".join(map(quoted, schema.names))
        part = ReadPart.ROWS if read.lake_rows_are_merged else ReadPart.LOG_ROWS
        self._load(f"log_{number}", schema, read.rows(self._scan(resolved, part, schema, read.table.schema)))
        rows = f"SELECT {shown} FROM temp.log_{number}"
        if part is ReadPart.LOG_ROWS and lake is not None and lake.files.data:
            rows += f" UNION ALL SELECT {shown} FROM ({self._unchanged_lake_rows(resolved, lake, read, schema)})"
        self._run(f"CREATE VIEW {catalog}.{quoted(database)}.{quoted(name)} AS {rows}")

    def _scan(self, resolved: ResolvedTable, part: ReadPart, columns: pa.Schema, schema: pa.Schema) -> ReadScan:
        """Returns the scan of a table with the columns `schema`, for the rows that the statement needs."""
        needed = self._needed(resolved, schema)
        return ReadScan(part, tuple(columns.names), needed.conditions, needed.limit)

    def _fresh_schema(self, read: FreshRead, lake: LakeTable | None, with_hidden: bool) -> pa.Schema:
        """Returns the columns that the statement may use: all that it mentions, in the types of the source. A primary-key table has no
        HIDDEN columns here, because the changes of a bucket are merged without their offsets.
        """
        has_hidden = LAYOUT.of(read.table.properties).has_row_offsets if lake is None else BUCKET_COLUMN in lake.columns.names
        hidden = SYSTEM_COLUMN_FIELDS if with_hidden and has_hidden and not read.table.primary_key else ()
        return self._mentioned_columns(pa.schema([*read.table.schema, *hidden]))

    def _mentioned_columns(self, schema: pa.Schema) -> pa.Schema:
        """Returns the columns that the statement mentions; the first column if it mentions none."""
        if self._mentioned is None:
            return schema
        return pa.schema([column for column in schema if column.name.lower() in self._mentioned] or [schema.field(0)])

    def _make_changelog(self, resolved: ResolvedTable) -> None:
        catalog, database, name = resolved.name
        read = self._reads.open(resolved.path)
        columns = changelog_schema(read.table)
        schema = self._mentioned_columns(columns)
        log = f"log_{len(self._created)}"
        self._load(log, schema, read.rows(self._scan(resolved, ReadPart.CHANGELOG, schema, columns)))
        self._run(f"CREATE VIEW {catalog}.{quoted(database)}.{quoted(name)} AS SELECT * FROM temp.{log}")

    def _unchanged_lake_rows(self, resolved: ResolvedTable, lake: LakeTable, read: FreshRead, schema: pa.Schema) -> str:
        """Returns SQL of the lake rows in the types of the source, without those whose key the log part changes."""
        keys = read.table.primary_key
        needed = pa.schema([*schema, *(read.table.schema.field(name) for name in keys if name not in schema.names)])
        rows = self._lake_rows(resolved, lake, needed.names, self._types(needed))
        if not keys:
            return rows
        changed = f"changed_{len(self._created)}"
        key_columns = pa.schema([needed.field(name) for name in keys])
        self._load(changed, key_columns, read.rows(self._scan(resolved, ReadPart.CHANGED_KEYS, key_columns, read.table.schema)))
        # Numbered names, because a dot behind an alias could mean a field of a user's struct.
        columns = ", ".join(f"c{number}" for number in range(len(needed)))
        same = " AND ".join(f"k.k{place} = l.c{needed.names.index(name)}" for place, name in enumerate(keys))
        changes = f"SELECT 1 FROM temp.{changed} AS k({', '.join(f'k{place}' for place in range(len(keys)))}) WHERE {same}"
        named = ", ".join(f"l.c{number} AS {quoted(name)}" for number, name in enumerate(needed.names))
        return f"SELECT {named} FROM ({rows}) AS l({columns}) WHERE NOT EXISTS ({changes})"

    def _load(self, name: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        """Creates a temporary table of the rows. DuckDB moves it to its temporary folder when the rows need more than its memory limit."""
        self._create_as(f"TEMP TABLE {name}", schema.empty_table())
        for chunk in chunks(batches):
            self._connection.register("source_rows", chunk.select(schema.names))
            self._run(f"INSERT INTO temp.{name} SELECT * FROM source_rows")
            self._connection.unregister("source_rows")

    def _create_as(self, target: str, rows: pa.Table, columns: str = "*") -> None:
        self._connection.register("source_rows", rows)
        self._run(f"CREATE {target} AS SELECT {columns} FROM source_rows")
        self._connection.unregister("source_rows")

    def _lake_rows(self, resolved: ResolvedTable, table: LakeTable, names: Sequence[str], types: Mapping[str, str] | None = None) -> str:
        """Returns SQL of the live rows of the lake. `types` None = the lake's types. A column that the lake does not have yet is NULL."""
        try:
            requested_columns = self._requested_columns(table)
            rows = live_rows(self._run, table.files, requested_columns, str(resolved.path), f"of_{len(self._created)}_")
            if types is None:
                values = typed(rows.expressions, requested_columns.types)
            else:
                values = typed({name: rows.expressions.get(name, "NULL") for name in names}, types)
            picked = ", ".join(f"{values[column]} AS {quoted(column)}" for column in names)
            sql = f"SELECT {picked} FROM {rows.relation}"
            self._run(f"DESCRIBE {sql}")
            return sql
        except duckdb.Error as error:
            damage = (
                unreadable_file(table.files.all_files, at_most=DAMAGE_SEARCH_FILES)
                or f"its lake files cannot be read: {duckdb_reason(error)}"
            )
            raise LakeUnavailable(
                f"{resolved.path}: {damage}",
                hint=f"`lakeward validate {resolved.path}` names the file.",
            ) from error

    def _types(self, schema: pa.Schema) -> dict[str, str]:
        """Returns DuckDB's types of columns."""
        self._connection.register("no_rows", schema.empty_table())
        types = {row[0]: row[1] for row in self._run("DESCRIBE SELECT * FROM no_rows")}
        self._connection.unregister("no_rows")
        return types

    def _requested_columns(self, table: LakeTable) -> LakeColumns:
        """Returns the columns of the table, whose fields are found at any depth by field id."""
        ids = {field.name: number for field in table.fields if (number := field_id(field)) is not None}
        return LakeColumns(self._types(table.fields), ids if table.files.has_field_ids else None, table.fields)

    def _run(self, sql: str, parameters: Mapping[str, object] | None = None) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql, dict(parameters or {})).fetchall()


def typed(expressions: Mapping[str, str], types: Mapping[str, str]) -> Mapping[str, str]:
    """SQL of columns in the table's types, where those of files may be others: a narrower number, a time without its zone."""
    return {name: f"CAST({expression} AS {types[name]})" for name, expression in expressions.items()}


@dataclass(frozen=True)
class LakeTable:
    """A table of the lake. `columns` are all that it has now; `shown` those of the name that a query uses, in its order.

    `fields`: the columns to read, with the lake's field ids. For a fresh read they are those of the source, which the lake table may not
    follow yet.
    """

    lake: Lake
    view: LakeView
    columns: pa.Schema
    shown: tuple[str, ...]
    files: FileLists
    fields: pa.Schema


def lake_table(
    view: NamesView, open_lake: Callable[[str], Lake], lake_format: str, resolved: ResolvedTable, snapshot_id: int | None = None
) -> LakeTable:
    """A snapshot of a table in the lake; None = the newest. Raises UnknownTable: not in the lake; InvalidArgument, LakeUnavailable."""
    path = resolved.path
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
    shown = tuple(name for name in names if name in columns.names)
    return LakeTable(lake, snapshot, columns, shown, lake.file_lists(snapshot, snapshot_id), stored_columns(columns))


def source_columns(table: LakeTable, source: TableInfo) -> pa.Schema:
    """Returns the columns of a source table, then the system columns, with the lake's field ids; those of the lake if its table follows
    the source by name.
    """
    fields = table.lake.source_fields(source, table.view) if isinstance(table.lake, FollowingLake) else None
    return table.fields if fields is None else fields.columns


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
