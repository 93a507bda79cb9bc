"""Deletion of old rows. Keys are looked up without blocking writers, then rows are deleted by key, a few in each write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import sqlalchemy as sa

from tiering.coordinator.decisions.records import Level
from tiering.coordinator.memory import sql_schema as schema
from tiering.coordinator.memory.history import HistoryBounds, HistoryRange
from tiering.coordinator.memory.sql_history import order_of, time_of
from tiering.instants import to_microseconds
from tiering.model.rounds import RoundState

LOOKED_UP = 100_000
"""Upper bound of keys that one query looks up: a few megabytes."""
DELETED_TOGETHER = 250
"""Number of rows that one write deletes. Other writers wait for some milliseconds."""
KEEP_OPERATIONS = 50_000
"""Number of newest idempotency keys kept per principal, some 50 MB.

A program that uses many keys must not displace other principals' keys.
"""
PRINCIPAL_DIGITS = 32
"""Characters of a stored idempotency key that identify its principal."""
KEEP_VALIDATIONS = 10_000
"""Number of newest results of checks that are kept."""


@dataclass(frozen=True)
class RowsToDelete:
    """Rows of one table to delete. `find` looks up at most `LOOKED_UP` of their keys; `may_go` is checked again at the deletion."""

    key: sa.Column[Any]
    find: Callable[[sa.Connection], Sequence[Any]]
    may_go: tuple[sa.ColumnElement[bool], ...]

    def deletions(self, keys: Sequence[Any]) -> Iterator[sa.Delete]:
        """Yields one statement per write."""
        for start in range(0, len(keys), DELETED_TOGETHER):
            yield sa.delete(self.key.table).where(self.key.in_(keys[start : start + DELETED_TOGETHER]), *self.may_go)


def rows_to_delete(bounds: HistoryBounds, operations_before: datetime, now: datetime) -> Iterator[RowsToDelete]:
    """Yields all rows to delete.

    Rounds come before their grants, because a grant stays with its round. Events of EMPTY rounds come before these rounds, which select
    them.
    """
    empty = partial(_empty_rounds, bounds.empty_rounds_per_table, now)
    yield RowsToDelete(schema.events.c.event_id, partial(_events_of, empty), (schema.events.c.level == Level.INFO.value,))
    yield RowsToDelete(schema.rounds.c.round_id, lambda connection: connection.scalars(empty()).all(), _is_over(schema.rounds))
    for table in (schema.rounds, schema.commits, schema.events, schema.errors):
        yield RowsToDelete(_key(table), partial(_beyond, table, bounds, now), _is_over(table))
    number, started = schema.validations.c.number, schema.operations.c.started_us
    newest = sa.select(sa.func.max(number)).scalar_subquery()
    yield _where(number, number <= newest - KEEP_VALIDATIONS)
    yield _where(schema.operations.c.idempotency_key, started < to_microseconds(operations_before))
    yield RowsToDelete(schema.operations.c.idempotency_key, _surplus_operations, ())


def _surplus_operations(connection: sa.Connection) -> Sequence[str]:
    """Returns keys of operations beyond the newest of their principal, whose keys have one prefix (`idempotency.stored_key`)."""
    key, started = schema.operations.c.idempotency_key, schema.operations.c.started_us
    # Literals, because PostgreSQL does not recognize an expression with parameters in GROUP BY.
    principal = sa.func.substr(key, sa.literal_column("1"), sa.literal_column(str(PRINCIPAL_DIGITS + 1)))
    if connection.execute(sa.select(principal).group_by(principal).having(sa.func.count() > KEEP_OPERATIONS).limit(1)).first() is None:
        return ()
    place = sa.func.row_number().over(partition_by=principal, order_by=(started.desc(), key)).label("place")
    ranked = sa.select(key.label("former"), place).subquery()
    return connection.scalars(sa.select(ranked.c.former).where(ranked.c.place > KEEP_OPERATIONS).limit(LOOKED_UP)).all()


def _where(key: sa.Column[Any], condition: sa.ColumnElement[bool]) -> RowsToDelete:
    query = sa.select(key).where(condition).limit(LOOKED_UP)
    return RowsToDelete(key, lambda connection: connection.scalars(query).all(), (condition,))


def _beyond(table: sa.Table, bounds: HistoryBounds, now: datetime, connection: sa.Connection) -> Sequence[Any]:
    """Returns keys of closed rows that are older than the bounds, or beyond the newest rows of their table; the oldest first.

    Rows with a date after `now` are not deleted and do not count.
    """
    key, time, path = _key(table), time_of(table), (table.c.database_name, table.c.table_name)
    dated, before, is_over = time <= to_microseconds(now), to_microseconds(bounds.before), _is_over(table)
    counts = connection.scalars(sa.select(sa.func.count()).where(dated).group_by(*path)).all()
    most = bounds.most_events(counts) if table is schema.events else bounds.most_rounds(counts)
    if max(counts, default=0) <= most:
        old = sa.select(key).where(dated, time < before, *is_over).order_by(time).limit(LOOKED_UP)
        return connection.scalars(old).all()
    newest_first = [column.desc() for column in order_of(table, HistoryRange())]
    place = sa.func.row_number().over(partition_by=path, order_by=newest_first).label("place")
    ranked = sa.select(key.label("former"), time.label("dated"), place).where(dated).subquery()
    beyond = sa.select(ranked.c.former).where(sa.or_(ranked.c.place > most, ranked.c.dated < before))
    if is_over:
        beyond = beyond.join(table, key == ranked.c.former).where(*is_over)
    return connection.scalars(beyond.order_by(ranked.c.dated).limit(LOOKED_UP)).all()


def _empty_rounds(most: int, now: datetime) -> sa.Select[tuple[str]]:
    """Returns ids of EMPTY rounds beyond the newest ones of their table."""
    rounds = schema.rounds.c
    newest_first = [column.desc() for column in order_of(schema.rounds, HistoryRange())]
    place = sa.func.row_number().over(partition_by=(rounds.database_name, rounds.table_name), order_by=newest_first).label("place")
    is_counted = (rounds.state == RoundState.EMPTY.value, rounds.made_us <= to_microseconds(now))
    ranked = sa.select(rounds.round_id.label("former"), place).where(*is_counted).subquery()
    return sa.select(ranked.c.former).where(ranked.c.place > most).limit(LOOKED_UP)


def _events_of(rounds: Callable[[], sa.Select[tuple[str]]], connection: sa.Connection) -> Sequence[Any]:
    """Returns keys of the INFO events of these rounds."""
    event = schema.events.c
    query = sa.select(event.event_id).where(event.round_id.in_(rounds()), event.level == Level.INFO.value)
    return connection.scalars(query.limit(LOOKED_UP)).all()


def _key(table: sa.Table) -> sa.Column[Any]:
    return order_of(table, HistoryRange())[-1]


def _is_over(table: sa.Table) -> tuple[sa.ColumnElement[bool], ...]:
    """Returns the conditions for a closed row. A grant stays with its round; without it, the round would count as never granted."""
    if table is schema.events:
        return ()
    if table is schema.commits:
        return (table.c.closed, ~sa.exists().where(schema.rounds.c.round_id == table.c.round_id))
    return (table.c.closed,)
