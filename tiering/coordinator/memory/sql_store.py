"""The store on SQL: SQLite in the data folder by default, PostgreSQL by URL.

Each record is one JSON column beside the columns that queries need. Every transaction begins by updating the one row
that holds the coordinator epoch, on the condition that the epoch and the random name beside it are still ours: that takes
the write lock and fences in one step, in any database. Rows are replaced by delete and insert, which every database spells alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import sqlalchemy as sa
from pydantic import TypeAdapter, ValidationError
from sqlalchemy.exc import SQLAlchemyError

from tiering import crash_points
from tiering.coordinator.decisions.records import ErrorRecord, EventRecord, LakeCommitRecord, OperationRecord, RoundRecord, TableRecord
from tiering.coordinator.memory import sql_history, sql_pruning
from tiering.coordinator.memory import sql_schema as schema
from tiering.coordinator.memory.database import leader as leaders
from tiering.coordinator.memory.history import PAGE_ROWS, HistoryBounds, HistoryRange
from tiering.coordinator.memory.store import EPOCHS_LEFT_OUT, Writes
from tiering.errors import Fenced, SetupError, StoreError
from tiering.instants import to_microseconds
from tiering.pace import Rest, no_rest
from tiering.validate.results import CheckResult

Row = TypeVar("Row")

_TABLE = TypeAdapter(TableRecord)
_ROUND = TypeAdapter(RoundRecord)
_COMMIT = TypeAdapter(LakeCommitRecord)
_ERROR = TypeAdapter(ErrorRecord)
_EVENT = TypeAdapter(EventRecord)
_OPERATION = TypeAdapter(OperationRecord)


_OPEN_HINT = (
    "Check that the data folder is writable; of --state: that the database runs and has room for connections, and its user, password "
    "(also in PGPASSWORD, ~/.pgpass) and rights."
)


def sqlite_url(path: Path) -> str:
    """The URL of a store in one file."""
    return sa.URL.create("sqlite", database=str(path)).render_as_string(hide_password=False)


@dataclass
class _Claim:
    """What a take-over made this process's: the name that it left in the store, and its epochs."""

    holder: str
    epochs: frozenset[int]


_TAKEN_OVER = "another coordinator took over the store: epoch {} is not the current one any more"


def _fenced(message: str) -> Fenced:
    return Fenced(message, hint="Run one coordinator a store; this one stops.")


