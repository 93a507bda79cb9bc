"""What the store forgets: keys are looked up beside whoever writes, then rows are deleted by key, some in each write."""

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
"""Keys of one look: a few megabytes."""
DELETED_TOGETHER = 250
"""Rows that one write deletes: others that write wait for some milliseconds."""
KEEP_OPERATIONS = 50_000
"""Idempotency keys of one principal that are kept, the newest: some 50 MB. Others are not to pay for a program that uses them up."""
PRINCIPAL_DIGITS = 32
"""Characters of a stored idempotency key that name its principal."""
KEEP_VALIDATIONS = 10_000
"""How many results of checks are kept, the newest."""


@dataclass(frozen=True)
class Forgotten:
    """Rows of one table that go. `find` looks up at most `LOOKED_UP` of their keys; `may_go` is looked at again as they go."""

    key: sa.Column[Any]
    find: Callable[[sa.Connection], Sequence[Any]]
    may_go: tuple[sa.ColumnElement[bool], ...]

    def deletions(self, keys: Sequence[Any]) -> Iterator[sa.Delete]:
        """One statement a write."""
        for start in range(0, len(keys), DELETED_TOGETHER):
            yield sa.delete(self.key.table).where(self.key.in_(keys[start : start + DELETED_TOGETHER]), *self.may_go)


def forgotten(bounds: HistoryBounds, operations_before: datetime, now: datetime) -> Iterator[Forgotten]:
    """All that goes. Rounds before grants, which stay with them; events of rounds without rows before these, which tell them."""
    empty = partial(_empty_rounds, bounds.empty_rounds_per_table, now)
    yield Forgotten(schema.events.c.event_id, partial(_events_of, empty), (schema.events.c.level == Level.INFO.value,))
    yield Forgotten(schema.rounds.c.round_id, lambda connection: connection.scalars(empty()).all(), _is_over(schema.rounds))
    for table in (schema.rounds, schema.commits, schema.events, schema.errors):
        yield Forgotten(_key(table), partial(_beyond, table, bounds, now), _is_over(table))
    number, started = schema.validations.c.number, schema.operations.c.started_us
    newest = sa.select(sa.func.max(number)).scalar_subquery()
    yield _where(number, number <= newest - KEEP_VALIDATIONS)
    yield _where(schema.operations.c.idempotency_key, started < to_microseconds(operations_before))
    yield Forgotten(schema.operations.c.idempotency_key, _surplus_operations, ())


def _surplus_operations(connection: sa.Connection) -> Sequence[str]:
    """Keys of operations beyond the newest of their principal, whose keys begin alike (`idempotency.stored_key`)."""
    key, started = schema.operations.c.idempotency_key, schema.operations.c.started_us
    # Literals: PostgreSQL takes an expression with parameters for another one in GROUP BY.
    principal = sa.func.substr(key, sa.literal_column("1"), sa.literal_column(str(PRINCIPAL_DIGITS + 1)))
    if connection.execute(sa.select(principal).group_by(principal).having(sa.func.count() > KEEP_OPERATIONS).limit(1)).first() is None:
        return ()
    place = sa.func.row_number().over(partition_by=principal, order_by=(started.desc(), key)).label("place")
    ranked = sa.select(key.label("former"), place).subquery()
    return connection.scalars(sa.select(ranked.c.former).where(ranked.c.place > KEEP_OPERATIONS).limit(LOOKED_UP)).all()


def _where(key: sa.Column[Any], condition: sa.ColumnElement[bool]) -> Forgotten:
    query = sa.select(key).where(condition).limit(LOOKED_UP)
    return Forgotten(key, lambda connection: connection.scalars(query).all(), (condition,))


def _beyond(table: sa.Table, bounds: HistoryBounds, now: datetime, connection: sa.Connection) -> Sequence[Any]:
    """Keys of rows that are over and older than the bounds, or beyond the newest of their table; the oldest first.

    Rows dated after `now` neither go nor push out others.
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
    """Ids of rounds that found nothing to do, beyond the newest of their table."""
    rounds = schema.rounds.c
    newest_first = [column.desc() for column in order_of(schema.rounds, HistoryRange())]
    place = sa.func.row_number().over(partition_by=(rounds.database_name, rounds.table_name), order_by=newest_first).label("place")
    is_counted = (rounds.state == RoundState.EMPTY.value, rounds.made_us <= to_microseconds(now))
    ranked = sa.select(rounds.round_id.label("former"), place).where(*is_counted).subquery()
    return sa.select(ranked.c.former).where(ranked.c.place > most).limit(LOOKED_UP)


def _events_of(rounds: Callable[[], sa.Select[tuple[str]]], connection: sa.Connection) -> Sequence[Any]:
    """Keys of what these rounds left as events."""
    event = schema.events.c
    query = sa.select(event.event_id).where(event.round_id.in_(rounds()), event.level == Level.INFO.value)
    return connection.scalars(query.limit(LOOKED_UP)).all()


def _key(table: sa.Table) -> sa.Column[Any]:
    return order_of(table, HistoryRange())[-1]


def _is_over(table: sa.Table) -> tuple[sa.ColumnElement[bool], ...]:
    """A grant stays with its round: a round without its grant would count as one that was never granted."""
    if table is schema.events:
        return ()
    if table is schema.commits:
        return (table.c.closed, ~sa.exists().where(schema.rounds.c.round_id == table.c.round_id))
    return (table.c.closed,)
