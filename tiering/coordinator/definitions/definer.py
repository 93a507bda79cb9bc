"""Applies statements that define databases and tables: CREATE, ALTER and DROP of SQL.

The cluster stores the definitions, so the effect exists before the answer of the statement is stored. The row of its idempotency key is
stored before the effect. So a repeat after a crash in between knows that an attempt came before it: what it wants to create may exist
already, and what it wants to drop may be gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from zlib import crc32

from tiering.access.privileges import Privilege, Resource
from tiering.cluster.writable import DefiningCluster, TableDefinitions, TableSpec
from tiering.coordinator.call_support.lake_table_options import check_lake_table
from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.call_support.record_change import call_event
from tiering.coordinator.decisions.records import ErrorInfo, EventRecord, OperationRecord
from tiering.coordinator.definitions.purge import drop_lake_table_of, drop_with_lake_table, dropped_table_record
from tiering.coordinator.definitions.statements import Statement, StatementResult, TableChanges
from tiering.errors import AlreadyExists, InvalidArgument, LakewardError, UnknownDatabase, UnknownPartition, UnknownTable
from tiering.lake.table_options import FORMAT
from tiering.model.schema.changes import (
    AddColumn,
    ChangeComment,
    ChangeType,
    DropColumn,
    DropNotNull,
    MoveColumn,
    RenameColumn,
    SchemaChange,
)
from tiering.model.sql_types import spark_type
from tiering.model.tables import TableInfo, TablePath

_TURNS = 16
"""Number of statements that run at the same time at most. Statements about one database or table take turns."""
_NAMED_TABLES = 5
"""Number of tables that an error about a database names."""


class Definer:
    """Applies statements. All methods block. Privileges on the named object were checked before."""

    def __init__(self, parts: CallParts) -> None:
        self._parts = parts

    def create_database(self, statement: Statement, name: str) -> None:
        """Creates a database. Raises AlreadyExists."""

        def create(is_repeat: bool) -> int | None:
            self._definitions.create_database(name, ignore_if_exists=is_repeat)
            return None

        self._perform(statement, name, create, f"the database {name} was created")

    def drop_database(self, statement: Statement, name: str, *, cascade: bool) -> None:
        """Drops a database, with `cascade` after its tables. Raises UnknownDatabase, AccessDenied, InvalidArgument (it has tables)."""

        def drop(is_repeat: bool) -> int | None:
            try:
                tables = self._parts.cluster.tables(name)
                earlier = self._parts.operations.earlier_call(statement) if is_repeat else None
                former = [table for table in tables if not _is_newer(table, earlier)]
                self._check_may_drop(name, former, cascade=cascade)
                for table in former:
                    self._definitions.drop_table(table.path)
                    self._note(statement, f"the table was dropped with its database{_lake_copy(table)}", table.path)
                if len(former) == len(tables):  # else it has tables that were created since the first attempt
                    self._definitions.drop_database(name)
            except UnknownDatabase:
                if not is_repeat:
                    raise
            return None

        self._perform(statement, name, drop, f"the database {name} was dropped")

    def create_table(self, statement: Statement, path: TablePath, spec: TableSpec) -> None:
        """Creates a table. Raises the errors of `WritableCluster.create_table`."""

        def create(is_repeat: bool) -> int | None:
            try:
                return self._definitions.create_table(path, spec).table_id
            except AlreadyExists:
                if is_repeat and _is_of(spec, table := self._parts.cluster.table(path)):
                    return table.table_id
                raise

        self._perform(statement, str(path), create, "the table was created", path)

    def alter_table(self, statement: Statement, path: TablePath, changes: TableChanges) -> None:
        """Applies all changes, or none. Raises UnknownTable, UnknownDatabase, InvalidArgument, UnsupportedType, BadRequest."""
        if not changes.properties and not changes.columns:
            return  # such as DROP COLUMN IF EXISTS of a column that does not exist

        def alter(is_repeat: bool) -> int | None:
            before = self._parts.cluster.table(path)
            self._check_options(before, changes.properties)
            change_id = None if statement.idempotency_key is None else f"{statement.caller}/{statement.idempotency_key}"
            return self._definitions.alter_table(path, changes.properties, changes.columns, change_id).table_id

        self._perform(statement, str(path), alter, f"the table was altered: {_described(changes)}", path)

    def drop_table(self, statement: Statement, path: TablePath, *, purge: bool) -> None:
        """Drops a table, with `purge` also its lake table.

        Raises UnknownTable, UnknownDatabase; with `purge` the errors of `drop_with_lake_table`.
        """

        def drop(is_repeat: bool) -> int | None:
            try:
                table = self._parts.cluster.table(path)
            except (UnknownTable, UnknownDatabase):
                if not is_repeat:
                    raise
                return self._purge_again(statement, path) if purge else None
            if is_repeat and _is_newer(table, self._parts.operations.earlier_call(statement)):
                return None
            self._drop(statement, table, purge=purge)
            return table.table_id

        self._perform(statement, str(path), drop, None, path)

    def _drop(self, statement: Statement, table: TableInfo, *, purge: bool) -> None:
        def drop_source() -> None:
            self._definitions.drop_table(table.path)

        if purge:
            lake_copy = drop_with_lake_table(self._parts, table, drop_source)
        else:
            drop_source()
            lake_copy = _lake_copy(table)
        self._note(statement, f"the table was dropped{lake_copy}", table.path)

    def _purge_again(self, statement: Statement, path: TablePath) -> int | None:
        """Drops the lake table after an attempt that dropped the source table and died. Returns the id of the table."""
        record = dropped_table_record(self._parts, path)
        if record is None:
            return None
        lake_copy = drop_lake_table_of(self._parts, path, record.table_id, record.lake_format)
        self._note(statement, f"the table was dropped{lake_copy}", path)
        return record.table_id

    def add_partitions(self, statement: Statement, path: TablePath, names: Sequence[str]) -> None:
        """Creates the missing ones of the partitions. Raises UnknownTable, InvalidArgument."""

        def add(is_repeat: bool) -> int | None:
            self._definitions.add_partitions(path, names)
            return None

        self._perform(statement, str(path), add, f"the partitions {', '.join(names)} were added", path)

    def drop_partitions(self, statement: Statement, path: TablePath, names: Sequence[str]) -> None:
        """Drops the partitions, one after the other. Raises UnknownTable, UnknownPartition before any is dropped."""

        def drop(is_repeat: bool) -> int | None:
            table = self._parts.cluster.table(path)
            present = {partition.partition_name for partition in self._parts.cluster.partitions(table)}
            missing = [name for name in names if name not in present]
            if missing and not is_repeat:
                raise UnknownPartition(f"the table {path} has no partition {missing[0]!r}", table_path=path)
            for name in names:
                if name in present:
                    self._definitions.drop_partition(path, name)
            return table.table_id

        self._perform(statement, str(path), drop, f"the partitions {', '.join(names)} were dropped", path)

    @property
    def _definitions(self) -> TableDefinitions:
        if not isinstance(self._parts.cluster, DefiningCluster):
            raise InvalidArgument("the cluster of this service lets no other program define tables", hint="Use the cluster's own tools.")
        return self._parts.cluster.definitions

    def _perform(
        self, statement: Statement, target: str, effect: Callable[[bool], int | None], message: str | None, path: TablePath | None = None
    ) -> None:
        """Applies the effect once per idempotency key, and stores an event with `message`; None = `effect` has stored one. `effect` gets
        whether an earlier attempt may have been applied.
        """
        records, operations = self._parts.table_records, self._parts.operations

        def work() -> StatementResult:
            earlier = operations.earlier_call(statement)
            with records.changing():
                records.put(operations=operations.started_operations(statement, None))
            try:
                result = StatementResult(effect(earlier is not None and earlier.error is None))
            except LakewardError as error:
                if not error.retryable:
                    self._store_end(statement, _as_info(error, records.now().wall))
                raise
            self._store_end(statement, result, [] if message is None else [self._event(statement, message, path)])
            self._parts.discovery.run_quietly()
            return result

        operations.in_turn(f"definitions {crc32(target.casefold().encode()) % _TURNS}", statement, work)

    def _store_end(self, statement: Statement, end: StatementResult | ErrorInfo, events: Sequence[EventRecord] = ()) -> None:
        table_id = end.table_id if isinstance(end, StatementResult) else None
        with self._parts.table_records.changing():
            self._parts.table_records.put(operations=self._parts.operations.done(statement, table_id, end), events=events)

    def _note(self, statement: Statement, message: str, path: TablePath) -> None:
        with self._parts.table_records.changing():
            self._parts.table_records.put(events=[self._event(statement, message, path)])

    def _event(self, statement: Statement, message: str, path: TablePath | None) -> EventRecord:
        event_type = statement.name.replace(" ", "_")
        return call_event(self._parts, statement, event_type, message, {}, path=path)

    def _check_may_drop(self, name: str, tables: Sequence[TableInfo], *, cascade: bool) -> None:
        """Raises InvalidArgument for a database that has tables, without `cascade`, and AccessDenied for a table that the caller may not
        drop.
        """
        access = self._parts.grants.current()
        if tables and not cascade:
            visible = [table.path.table_name for table in tables if access.sees(table.path)]
            named = ", ".join(visible[:_NAMED_TABLES]) + (", ..." if len(visible) > _NAMED_TABLES else "")
            raise InvalidArgument(
                f"the database {name} is not empty{f': it has {named}' if named else ''}",
                hint=f"Drop them first, or use DROP DATABASE {name} CASCADE.",
                database_name=name,
            )
        for table in tables:
            if not access.may_table(Privilege.OPERATE, table.path):
                raise access.denial(Privilege.OPERATE, Resource.of_table(table.path) if access.sees(table.path) else Resource(name))

    def _check_options(self, before: TableInfo, changes: Mapping[str, str | None]) -> None:
        """Raises InvalidArgument for an option that only applies when a lake table is created, if the lake table exists."""
        options = {name: value for name, value in {**before.properties, **changes}.items() if value is not None}
        lake_format = FORMAT.of(options) if FORMAT.name in changes else before.lake_format
        check_lake_table(self._parts, before, replace(before, properties=options, lake_format=lake_format))


def _described(changes: TableChanges) -> str:
    """Returns the changes in words, without values of properties, which may be secrets."""
    parts = [f"{name} was {'removed' if value is None else 'set'}" for name, value in sorted(changes.properties.items())]
    parts += [_described_change(change) for change in changes.columns]
    return ", ".join(parts)


def _described_change(change: SchemaChange) -> str:
    match change:
        case AddColumn(field, parent):
            return f"the column {'.'.join((*parent, field.name))} was added"
        case DropColumn(path):
            return f"the column {'.'.join(path)} was dropped"
        case RenameColumn(path, new_name):
            return f"the column {'.'.join(path)} was renamed to {new_name}"
        case ChangeType(path, new_type):
            return f"the column {'.'.join(path)} became {spark_type(new_type)}"
        case ChangeComment(path):
            return f"the column {'.'.join(path)} got another comment"
        case DropNotNull(path):
            return f"the column {'.'.join(path)} became nullable"
        case MoveColumn(path):
            return f"the column {'.'.join(path)} was moved"


def _is_of(spec: TableSpec, table: TableInfo) -> bool:
    """Returns whether a table has the columns and the key of the definition."""
    return table.schema.names == spec.schema.names and table.primary_key == spec.primary_key


def _is_newer(table: TableInfo, earlier: OperationRecord | None) -> bool:
    """Returns whether the table was created after the first attempt of a statement began."""
    return earlier is not None and table.created_at >= earlier.started_time


def _as_info(error: LakewardError, now: datetime) -> ErrorInfo:
    return ErrorInfo(error.error_class, error.message, None, error.hint or "", retryable=False, time=now)


def _lake_copy(table: TableInfo) -> str:
    return f"; its lake table {table.path} stays in the lake's catalog" if table.lake_enabled else ""