class SqlStore:
    """See `Store`. Opening makes the tables; a store of a newer version is refused (SetupError)."""

    def __init__(self, url: str) -> None:
        self._claims: dict[int, _Claim] = {}
        self._seen_epoch: int | None = None
        with _border("open"):
            self._engine = schema.open_engine(url)
            schema.prepare(self._engine)

    @classmethod
    def for_reading(cls, file: Path) -> SqlStore:
        """Opens a store in SQLite that another process owns: read while nothing runs, or beside them. Writes fail. Raises SetupError."""
        store = cls.__new__(cls)
        store._engine, store._claims, store._seen_epoch = schema.open_for_reading(file), {}, None
        return store

    def take_over(self) -> int:
        crash_points.reach(crash_points.TAKE_OVER_LOCKED)
        with _border("take over"), self._engine.begin() as connection:
            holder = uuid4().hex
            taken = sa.update(schema.owner).values(epoch=schema.owner.c.epoch + 1, holder=holder)
            if self._seen_epoch is not None:
                taken = taken.where(schema.owner.c.epoch == self._seen_epoch)
            if not connection.execute(taken).rowcount:
                raise _fenced("another coordinator took over the store while this one was about to")
            epoch = int(connection.execute(sa.select(schema.owner.c.epoch)).scalar_one())
            self._claims[epoch] = _Claim(holder, frozenset({epoch}))
            # Only now: until here an older version may have gone on to write.
            sql_history.complete(connection)
            crash_points.reach(crash_points.TAKE_OVER_EPOCH_MADE)
        crash_points.reach(crash_points.TAKE_OVER_EPOCH_STORED)
        return epoch

    def look_at_owner(self) -> None:
        """Notes whose store it is: `take_over` is refused (Fenced) if another coordinator took over after this look.

        Who looks before he takes the lock, and falls asleep with it, does not push out the one that got it meanwhile.
        """
        with _border("read"), self._engine.connect() as connection:
            self._seen_epoch = int(connection.execute(sa.select(schema.owner.c.epoch)).scalar_one())

    def rise(self, coordinator_epoch: int, above: int) -> int:
        claim, risen = self._claim(coordinator_epoch), above + EPOCHS_LEFT_OUT
        # Before the write: whatever becomes of that, this coordinator has both epochs, in all its threads.
        claim.epochs |= {risen}
        self._claims[risen] = claim
        with self._owned(coordinator_epoch) as connection:
            connection.execute(sa.update(schema.owner).values(epoch=risen))
        return risen

    def leader(self) -> leaders.Leader | None:
        """Which coordinator leads, or led last; None = nobody did since there is this table."""
        with _border("read"), self._engine.connect() as connection:
            return leaders.read(connection)

    def lead(self, leader: leaders.Leader) -> None:
        """Says who leads, and that it is awake. Raises Fenced if another coordinator took over."""
        with self._owned(leader.epoch) as connection:
            leaders.write(connection, leader)

    def load(self) -> Sequence[TableRecord]:
        with _border("read"), self._engine.connect() as connection:
            return _all(connection, sa.select(schema.tables.c.body).order_by(schema.tables.c.table_id), _TABLE)

    def apply(self, coordinator_epoch: int, writes: Writes) -> None:
        with self._owned(coordinator_epoch) as connection:
            _TABLES.replace(connection, [_table_row(row) for row in writes.tables])
            _TABLES.delete(connection, writes.forgotten_tables)
            _ROUNDS.replace(connection, [_round_row(row) for row in writes.rounds])
            _COMMITS.replace(connection, [_commit_row(row) for row in writes.commits])
            _OPERATIONS.replace(connection, [_operation_row(row) for row in writes.operations])
            _ERRORS.replace(connection, [_error_row(row) for row in writes.errors])
            if writes.events:
                connection.execute(_ADD_EVENTS, [_event_row(row) for row in writes.events])
            if writes.validations:
                connection.execute(sa.insert(schema.validations), [{"body": row.to_plain()} for row in writes.validations])
            crash_points.reach(crash_points.STORE_BEFORE_COMMIT)
        crash_points.reach(crash_points.STORE_AFTER_COMMIT)

    def read_rounds(self, wanted: HistoryRange) -> Iterator[RoundRecord]:
        return (_ROUND.validate_python(row.body) for row in self._drawn(schema.rounds, wanted))

    def read_commits(self, wanted: HistoryRange) -> Iterator[LakeCommitRecord]:
        return (_COMMIT.validate_python(row.body) for row in self._drawn(schema.commits, wanted))

    def read_errors(self, wanted: HistoryRange) -> Iterator[ErrorRecord]:
        return (_ERROR.validate_python(row.body) for row in self._drawn(schema.errors, wanted))

    def read_events(self, wanted: HistoryRange) -> Iterator[EventRecord]:
        return (_EVENT.validate_python({**row.body, "event_id": row.event_id}) for row in self._drawn(schema.events, wanted))

    def operation(self, idempotency_key: str) -> OperationRecord | None:
        query = sa.select(schema.operations.c.body).where(schema.operations.c.idempotency_key == idempotency_key)
        return self._first(query, _OPERATION)

    def round(self, round_id: str) -> RoundRecord | None:
        return self._first(sa.select(schema.rounds.c.body).where(schema.rounds.c.round_id == round_id), _ROUND)

    def rounds(self, table_id: int | None = None, limit: int = 1_000) -> Sequence[RoundRecord]:
        return self._newest(schema.rounds, table_id, limit, _ROUND)

    def commit(self, round_id: str) -> LakeCommitRecord | None:
        return self._first(sa.select(schema.commits.c.body).where(schema.commits.c.round_id == round_id), _COMMIT)

    def commits(self, table_id: int | None = None, limit: int = 1_000) -> Sequence[LakeCommitRecord]:
        return self._newest(schema.commits, table_id, limit, _COMMIT)

    def events(self, limit: int = 1_000) -> Sequence[EventRecord]:
        columns = schema.events.c
        query = sa.select(columns.event_id, columns.body).order_by(columns.event_id.desc()).limit(limit)
        with _border("read"), self._engine.connect() as connection:
            return [_EVENT.validate_python({**body, "event_id": event_id}) for event_id, body in connection.execute(query)]

    def validations(self, limit: int = sql_pruning.KEEP_VALIDATIONS) -> Sequence[CheckResult]:
        query = sa.select(schema.validations.c.body).order_by(schema.validations.c.number.desc()).limit(limit)
        with _border("read"), self._engine.connect() as connection:
            return [CheckResult.from_plain(body) for body in connection.scalars(query)]

    def prune(
        self, coordinator_epoch: int, bounds: HistoryBounds, operations_before: datetime, now: datetime, rest: Rest = no_rest
    ) -> None:
        with self._owned(coordinator_epoch):
            pass  # also who has nothing to forget hears that the store was taken over
        for rows in sql_pruning.forgotten(bounds, operations_before, now):
            if not self._forget(coordinator_epoch, rows, rest):
                return

    def _forget(self, coordinator_epoch: int, rows: sql_pruning.Forgotten, rest: Rest) -> bool:
        """Deletes until no more may go; False if `rest` says to stop."""
        while True:
            with _border("read"), self._engine.connect() as connection:
                keys = rows.find(connection)
            gone = 0
            for deletion in rows.deletions(keys):
                if not rest():
                    return False
                with self._owned(coordinator_epoch) as connection:
                    gone += connection.execute(deletion).rowcount
            if not gone or len(keys) < sql_pruning.LOOKED_UP:
                return True

    def close(self) -> None:
        self._engine.dispose()

    def _drawn(self, table: sa.Table, wanted: HistoryRange) -> Iterator[sa.Row[Any]]:
        """The rows of a read, page after page."""
        page, rows = sql_history.first_page(table, wanted), wanted.page_rows
        while True:
            with _border("read"), self._engine.connect() as connection:
                drawn = connection.execute(page.limit(rows)).all()
            yield from drawn
            if len(drawn) < rows:
                return
            page, rows = sql_history.page_after(table, wanted, drawn[-1]), PAGE_ROWS

    @contextmanager
    def _owned(self, coordinator_epoch: int) -> Iterator[sa.Connection]:
        with _border("write"), self._engine.begin() as connection:
            claim = self._claim(coordinator_epoch)
            touched = connection.execute(_TOUCH, {"our_name": claim.holder, "ours": list(claim.epochs)})
            if touched.rowcount != 1:
                raise _fenced(_TAKEN_OVER.format(coordinator_epoch))
            yield connection

    def _claim(self, coordinator_epoch: int) -> _Claim:
        claim = self._claims.get(coordinator_epoch)
        if claim is None:
            raise _fenced(_TAKEN_OVER.format(coordinator_epoch))
        return claim

    def _first(self, query: sa.Select[Any], adapter: TypeAdapter[Row]) -> Row | None:
        with _border("read"), self._engine.connect() as connection:
            return next(iter(_all(connection, query, adapter)), None)

    def _newest(self, table: sa.Table, table_id: int | None, limit: int, adapter: TypeAdapter[Row]) -> list[Row]:
        query = sa.select(table.c.body).limit(limit)
        if table_id is None:
            query = query.order_by(table.c.made_us.desc(), table.c.tiering_epoch.desc())
        else:
            query = query.where(table.c.table_id == table_id).order_by(table.c.tiering_epoch.desc())
        with _border("read"), self._engine.connect() as connection:
            return _all(connection, query, adapter)


