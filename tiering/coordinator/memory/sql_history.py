"""The SQL of reads of history: what a range selects, page by page, and the look-up columns of rows that older versions wrote."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from tiering.coordinator.memory import sql_schema as schema
from tiering.coordinator.memory.history import HistoryBounds, HistoryRange
from tiering.instants import to_microseconds

_BATCH_ROWS = 1_000
_FORGOTTEN_AT_ONCE = 200_000
"""Rows that are forgotten of one kind in one go: more than come in between."""

_ALL = HistoryRange()


def first_page(table: sa.Table, wanted: HistoryRange) -> sa.Select[Any]:
    """Selects the rows, the newest first."""
    columns, order = table.c, _order(table, wanted)
    query = sa.select(*dict.fromkeys((*order, columns.body))).order_by(*(column.desc() for column in order))
    for column, value in (("database_name", wanted.database_name), ("table_name", wanted.table_name), ("round_id", wanted.round_id)):
        if value is not None:
            query = query.where(columns[column] == value)
    for name, value in wanted.fields.items():
        query = query.where(columns.body[name].as_string() == value)
    time = _time(table)
    if wanted.since is not None:
        query = query.where(time >= to_microseconds(wanted.since))
    if wanted.until is not None:
        query = query.where(time <= to_microseconds(wanted.until))
    return query


def page_after(table: sa.Table, wanted: HistoryRange, last: sa.Row[Any]) -> sa.Select[Any]:
    """Selects the rows that come after `last`."""
    order = _order(table, wanted)
    return first_page(table, wanted).where(sa.tuple_(*order) < sa.tuple_(*(last._mapping[column.name] for column in order)))


def _order(table: sa.Table, wanted: HistoryRange) -> tuple[sa.Column[Any], ...]:
    """Columns by which rows are sorted; together they are of one row alone."""
    if table is schema.events:
        return (table.c.occurred_us, table.c.event_id) if wanted.by_time else (table.c.event_id,)
    return _time(table), table.c.error_key if table is schema.errors else table.c.round_id


def _time(table: sa.Table) -> sa.Column[Any]:
    """The column with the time of a row."""
    return table.c[{schema.events.name: "occurred_us", schema.errors.name: "seen_us"}.get(table.name, "made_us")]


def keys_beyond(connection: sa.Connection, table: sa.Table, bounds: HistoryBounds, now: datetime) -> list[Any]:
    """Keys of rows that are older than the bounds, or beyond the newest of all or of one table; the oldest first.

    Rows dated after `now` neither go nor push out others.
    """
    key, time, limit = _order(table, _ALL)[-1], _time(table), to_microseconds(now)
    of_all, of_table = (bounds.events, bounds.events_per_table) if table is schema.events else (bounds.rounds, bounds.rounds_per_table)
    dated = sa.select(key, time).where(time <= limit)
    newest_first = dated.order_by(*(column.desc() for column in _order(table, _ALL)))
    times: dict[Any, int] = {}

    def add(query: sa.Select[Any]) -> None:
        times.update((row_key, row_time) for row_key, row_time in connection.execute(query.limit(_FORGOTTEN_AT_ONCE)))

    add(dated.where(time < to_microseconds(bounds.before)))
    add(newest_first.offset(of_all))
    path = (table.c.database_name, table.c.table_name)
    crowded = sa.select(*path).where(table.c.database_name.is_not(None)).group_by(*path).having(sa.func.count() > of_table)
    for names in connection.execute(crowded).all():
        add(newest_first.where(*(column == name for column, name in zip(path, names, strict=True))).offset(of_table))
    return sorted(times, key=lambda row_key: times[row_key])


def forget(table: sa.Table, keys: Sequence[Any]) -> sa.Delete:
    """Deletes rows that are over. A grant stays with its round: a round without its grant would count as one that was never granted."""
    query = sa.delete(table).where(_order(table, _ALL)[-1].in_(keys))
    if table is schema.commits:
        query = query.where(table.c.round_id.not_in(sa.select(schema.rounds.c.round_id)))
    return query if table is schema.events else query.where(table.c.closed)


def complete(connection: sa.Connection) -> None:
    """Fills the look-up columns of rows that an older version wrote, from their bodies."""
    for table in (schema.rounds, schema.commits):
        _fill(connection, table, table.c.round_id, table.c.database_name, ("database_name", "table_name"))
    _fill(connection, schema.events, schema.events.c.event_id, schema.events.c.occurred_us, ("database_name", "table_name", "round_id"))


def _fill(connection: sa.Connection, table: sa.Table, key: sa.Column[Any], unfilled: sa.Column[Any], names: tuple[str, ...]) -> None:
    query = sa.select(key, table.c.body).where(unfilled.is_(None)).limit(_BATCH_ROWS)
    update = sa.update(table).where(key == sa.bindparam("former"))
    while rows := connection.execute(query).all():
        connection.execute(update, [_look_up_columns(table, row, names) for row in rows])


def _look_up_columns(table: sa.Table, row: sa.Row[Any, Any], names: tuple[str, ...]) -> dict[str, Any]:
    key, body = row
    values = {"former": key, **{name: body[name] for name in names}}
    if table is schema.events:
        values["occurred_us"] = to_microseconds(datetime.fromisoformat(body["occurred_at"]))
    return values
