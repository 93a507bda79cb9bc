"""SQL for history: reads of a range, page by page, the look-up columns of rows that older versions wrote, and deletion of old rows.

A deletion looks keys up without blocking writers, and then deletes rows by key, a few in each write.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler

from tiering.coordinator.decisions.records import ErrorRecord, EventRecord, LakeCommitRecord, Level, RoundRecord
from tiering.coordinator.memory import sql_schema as schema
from tiering.coordinator.memory.history import HistoryBounds, HistoryKind, HistoryRange, TablePathOrNone
from tiering.coordinator.memory.store import Writes
from tiering.instants import to_microseconds
from tiering.model.rounds import RoundState

_BATCH_ROWS = 10_000
_NAMED_ONE_BY_ONE = 200
"""Up to this many tables are one query parameter each, so that the database can use an index."""
LOOK_UP_CHARACTERS = 200
"""Length of a text in a look-up column. PostgreSQL refuses texts above some 2,700 bytes in an index."""

LOOK_UP_FIELDS = {schema.rounds.name: ("state",), schema.commits.name: ("state",), schema.events.name: ("level", "event_type", "principal")}
"""Fields of a body that also have a column, truncated."""


def first_page(table: sa.Table, history_range: HistoryRange) -> sa.Select[Any]:
    """Returns the query for the first page, the newest rows first."""
    columns, order = table.c, order_of(table, history_range)
    query = sa.select(*dict.fromkeys((*order, columns.body))).order_by(*(column.desc() for column in order))
    for column, value in (
        ("database_name", history_range.database_name),
        ("table_name", history_range.table_name),
        ("round_id", history_range.round_id),
    ):
        if value is not None:
            query = query.where(columns[column] == value)
    if history_range.paths is not None:
        query = query.where(_is_about(table, history_range.paths, history_range.is_missed))
    for name, value in history_range.fields.items():
        if name in columns:
            query = query.where(columns[name] == value[:LOOK_UP_CHARACTERS])
        if name not in columns or len(value) >= LOOK_UP_CHARACTERS:
            query = query.where(columns.body[name].as_string() == value)
    if history_range.is_missed:
        query = query.where(sa.cast(columns.body["missed_by_ms"].as_string(), sa.BigInteger) > 0)
    time = time_of(table)
    if history_range.since is not None:
        query = query.where(time >= to_microseconds(history_range.since))
    if history_range.until is not None:
        query = query.where(time <= to_microseconds(history_range.until))
    return query


def _is_about(table: sa.Table, paths: Collection[TablePathOrNone], are_few_rows: bool) -> sa.ColumnElement[bool]:
    """Returns the condition that a row is about one of the tables. The path (None, None) selects rows without a table.

    `are_few_rows`: whether other conditions select so few rows that a page with the newest ones reads most rows of these tables.
    """
    named = [path for path in paths if path != (None, None)]
    conditions = [_is_named(table, named, are_few_rows)] if named else []
    return sa.or_(sa.false(), *conditions, *([table.c.database_name.is_(None)] if len(named) < len(paths) else []))


def _is_named(table: sa.Table, paths: Collection[TablePathOrNone], are_few_rows: bool) -> sa.ColumnElement[bool]:
    """Returns the condition that a row is about one of the tables.

    One parameter each would make a page for 10,000 tables 5 times slower. With OR, SQLite reads the rows of each table by an index. With IN
    it reads the rows of all tables by time, until it has a page.
    """
    if len(paths) <= _NAMED_ONE_BY_ONE and are_few_rows:
        return sa.or_(*(sa.and_(table.c.database_name == database, table.c.table_name == name) for database, name in paths))
    if len(paths) <= _NAMED_ONE_BY_ONE:
        return sa.tuple_(table.c.database_name, table.c.table_name).in_(paths)
    texts = json.dumps([f"{database_name}.{table_name}" for database_name, table_name in paths])
    return is_among(table.c.database_name + "." + table.c.table_name, sa.literal(texts, sa.Text()))


class is_among(sa.sql.functions.FunctionElement[bool]):
    """SQL condition: the first text is in the second one, a JSON array of texts."""

    type = sa.Boolean()
    inherit_cache = True


@compiles(is_among, "sqlite")
def _among_in_sqlite(element: is_among, compiler: SQLCompiler, **options: Any) -> str:
    text, texts = (compiler.process(clause, **options) for clause in element.clauses)
    return f"({text}) IN (SELECT value FROM json_each({texts}))"


@compiles(is_among, "postgresql")
def _among_in_postgresql(element: is_among, compiler: SQLCompiler, **options: Any) -> str:
    text, texts = (compiler.process(clause, **options) for clause in element.clauses)
    return f"({text}) IN (SELECT jsonb_array_elements_text(CAST({texts} AS JSONB)))"


def oldest_round(*, is_empty: bool) -> sa.Select[Any]:
    """Returns the query for when the oldest round of one table was queued, which an index answers. It has two parameters, the names."""
    columns = schema.rounds.c
    state = columns.state == RoundState.EMPTY.value if is_empty else columns.state != RoundState.EMPTY.value
    here = (columns.database_name == sa.bindparam("database_name"), columns.table_name == sa.bindparam("table_name"))
    return sa.select(columns.made_us).where(*here, state).order_by(columns.made_us).limit(1)


def page_after(table: sa.Table, history_range: HistoryRange, last: sa.Row[Any]) -> sa.Select[Any]:
    """Returns the query for the page after the row `last`."""
    order = order_of(table, history_range)
    return first_page(table, history_range).where(sa.tuple_(*order) < sa.tuple_(*(last._mapping[column.name] for column in order)))


TABLES = {
    HistoryKind.ROUNDS: schema.rounds,
    HistoryKind.COMMITS: schema.commits,
    HistoryKind.ERRORS: schema.errors,
    HistoryKind.EVENTS: schema.events,
}


class WrittenPaths:
    """The tables that history is about: looked up once, then updated with each write. It is thread-safe.

    It may contain tables whose last row was pruned, until `forget` is called.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._looked_up: dict[HistoryKind, frozenset[TablePathOrNone]] = {}
        self._written: dict[HistoryKind, set[TablePathOrNone]] = {kind: set() for kind in HistoryKind}

    def of(self, kind: HistoryKind, look_up: Callable[[], Iterable[TablePathOrNone]]) -> frozenset[TablePathOrNone]:
        """Returns the tables. `look_up` reads them from the store the first time."""
        with self._guard:
            looked_up_paths = self._looked_up.get(kind)
            if looked_up_paths is not None:
                return looked_up_paths | self._written[kind]
        looked_up = frozenset(look_up())
        with self._guard:
            self._looked_up[kind] = looked_up
            return looked_up | self._written[kind]

    def add(self, writes: Writes) -> None:
        """Adds the tables of rows that are about to be written."""
        rows: dict[HistoryKind, Iterable[RoundRecord | LakeCommitRecord | ErrorRecord | EventRecord]] = {
            HistoryKind.ROUNDS: writes.rounds,
            HistoryKind.COMMITS: writes.commits,
            HistoryKind.ERRORS: writes.errors,
            HistoryKind.EVENTS: writes.events,
        }
        with self._guard:
            for kind, written in rows.items():
                self._written[kind].update((row.database_name, row.table_name) for row in written)

    def forget(self) -> None:
        """Makes the next call look the tables up again, because rows were pruned."""
        with self._guard:
            self._looked_up.clear()