@contextmanager
def _border(doing: str) -> Iterator[None]:
    """Turns errors of the database into our own, with the cause kept."""
    try:
        yield
    except SQLAlchemyError as error:
        text = str(getattr(error, "orig", None) or error)
        message = f"the state store could not {doing}: {text}"
        if doing == "open":
            raise SetupError(message, hint=_OPEN_HINT) from error
        raise StoreError(message, hint="Check the disk or the database of the state store; work goes on once it answers.") from error
    except ValidationError as error:
        raise StoreError(f"a record in the state store cannot be read: {error}", hint="Was it written by another version?") from error


def _all(connection: sa.Connection, query: sa.Select[Any], adapter: TypeAdapter[Row]) -> list[Row]:
    return [adapter.validate_python(body) for body in connection.scalars(query)]


class _ReplacedRows:
    """Replaces rows of one table by key. Its statements are built once: building them takes longer than running them."""

    def __init__(self, table: sa.Table, key: str) -> None:
        self._key = key
        self._delete = sa.delete(table).where(table.c[key] == sa.bindparam("former"))
        self._insert = sa.insert(table)

    def replace(self, connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Deletes the rows with these keys and inserts the new ones. Of several rows with one key the last counts."""
        latest = {row[self._key]: dict(row) for row in rows}
        if latest:
            self.delete(connection, latest)
            connection.execute(self._insert, list(latest.values()))

    def delete(self, connection: sa.Connection, keys: Iterable[object]) -> None:
        """Deletes the rows with these keys."""
        if former := [{"former": key} for key in keys]:
            connection.execute(self._delete, former)


_TABLES = _ReplacedRows(schema.tables, "table_id")
_ROUNDS = _ReplacedRows(schema.rounds, "round_id")
_COMMITS = _ReplacedRows(schema.commits, "round_id")
_OPERATIONS = _ReplacedRows(schema.operations, "idempotency_key")
_ERRORS = _ReplacedRows(schema.errors, "error_key")
_ADD_EVENTS = sa.insert(schema.events)
_TOUCH = (
    sa.update(schema.owner)
    .where(schema.owner.c.holder == sa.bindparam("our_name"), schema.owner.c.epoch.in_(sa.bindparam("ours", expanding=True)))
    .values(writes=schema.owner.c.writes + 1)
)


def _sortable(time: datetime) -> int:
    return to_microseconds(time)


def _table_row(row: TableRecord) -> dict[str, Any]:
    state = row.state.value if row.state else None
    return {"table_id": row.table_id, "path": str(row.path), "state": state, "body": _TABLE.dump_python(row, mode="json")}


def _round_row(row: RoundRecord) -> dict[str, Any]:
    return {**_keys(row, row.pending_time), "closed": row.state.is_final, **_with_body(schema.rounds, _ROUND.dump_python(row, mode="json"))}


def _commit_row(row: LakeCommitRecord) -> dict[str, Any]:
    body = _COMMIT.dump_python(row, mode="json")
    return {**_keys(row, row.prepared_at), "closed": row.state.is_resolved, **_with_body(schema.commits, body)}


def _with_body(table: sa.Table, body: dict[str, Any]) -> dict[str, Any]:
    """The body, and the look-up columns that are texts of it."""
    texts = {name: body[name] for name in sql_history.LOOK_UP_FIELDS[table.name]}
    return {name: text and text[: sql_history.LOOK_UP_CHARACTERS] for name, text in texts.items()} | {"body": body}


def _keys(row: RoundRecord | LakeCommitRecord, dated: datetime) -> dict[str, Any]:
    return {
        "round_id": row.round_id,
        "table_id": row.table_id,
        "tiering_epoch": row.tiering_epoch,
        "made_us": _sortable(dated),
        "database_name": row.database_name,
        "table_name": row.table_name,
    }


def _error_row(row: ErrorRecord) -> dict[str, Any]:
    return {
        "error_key": row.key,
        "database_name": row.database_name,
        "table_name": row.table_name,
        "round_id": row.last_round_id,
        "seen_us": _sortable(row.last_seen),
        "closed": row.resolved_at is not None,
        "body": _ERROR.dump_python(row, mode="json"),
    }


def _event_row(row: EventRecord) -> dict[str, Any]:
    return {
        "database_name": row.database_name,
        "table_name": row.table_name,
        "round_id": row.round_id,
        "occurred_us": _sortable(row.occurred_at),
        **_with_body(schema.events, _EVENT.dump_python(row, mode="json")),
    }


def _operation_row(row: OperationRecord) -> dict[str, Any]:
    started = _sortable(row.started_time)
    return {"idempotency_key": row.idempotency_key, "started_us": started, "body": _OPERATION.dump_python(row, mode="json")}
