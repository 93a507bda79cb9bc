"""The answer of a statement: columns and rows as plain Python values, times in UTC."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from sys_tables.declare.columns import record_batch
from tiering.errors import StatementFailed, cut_message


@dataclass(frozen=True)
class Answer:
    """Rows by position. Structs and maps are mappings, arrays lists."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


def answer_of(objects: Iterable[object], schema: pa.Schema) -> Answer:
    """The attributes of objects that the schema names, with its types."""
    batch = record_batch(schema, list(objects))
    return Answer(schema.names, [list(row.values()) for row in batch.to_pylist()])


def queried(connection: duckdb.DuckDBPyConnection, sql: str) -> Answer:
    """All rows of a query. Raises StatementFailed with what DuckDB says; KeyboardInterrupt ends the query."""

    def run() -> Answer:
        cursor = connection.execute(sql)
        return Answer([column[0] for column in cursor.description or ()], cursor.fetchall())

    # In the main thread DuckDB would notice Ctrl-C only now and then.
    with ThreadPoolExecutor(1, thread_name_prefix="duckdb") as pool:
        work = pool.submit(run)
        try:
            return _awaited(work)
        except KeyboardInterrupt:
            connection.interrupt()
            raise


def _awaited(work: Future[Answer]) -> Answer:
    try:
        return work.result()
    except duckdb.Error as error:
        # After an empty line DuckDB shows the place in the translated SQL, which the user has not written.
        message = str(error).split("\n\nLINE ", 1)[0].strip()
        raise StatementFailed(cut_message(f"DuckDB refuses the statement: {message}"), hint=_hint(error)) from error


def _hint(error: duckdb.Error) -> str:
    if "Referenced column" in str(error):
        return "DESCRIBE says which columns a table has."
    if isinstance(error, (duckdb.CatalogException, duckdb.BinderException, duckdb.ParserException, duckdb.NotImplementedException)):
        return (
            "Offline, Spark's SQL is translated for DuckDB, which has not all of its functions; `lakeward sql` without --engine runs Spark."
        )
    return "Is a value out of range, or a lake file damaged? `lakeward validate` looks at the files."
