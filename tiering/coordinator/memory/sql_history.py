"""The SQL of reads of history: what a range selects, page by page, and the look-up columns of rows that older versions wrote."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler

from tiering.coordinator.decisions.records import ErrorRecord, EventRecord, LakeCommitRecord, RoundRecord
from tiering.coordinator.memory import sql_schema as schema
from tiering.coordinator.memory.history import HistoryKind, HistoryRange, TablePathOrNone
from tiering.coordinator.memory.store import Writes
from tiering.instants import to_microseconds

_BATCH_ROWS = 10_000
_NAMED_ONE_BY_ONE = 200
"""Tables that are parameters of a query each: then an index may find their rows."""
LOOK_UP_CHARACTERS = 200
"""Of a text in a look-up column: PostgreSQL refuses longer ones than some 2,700 bytes in an index."""

LOOK_UP_FIELDS = {schema.rounds.name: ("state",), schema.commits.name: ("state",), schema.events.name: ("level", "event_type", "principal")}
"""Fields of a body that have a column of their own, cut."""


def first_page(table: sa.Table, wanted: HistoryRange) -> sa.Select[Any]:
    """Selects the rows, the newest first."""
    columns, order = table.c, order_of(table, wanted)
    query = sa.select(*dict.fromkeys((*order, columns.body))).order_by(*(column.desc() for column in order))
    for column, value in (("database_name", wanted.database_name), ("table_name", wanted.table_name), ("round_id", wanted.round_id)):
        if value is not None:
            query = query.where(columns[column] == value)
    if wanted.paths is not None:
        query = query.where(_is_about(table, wanted.paths))
    for name, value in wanted.fields.items():
        if name in columns:
            query = query.where(columns[name] == value[:LOOK_UP_CHARACTERS])
        if name not in columns or len(value) >= LOOK_UP_CHARACTERS:
            query = query.where(columns.body[name].as_string() == value)
    time = time_of(table)
    if wanted.since is not None:
        query = query.where(time >= to_microseconds(wanted.since))
    if wanted.until is not None:
        query = query.where(time <= to_microseconds(wanted.until))
    return query


def _is_about(table: sa.Table, paths: Collection[TablePathOrNone]) -> sa.ColumnElement[bool]:
    """The condition that a row is about one of the tables, or about none if that is among them."""
    named = [path for path in paths if path != (None, None)]
    conditions = [_is_named(table, named)] if named else []
    return sa.or_(sa.false(), *conditions, *([table.c.database_name.is_(None)] if len(named) < len(paths) else []))


def _is_named(table: sa.Table, paths: Collection[TablePathOrNone]) -> sa.ColumnElement[bool]:
    """The condition that a row is about one of the tables. As a parameter each, 10,000 of them make a page five times as expensive."""
    if len(paths) <= _NAMED_ONE_BY_ONE:
        return sa.tuple_(table.c.database_name, table.c.table_name).in_(paths)
    texts = json.dumps([f"{database_name}.{table_name}" for database_name, table_name in paths])
    return is_among(table.c.database_name + "." + table.c.table_name, sa.literal(texts, sa.Text()))


class is_among(sa.sql.functions.FunctionElement[bool]):
    """Whether the first text is in the second one, a JSON array of texts."""

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


def page_after(table: sa.Table, wanted: HistoryRange, last: sa.Row[Any]) -> sa.Select[Any]:
    """Selects the rows that come after `last`."""
    order = order_of(table, wanted)
    return first_page(table, wanted).where(sa.tuple_(*order) < sa.tuple_(*(last._mapping[column.name] for column in order)))


TABLES = {
    HistoryKind.ROUNDS: schema.rounds,
    HistoryKind.COMMITS: schema.commits,
    HistoryKind.ERRORS: schema.errors,
    HistoryKind.EVENTS: schema.events,
}


class WrittenPaths:
    """The tables that history is about: looked up once, and from then on kept up by what is written. Thread-safe.

    It may have tables whose last row was pruned, until `forget`.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._known: dict[HistoryKind, frozenset[TablePathOrNone]] = {}
        self._written: dict[HistoryKind, set[TablePathOrNone]] = {kind: set() for kind in HistoryKind}

    def of(self, kind: HistoryKind, look_up: Callable[[], Iterable[TablePathOrNone]]) -> frozenset[TablePathOrNone]:
        """The tables; `look_up` reads them in the store, where nobody keeps them yet."""
        with self._guard:
            known = self._known.get(kind)
            if known is not None:
                return known | self._written[kind]
        looked_up = frozenset(look_up())
        with self._guard:
            self._known[kind] = looked_up
            return looked_up | self._written[kind]

    def add(self, writes: Writes) -> None:
        """Takes note of what is about to be written."""
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
        """Looks the tables up again the next time: rows were pruned."""
        with self._guard:
            self._known.clear()


def order_of(table: sa.Table, wanted: HistoryRange) -> tuple[sa.Column[Any], ...]:
    """Columns by which rows are sorted; together they are of one row alone."""
    if table is schema.events:
        return (table.c.occurred_us, table.c.event_id) if wanted.by_time else (table.c.event_id,)
    return time_of(table), table.c.error_key if table is schema.errors else table.c.round_id


def time_of(table: sa.Table) -> sa.Column[Any]:
    """The column with the time of a row."""
    return table.c[{schema.events.name: "occurred_us", schema.errors.name: "seen_us"}.get(table.name, "made_us")]


def complete(connection: sa.Connection) -> None:
    """Fills the look-up columns of rows that an older version wrote, from their bodies."""
    for table in (schema.rounds, schema.commits):
        _fill(connection, table, table.c.round_id, table.c.database_name, ("database_name", "table_name"))
    _fill(connection, schema.events, schema.events.c.event_id, schema.events.c.occurred_us, ("database_name", "table_name", "round_id"))
    for table in (schema.rounds, schema.commits, schema.events):
        _fill_texts(connection, table, LOOK_UP_FIELDS[table.name])


def _fill_texts(connection: sa.Connection, table: sa.Table, names: tuple[str, ...]) -> None:
    """In the database, some at a time: PostgreSQL's time for a statement is limited."""
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