def order_of(table: sa.Table, history_range: HistoryRange) -> tuple[sa.Column[Any], ...]:
    """Returns the columns by which rows are sorted. Together they identify one row."""
    if table is schema.events:
        return (table.c.occurred_us, table.c.event_id) if history_range.by_time else (table.c.event_id,)
    return time_of(table), table.c.error_key if table is schema.errors else table.c.round_id


def time_of(table: sa.Table) -> sa.Column[Any]:
    """Returns the column with the time of a row."""
    return table.c[{schema.events.name: "occurred_us", schema.errors.name: "seen_us"}.get(table.name, "made_us")]


def complete(connection: sa.Connection) -> None:
    """Fills the look-up columns of rows that an older version wrote, from their bodies."""
    for table in (schema.rounds, schema.commits):
        _fill(connection, table, table.c.round_id, table.c.database_name, ("database_name", "table_name"))
    _fill(connection, schema.events, schema.events.c.event_id, schema.events.c.occurred_us, ("database_name", "table_name", "round_id"))
    for table in (schema.rounds, schema.commits, schema.events):
        _fill_texts(connection, table, LOOK_UP_FIELDS[table.name])


def _fill_texts(connection: sa.Connection, table: sa.Table, names: tuple[str, ...]) -> None:
    """Fills columns inside of the database, in batches, because PostgreSQL limits the time of a statement."""
    (key,) = table.primary_key
    some = sa.select(key).where(table.c[names[0]].is_(None)).limit(_BATCH_ROWS)
    values = {name: sa.func.substr(table.c.body[name].as_string(), 1, LOOK_UP_CHARACTERS) for name in names}
    while connection.execute(sa.update(table).where(key.in_(some)).values(values)).rowcount:
        pass


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
KEEP_PROOFS = 10_000
"""Number of newest proofs of tables that are kept: some 10 MB."""


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
    for table, keep in ((schema.validations, KEEP_VALIDATIONS), (schema.proofs, KEEP_PROOFS)):
        newest = sa.select(sa.func.max(table.c.number)).scalar_subquery()
        yield _where(table.c.number, table.c.number <= newest - keep)
    started = schema.operations.c.started_us
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
