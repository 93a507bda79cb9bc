"""The store on SQL: SQLite in the data folder by default, PostgreSQL by URL.

Each record is one JSON column beside the columns that queries need. Every transaction first updates the one row with the coordinator epoch,
on the condition that the epoch and the random name beside it are still ours. That takes the write lock and fences in one step, in any
database.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
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
from tiering.coordinator.decisions.records import (
    ErrorRecord,
    EventRecord,
    LakeCommitRecord,
    OperationRecord,
    ReadHold,
    RoundRecord,
    TableRecord,
)
from tiering.coordinator.memory import leader as leaders
from tiering.coordinator.memory import row_writes, sql_history
from tiering.coordinator.memory import sql_schema as schema
from tiering.coordinator.memory.history import PAGE_ROWS, HistoryBounds, HistoryKind, HistoryRange, TablePathOrNone
from tiering.coordinator.memory.row_writes import RowWrites
from tiering.coordinator.memory.store import EPOCHS_LEFT_OUT, KEY_BYTES, Writes
from tiering.errors import Fenced, SetupError, StoreError
from tiering.instants import from_microseconds
from tiering.lake.rules.upkeep.former_rounds import FormerRounds
from tiering.procedures.prove_table import TableProof
from tiering.procedures.validate_table import CheckResult
from tiering.throttle import Throttling, pieces, unthrottled

Row = TypeVar("Row")

IDS_OF_A_QUERY = 500
"""Number of ids that one query looks up, because databases limit the parameters of a statement."""

_OPEN_HINT = (
    "Check that the data folder is writable. With --state, check that the database runs and has free connections, and its user, password "
    "(also in PGPASSWORD, ~/.pgpass) and rights."
)


def sqlite_url(path: Path) -> str:
    """Returns the URL of a store in one file."""
    return sa.URL.create("sqlite", database=str(path)).render_as_string(hide_password=False)


@dataclass
class _Claim:
    """The claim of one take-over on the store: the name that it wrote into the store, and its epochs."""

    holder: str
    epochs: frozenset[int]


_TAKEN_OVER = "another coordinator took over the store: epoch {} is not the current one any more"


def _fenced(message: str) -> Fenced:
    return Fenced(message, hint="Run one coordinator per store; this one stops.")


class SqlStore:
    """Implements `Store`. The constructor creates the tables. It refuses a store of a newer version (SetupError)."""

    def __init__(self, url: str) -> None:
        self._claims: dict[int, _Claim] = {}
        self._seen_epoch: int | None = None
        with _border("open"):
            self._engine = schema.open_engine(url)
            schema.prepare(self._engine)
        self._rows = RowWrites.of(self._engine.dialect)
        self._paths = sql_history.WrittenPaths()

    @classmethod
    def for_reading(cls, file: Path) -> SqlStore:
        """Opens a SQLite store only for reading, also while another process owns it. Writes fail. Raises SetupError."""
        store = cls.__new__(cls)
        store._engine, store._claims, store._seen_epoch = schema.open_for_reading(file), {}, None
        store._rows = RowWrites.of(store._engine.dialect)
        store._paths = sql_history.WrittenPaths()
        return store

    def take_over(self) -> int:
        crash_points.reach(crash_points.TAKE_OVER_LOCKED)
        with _border("take over"), self._engine.begin() as connection:
            holder = uuid4().hex
            claim = sa.update(schema.owner).values(epoch=schema.owner.c.epoch + 1, holder=holder)
            if self._seen_epoch is not None:
                claim = claim.where(schema.owner.c.epoch == self._seen_epoch)
            if not connection.execute(claim).rowcount:
                raise _fenced("another coordinator took over the store while this one was about to")
            epoch = int(connection.execute(sa.select(schema.owner.c.epoch)).scalar_one())
            self._claims[epoch] = _Claim(holder, frozenset({epoch}))
            # An earlier call could miss rows: until now, a coordinator of an older version may have written some.
            sql_history.complete(connection)
            crash_points.reach(crash_points.TAKE_OVER_EPOCH_MADE)
        crash_points.reach(crash_points.TAKE_OVER_EPOCH_STORED)
        return epoch

    def look_at_owner(self) -> None:
        """Reads who owns the store. `take_over` is refused (Fenced) if another coordinator takes over after this call.

        So a process that reads the owner, gets the lock and is then suspended does not push out the coordinator that took over meanwhile.
        """
        with _border("read"), self._engine.connect() as connection:
            self._seen_epoch = int(connection.execute(sa.select(schema.owner.c.epoch)).scalar_one())

    def rise(self, coordinator_epoch: int, above: int) -> int:
        claim, risen = self._claim(coordinator_epoch), above + EPOCHS_LEFT_OUT
        # Before the write: whatever its outcome is, this coordinator then has both epochs, in all its threads.
        claim.epochs |= {risen}
        self._claims[risen] = claim
        with self._owned(coordinator_epoch) as connection:
            connection.execute(sa.update(schema.owner).values(epoch=risen))
        return risen

    def leader(self) -> leaders.Leader | None:
        """Returns the coordinator that leads, or was the last to lead; None if no coordinator has led since this table exists."""
        with _border("read"), self._engine.connect() as connection:
            return leaders.read(connection)

    def lead(self, leader: leaders.Leader) -> None:
        """Records which coordinator leads, and that it is awake. Raises Fenced if another coordinator took over."""
        with self._owned(leader.epoch) as connection:
            leaders.write(connection, leader)

    def key(self, coordinator_epoch: int, name: str) -> bytes:
        with self._owned(coordinator_epoch) as connection:
            stored: bytes | None = connection.scalar(sa.select(schema.keys.c.key).where(schema.keys.c.name == name))
            if stored is None:
                stored = secrets.token_bytes(KEY_BYTES)
                connection.execute(sa.insert(schema.keys).values(name=name, key=stored))
            return stored

    def load(self) -> Sequence[TableRecord]:
        with _border("read"), self._engine.connect() as connection:
            return _all(connection, sa.select(schema.tables.c.body).order_by(schema.tables.c.table_id), row_writes.TABLE)

    def apply(self, coordinator_epoch: int, writes: Writes) -> None:
        self._paths.add(writes)
        with self._owned(coordinator_epoch) as connection:
            self._rows.write(connection, writes)
            for table, rows in ((schema.validations, writes.validations), (schema.proofs, writes.proofs)):
                if rows:
                    connection.execute(sa.insert(table), [{"body": row.to_plain()} for row in rows])
            crash_points.reach(crash_points.STORE_BEFORE_COMMIT)
        crash_points.reach(crash_points.STORE_AFTER_COMMIT)

    def paths_of(self, kind: HistoryKind) -> Collection[TablePathOrNone]:
        return self._paths.of(kind, lambda: self._stored_paths(sql_history.TABLES[kind].c))

    def oldest_rounds(self, paths: Collection[TablePathOrNone]) -> Mapping[TablePathOrNone, datetime]:
        queries = [sql_history.oldest_round(is_empty=is_empty) for is_empty in (False, True)]
        oldest: dict[TablePathOrNone, datetime] = {}
        with _border("read"), self._engine.connect() as connection:
            for path in paths:
                names = {"database_name": path[0], "table_name": path[1]}
                answers = (connection.scalar(query, names) for query in queries)
                made_us = next((answer for answer in answers if answer is not None), None)
                if made_us is not None:
                    oldest[path] = from_microseconds(made_us)
        return oldest

    def read_rounds(self, history_range: HistoryRange) -> Iterator[RoundRecord]:
        return (row_writes.ROUND.validate_python(row.body) for row in self._read_pages(schema.rounds, history_range))

    def read_commits(self, history_range: HistoryRange) -> Iterator[LakeCommitRecord]:
        return (row_writes.COMMIT.validate_python(row.body) for row in self._read_pages(schema.commits, history_range))

    def read_errors(self, history_range: HistoryRange) -> Iterator[ErrorRecord]:
        return (row_writes.ERROR.validate_python(row.body) for row in self._read_pages(schema.errors, history_range))

    def read_events(self, history_range: HistoryRange) -> Iterator[EventRecord]:
        return (
            row_writes.EVENT.validate_python({**row.body, "event_id": row.event_id})
            for row in self._read_pages(schema.events, history_range)
        )

    def operation(self, idempotency_key: str) -> OperationRecord | None:
        query = sa.select(schema.operations.c.body).where(schema.operations.c.idempotency_key == idempotency_key)
        return self._first(query, row_writes.OPERATION)

    def round(self, round_id: str) -> RoundRecord | None:
        return self._first(sa.select(schema.rounds.c.body).where(schema.rounds.c.round_id == round_id), row_writes.ROUND)

    def rounds_by_id(self, round_ids: Collection[str]) -> Mapping[str, RoundRecord]:
        known_rounds: dict[str, RoundRecord] = {}
        for ids in pieces(round_ids, IDS_OF_A_QUERY):
            query = sa.select(schema.rounds.c.body).where(schema.rounds.c.round_id.in_(ids))
            with _border("read"), self._engine.connect() as connection:
                known_rounds.update({row.round_id: row for row in _all(connection, query, row_writes.ROUND)})
        return known_rounds

    def rounds(self, table_id: int | None = None, limit: int = 1_000) -> Sequence[RoundRecord]:
        return self._newest(schema.rounds, table_id, limit, row_writes.ROUND)

    def commit(self, round_id: str) -> LakeCommitRecord | None:
        return self._first(sa.select(schema.commits.c.body).where(schema.commits.c.round_id == round_id), row_writes.COMMIT)

    def commits(self, table_id: int | None = None, limit: int = 1_000) -> Sequence[LakeCommitRecord]:
        return self._newest(schema.commits, table_id, limit, row_writes.COMMIT)

    def former_rounds(self, table_id: int) -> FormerRounds | None:
        query = sa.select(schema.former_rounds.c.body).where(schema.former_rounds.c.table_id == table_id)
        with _border("read"), self._engine.connect() as connection:
            body = connection.execute(query).scalar_one_or_none()
        return None if body is None else FormerRounds.from_plain(body)

    def read_holds(self) -> Sequence[ReadHold]:
        with _border("read"), self._engine.connect() as connection:
            return _all(connection, sa.select(schema.read_holds.c.body), row_writes.READ_HOLD)

    def events(self, limit: int = 1_000) -> Sequence[EventRecord]:
        columns = schema.events.c
        query = sa.select(columns.event_id, columns.body).order_by(columns.event_id.desc()).limit(limit)
        with _border("read"), self._engine.connect() as connection:
            return [row_writes.EVENT.validate_python({**body, "event_id": event_id}) for event_id, body in connection.execute(query)]

    def validations(self, limit: int = sql_history.KEEP_VALIDATIONS) -> Sequence[CheckResult]:
        return [CheckResult.from_plain(body) for body in self._newest_bodies(schema.validations, limit)]

    def proofs(self, limit: int = sql_history.KEEP_PROOFS) -> Sequence[TableProof]:
        return [TableProof.from_plain(body) for body in self._newest_bodies(schema.proofs, limit)]

    def prune(
        self, coordinator_epoch: int, bounds: HistoryBounds, operations_before: datetime, now: datetime, throttle: Throttling = unthrottled
    ) -> None:
        with self._owned(coordinator_epoch):
            pass  # a coordinator with nothing to delete also learns that the store was taken over
        self._paths.forget()
        for rows in sql_history.rows_to_delete(bounds, operations_before, now):
            if not self._forget(coordinator_epoch, rows, throttle):
                return

    def _forget(self, coordinator_epoch: int, rows: sql_history.RowsToDelete, throttle: Throttling) -> bool:
        """Deletes rows until none is left to delete; False if `throttle` says to stop."""
        while True:
            with _border("read"), self._engine.connect() as connection:
                keys = rows.find(connection)
            deleted = 0
            for deletion in rows.deletions(keys):
                if not throttle():
                    return False
                with self._owned(coordinator_epoch) as connection:
                    deleted += connection.execute(deletion).rowcount
            if not deleted or len(keys) < sql_history.LOOKED_UP:
                return True

    def close(self) -> None:
        self._engine.dispose()

    def _stored_paths(self, columns: Any) -> list[TablePathOrNone]:
        query = sa.select(columns.database_name, columns.table_name).distinct()
        with _border("read"), self._engine.connect() as connection:
            return [(database_name, table_name) for database_name, table_name in connection.execute(query)]

    def _read_pages(self, table: sa.Table, history_range: HistoryRange) -> Iterator[sa.Row[Any]]:
        """Yields the rows of a read, page after page."""
        page, rows = sql_history.first_page(table, history_range), history_range.page_rows
        while True:
            with _border("read"), self._engine.connect() as connection:
                page_of_rows = connection.execute(page.limit(rows)).all()
            yield from page_of_rows
            if len(page_of_rows) < rows:
                return
            page, rows = sql_history.page_after(table, history_range, page_of_rows[-1]), PAGE_ROWS

    @contextmanager
    def _owned(self, coordinator_epoch: int) -> Iterator[sa.Connection]:
        with _border("write"), self._engine.begin() as connection:
            if not self._count_write(connection, self._claim(coordinator_epoch)):
                raise _fenced(_TAKEN_OVER.format(coordinator_epoch))
            yield connection

    def _count_write(self, connection: sa.Connection, claim: _Claim) -> bool:
        """Counts a write if this process still owns the store. Its highest epoch is the current one, unless a rise failed."""
        epochs = sorted(claim.epochs, reverse=True)
        return any(self._rows.touch.run(connection, [{"our_name": claim.holder, "ours": epoch}]) == 1 for epoch in epochs)

    def _claim(self, coordinator_epoch: int) -> _Claim:
        claim = self._claims.get(coordinator_epoch)
        if claim is None:
            raise _fenced(_TAKEN_OVER.format(coordinator_epoch))
        return claim

    def _newest_bodies(self, table: sa.Table, limit: int) -> Sequence[Mapping[str, Any]]:
        """Returns the bodies of the newest rows of a table whose rows are numbered, the newest first."""
        query = sa.select(table.c.body).order_by(table.c.number.desc()).limit(limit)
        with _border("read"), self._engine.connect() as connection:
            return connection.scalars(query).all()

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
    """Turns errors of the database into Lakeward's own, and keeps the cause."""
    try:
        yield
    except SQLAlchemyError as error:
        text = str(getattr(error, "orig", None) or error)
        message = f"the state store could not {doing}: {text}"
        if doing == "open":
            raise SetupError(message, hint=_OPEN_HINT) from error
        raise StoreError(message, hint="Check the disk or the database of the state store; tiering continues once it answers.") from error
    except ValidationError as error:
        raise StoreError(f"a record in the state store cannot be read: {error}", hint="Was it written by another version?") from error


def _all(connection: sa.Connection, query: sa.Select[Any], adapter: TypeAdapter[Row]) -> list[Row]:
    return [adapter.validate_python(body) for body in connection.scalars(query)]
