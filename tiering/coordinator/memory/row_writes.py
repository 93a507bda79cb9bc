"""Writes the rows of the SQL store with statements that are compiled once per database, and bodies that are already JSON.

Every round has several changes, and compiling a statement and converting its values column by column takes longer than running it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError
from sqlalchemy.dialects import postgresql, sqlite

from tiering.coordinator.decisions.records import (
    ErrorRecord,
    EventRecord,
    LakeCommitRecord,
    OperationRecord,
    ReadHold,
    RoundRecord,
    TableRecord,
)
from tiering.coordinator.memory import sql_history
from tiering.coordinator.memory import sql_schema as schema
from tiering.coordinator.memory.store import Writes
from tiering.instants import to_microseconds

TABLE = TypeAdapter(TableRecord)
ROUND = TypeAdapter(RoundRecord)
COMMIT = TypeAdapter(LakeCommitRecord)
ERROR = TypeAdapter(ErrorRecord)
EVENT = TypeAdapter(EventRecord)
OPERATION = TypeAdapter(OperationRecord)
READ_HOLD = TypeAdapter(ReadHold)

Row = Mapping[str, Any]


class Statement:
    """A statement compiled for one database. Raises SQLAlchemyError."""

    def __init__(self, dialect: sa.Dialect, statement: sa.Update | sa.Insert | sa.Delete, columns: Sequence[str] | None = None) -> None:
        compiled = statement.compile(dialect=dialect, column_keys=columns)
        self._text = str(compiled)
        self._places: Sequence[str] | None = getattr(compiled, "positiontup", None)

    def run(self, connection: sa.Connection, rows: Sequence[Row]) -> int:
        """Runs the statement for the rows and returns how many rows it changed. Without rows it does nothing."""
        if not rows:
            return 0
        places = self._places
        values: list[Any] = [dict(row) if places is None else tuple(row[name] for name in places) for row in rows]
        return connection.exec_driver_sql(self._text, values[0] if len(values) == 1 else values).rowcount


class ReplacedRows:
    """Writes rows of one table. Each row replaces the one with the same key."""

    def __init__(self, dialect: sa.Dialect, table: sa.Table, key: str) -> None:
        insert = (postgresql if dialect.name == "postgresql" else sqlite).insert(table).inline()
        replaced = {column.name: insert.excluded[column.name] for column in table.columns if column.name != key}
        columns = [column.name for column in table.columns]
        self._key = key
        self._replace = Statement(dialect, insert.on_conflict_do_update(index_elements=[key], set_=replaced), columns)
        self._delete = Statement(dialect, sa.delete(table).where(table.c[key] == sa.bindparam("former")))

    def replace(self, connection: sa.Connection, rows: Iterable[Row]) -> None:
        """Writes the rows. If several rows have one key, the last counts."""
        self._replace.run(connection, list({row[self._key]: row for row in rows}.values()))

    def delete(self, connection: sa.Connection, keys: Iterable[object]) -> None:
        """Deletes the rows with these keys."""
        self._delete.run(connection, [{"former": key} for key in keys])


@dataclass(frozen=True)
class RowWrites:
    """Statements for all rows of `Writes` except results of validations, and proofs."""

    touch: Statement
    """Counts a write of the owner with the name `our_name` and the epoch `ours`. It changes no row if another coordinator took over."""
    tables: ReplacedRows
    rounds: ReplacedRows
    commits: ReplacedRows
    operations: ReplacedRows
    errors: ReplacedRows
    former_rounds: ReplacedRows
    read_holds: ReplacedRows
    events: Statement

    @staticmethod
    def of(dialect: sa.Dialect) -> RowWrites:
        """Compiles the statements for a database."""
        owner = schema.owner
        is_ours = sa.and_(owner.c.holder == sa.bindparam("our_name"), owner.c.epoch == sa.bindparam("ours"))
        touch = sa.update(owner).where(is_ours).values(writes=owner.c.writes + sa.literal_column("1"))
        event_columns = [column.name for column in schema.events.columns if not column.primary_key]
        return RowWrites(
            touch=Statement(dialect, touch),
            tables=ReplacedRows(dialect, schema.tables, "table_id"),
            rounds=ReplacedRows(dialect, schema.rounds, "round_id"),
            commits=ReplacedRows(dialect, schema.commits, "round_id"),
            operations=ReplacedRows(dialect, schema.operations, "idempotency_key"),
            errors=ReplacedRows(dialect, schema.errors, "error_key"),
            former_rounds=ReplacedRows(dialect, schema.former_rounds, "table_id"),
            read_holds=ReplacedRows(dialect, schema.read_holds, "hold_id"),
            events=Statement(dialect, sa.insert(schema.events).inline(), event_columns),
        )

    def write(self, connection: sa.Connection, writes: Writes) -> None:
        """Writes all rows."""
        self.tables.replace(connection, map(_table_row, writes.tables))
        self.tables.delete(connection, writes.forgotten_tables)
        self.rounds.replace(connection, map(_round_row, writes.rounds))
        self.commits.replace(connection, map(_commit_row, writes.commits))
        self.operations.replace(connection, map(_operation_row, writes.operations))
        self.errors.replace(connection, map(_error_row, writes.errors))
        notes = writes.former_rounds.items()
        self.former_rounds.replace(connection, [{"table_id": key, "body": note.to_json()} for key, note in notes])
        self.former_rounds.delete(connection, writes.forgotten_tables)
        self.read_holds.replace(connection, [{"hold_id": row.hold_id, "body": _body(READ_HOLD, row)} for row in writes.read_holds])
        self.read_holds.delete(connection, writes.ended_read_holds)
        self.events.run(connection, list(map(_event_row, writes.events)))


def _body(adapter: TypeAdapter[Any], row: object) -> str:
    try:
        return adapter.dump_json(row).decode()
    except PydanticSerializationError:  # half a surrogate pair, as in a file name: UTF-8 cannot encode it, JSON can escape it
        return json.dumps(adapter.dump_python(row, mode="json"))


def _table_row(row: TableRecord) -> Row:
    return {"table_id": row.table_id, "path": str(row.path), "state": _text(row.state), "body": _body(TABLE, row)}


def _round_row(row: RoundRecord) -> Row:
    return _ledger_row(schema.rounds, row, row.pending_time, ROUND, closed=row.state.is_final)


def _commit_row(row: LakeCommitRecord) -> Row:
    return _ledger_row(schema.commits, row, row.prepared_at, COMMIT, closed=row.state.is_resolved)


def _ledger_row(table: sa.Table, row: RoundRecord | LakeCommitRecord, dated: datetime, adapter: TypeAdapter[Any], *, closed: bool) -> Row:
    return {
        "round_id": row.round_id,
        "table_id": row.table_id,
        "tiering_epoch": row.tiering_epoch,
        "made_us": to_microseconds(dated),
        "database_name": row.database_name,
        "table_name": row.table_name,
        **_look_up_texts(table, row),
        "closed": closed,
        "body": _body(adapter, row),
    }


def _error_row(row: ErrorRecord) -> Row:
    return {
        "error_key": row.key,
        "database_name": row.database_name,
        "table_name": row.table_name,
        "round_id": row.last_round_id,
        "seen_us": to_microseconds(row.last_seen),
        "closed": row.resolved_at is not None,
        "body": _body(ERROR, row),
    }


def _event_row(row: EventRecord) -> Row:
    return {
        "database_name": row.database_name,
        "table_name": row.table_name,
        "round_id": row.round_id,
        "occurred_us": to_microseconds(row.occurred_at),
        **_look_up_texts(schema.events, row),
        "body": _body(EVENT, row),
    }


def _operation_row(row: OperationRecord) -> Row:
    return {"idempotency_key": row.idempotency_key, "started_us": to_microseconds(row.started_time), "body": _body(OPERATION, row)}


def _look_up_texts(table: sa.Table, row: object) -> Row:
    """Returns the look-up columns that are texts of the body."""
    return {name: _text(getattr(row, name)) for name in sql_history.LOOK_UP_FIELDS[table.name]}


def _text(value: str | None) -> str | None:
    """Returns a text in the form of a look-up column; the value of an enum."""
    return None if value is None else str(value)[: sql_history.LOOK_UP_CHARACTERS]
