"""The answer of a statement: columns and rows as plain Python values, times in UTC."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from threading import Thread
from typing import Any

import duckdb
import pyarrow as pa

from sys_tables.declare.columns import record_batch
from tiering.errors import StatementFailed, cut_message
from tiering.library_guards.duckdb_guard import duckdb_reason

_OF_THE_STATEMENT = (duckdb.CatalogException, duckdb.BinderException, duckdb.ParserException, duckdb.NotImplementedException)
"""Errors that tell of the statement alone, whatever is in the files."""
_INTERRUPT_AGAIN_SECONDS = 0.05
_DAMAGE_HINT = "Leave the column out of the query, or read the table with Spark: `lakeward sql` without --engine."


@dataclass(frozen=True)
class Answer:
    """Rows by position. Structs and maps are mappings, arrays lists."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


def answer_of(objects: Iterable[object], schema: pa.Schema) -> Answer:
    """The attributes of objects that the schema names, with its types."""
    batch = record_batch(schema, list(objects))
    return Answer(schema.names, [list(row.values()) for row in batch.to_pylist()])


def queried(
    connection: duckdb.DuckDBPyConnection,
    sql: str,
    name_damage: Callable[[duckdb.Error], str | None] | None = None,
    max_rows: int | None = None,
) -> Answer:
    """Returns the rows of a query, at most `max_rows`; None = all. KeyboardInterrupt ends the query.

    Raises StatementFailed with what DuckDB says.

    `name_damage` says which file of a lake table DuckDB cannot read, and is asked once the query failed.
    """

    work: Future[Answer] = Future()

    def run() -> None:
        if not work.set_running_or_notify_cancel():
            return
        try:
            cursor = connection.execute(sql)
            work.set_result(
                Answer(
                    [column[0] for column in cursor.description or ()],
                    cursor.fetchall() if max_rows is None else cursor.fetchmany(max_rows),
                )
            )
        except BaseException as error:
            work.set_exception(error)

    try:
        # In the main thread DuckDB would notice Ctrl-C only now and then. Ctrl-C may come while the thread starts.
        Thread(target=run, name="duckdb", daemon=True).start()
        return _awaited(work, name_damage or _no_damage)
    except KeyboardInterrupt:
        if not work.cancel():
            _interrupt_until_done(connection, work)
        raise


def _interrupt_until_done(connection: duckdb.DuckDBPyConnection, work: Future[Answer]) -> None:
    """Interrupts until the work has ended: DuckDB forgets an interrupt that comes before the query has begun."""
    while not work.done():
        connection.interrupt()
        wait([work], _INTERRUPT_AGAIN_SECONDS)


def _awaited(work: Future[Answer], name_damage: Callable[[duckdb.Error], str | None]) -> Answer:
    try:
        return work.result()
    except duckdb.Error as error:
        damage = None if isinstance(error, _OF_THE_STATEMENT) else name_damage(error)
        raise _failed(error, damage) from error


def _failed(error: duckdb.Error, damage: str | None) -> StatementFailed:
    """Returns DuckDB's message and the damage, if any. A damaged value need not be the reason of the failure, so it never hides DuckDB's
    message."""
    reason = duckdb_reason(error)
    if damage is None:
        return StatementFailed(cut_message(f"DuckDB refuses the statement: {reason}"), hint=_hint(error))
    if reason.rsplit(" Error: ", 1)[-1] in damage:  # DuckDB names a kind of error before it, or does not
        return StatementFailed(cut_message(damage), hint=_DAMAGE_HINT)
    message = f"DuckDB refuses the statement: {reason}; besides, {damage}"
    return StatementFailed(cut_message(message), hint=f"{_hint(error)} For the file: {_DAMAGE_HINT}")


def _no_damage(error: duckdb.Error) -> None:
    """Names no file: the query reads none."""


def _hint(error: duckdb.Error) -> str:
    if "Referenced column" in str(error):
        return "DESCRIBE says which columns a table has."
    if isinstance(error, _OF_THE_STATEMENT):
        return (
            "Offline, Spark's SQL is translated for DuckDB, which has not all of its functions; `lakeward sql` without --engine runs Spark."
        )
    return "Is a value out of range of its type, or of the type that the statement casts it to?"
