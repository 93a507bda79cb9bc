"""Runs one statement in a process of its own, which may be killed or run out of memory without harm to the console.

The process has no token and no address of a service. It asks the console for the rows of each system table, over its standard output,
and gets them over its standard input.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, BinaryIO, NoReturn

import duckdb
import pyarrow as pa
from pyarrow import ipc

from sys_tables.console.query import Query
from sys_tables.console.sql.messages import ANSWER, ERROR, READ, read_message, write_message
from sys_tables.console.sql.statements import checked
from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import SystemTable
from sys_tables.offline.answers import Answer
from sys_tables.offline.engine import OfflineEngine, OfflineSource
from sys_tables.offline.parsing import UseStatement
from sys_tables.query.reading import StatementView
from sys_tables.registry import default_registry
from tiering.errors import LakewardError, StatementFailed, UnknownDatabase
from tiering.library_guards.arrow_ipc import ArrowLimits, read_rows
from tiering.model.names import SYSTEM_DATABASE
from tiering.model.status import TableStatus
from tiering.model.tables import TableInfo

MAX_TABLE_ROWS = 1_000_000
MEMORY_LIMIT = "256MB"
SETTINGS = {"threads": "1", "max_temp_directory_size": "256MB"}
ADDRESS_SPACE_BYTES = 3 << 29
"""Address space of the process. Libraries reserve more than they use."""
CPU_SECONDS = 30
"""Most processor time, in case that the console ends and does not kill the process."""
MAX_CELL_CHARACTERS = 2_000
MAX_ANSWER_CHARACTERS = 1 << 20
MAX_CELLS = 20_000
"""Most cells of an answer. Both limits keep the page small: it is rendered in the process of the console."""
_HARMLESS = frozenset({"random", "uuid", "uuidv4", "uuidv7", "gen_random_uuid", "error"})
_NAMED = frozenset({"current_setting", "getvariable", "json_serialize_sql", "json_deserialize_sql", "json_serialize_plan", "version"})


class SystemNames:
    """A `NamesView` without databases: names mean tables of `sys` alone."""

    now = datetime.now(UTC)

    def databases(self) -> Sequence[str]:
        """Returns no database."""
        return ()

    def tables(self, database_name: str) -> Sequence[TableInfo]:
        """Raises UnknownDatabase."""
        raise UnknownDatabase(f"only {SYSTEM_DATABASE} is read here")

    def table_statuses(self, database_name: str | None = None, table_name: str | None = None) -> Sequence[TableStatus]:
        """Returns no status."""
        return ()


@dataclass(frozen=True)
class ConsoleRows:
    """Rows of system tables, which the console reads as its caller."""

    source: BinaryIO
    sink: BinaryIO

    def read(self, table: SystemTable, scan: ScanRequest) -> Iterator[bytes]:
        """Yields the rows of a scan as an Arrow stream with the types of the table's columns."""
        query = Query(table.name, scan.columns, (*scan.filters, *scan.conditions), limit=scan.limit)
        write_message(self.sink, READ + query.request().SerializeToString())
        stream = read_message(self.source)
        if stream is None:
            raise SystemExit(1)  # the console has ended the statement
        rows = read_rows(stream, ArrowLimits(MAX_TABLE_ROWS, null_columns=True))
        schema = pa.schema([table.schema.field(name) for name in scan.columns])
        columns = [_typed(rows.column(field.name).combine_chunks(), field.type) for field in schema]
        sink = pa.BufferOutputStream()
        with ipc.new_stream(sink, schema.remove_metadata()) as writer:
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
        yield sink.getvalue().to_pybytes()


def _typed(column: Any, arrow_type: Any) -> Any:
    return pa.nulls(len(column), arrow_type) if pa.types.is_null(column.type) else column


def refused_functions() -> frozenset[str]:
    """Returns DuckDB's functions that change something, wait, or show the process and the engine instead of rows."""
    with duckdb.connect() as connection:
        rows = connection.execute(
            "SELECT function_name FROM duckdb_functions() WHERE stability = 'VOLATILE' OR has_side_effects"
            " OR (starts_with(function_name, 'pg_') AND function_name <> 'pg_typeof') OR starts_with(function_name, 'current_')"
        ).fetchall()
    calendar = {"current_date", "current_time", "current_timestamp", "current_localtime", "current_localtimestamp"}
    return frozenset(name for (name,) in rows) - _HARMLESS - calendar | _NAMED


def answered(text: str, rows: ConsoleRows, max_rows: int) -> Answer:
    """Returns the answer of a statement, at most `max_rows` of its rows. Raises StatementFailed and the errors of names."""
    statement = checked(text)
    source = OfflineSource(
        read_view=lambda: StatementView(SystemNames(), rows.read),
        open_lake=_refuse,
        open_read=_refuse,
        lake_format="iceberg",
        validate=_refuse,
        start_command=None,
    )
    engine = OfflineEngine(
        source, default_registry(), MEMORY_LIMIT, max_rows=max_rows, settings=SETTINGS, refused_functions=refused_functions()
    )
    engine.execute_parsed(UseStatement((SYSTEM_DATABASE,)))
    answer = engine.execute_parsed(statement)
    return Answer(answer.columns, answer.rows[:max_rows])


def _refuse(*_: object) -> NoReturn:
    raise StatementFailed(f"only tables of {SYSTEM_DATABASE} are read here")


def encoded(answer: Answer, max_rows: int) -> bytes:
    """Returns an answer as JSON, without the rows that are too many or too long. Times are objects."""
    rows: list[list[Any]] = []
    left = MAX_ANSWER_CHARACTERS
    for row in answer.rows[: min(max_rows, MAX_CELLS // max(1, len(answer.columns)))]:
        cells = [_cell(value) for value in row]
        left -= sum(len(cell) for cell in cells if isinstance(cell, str))
        if left < 0:
            break
        rows.append(cells)
    columns = [name[:MAX_CELL_CHARACTERS] for name in answer.columns]
    return json.dumps({"columns": columns, "rows": rows, "has_more": len(rows) < len(answer.rows)}).encode()


def _cell(value: Any) -> Any:
    match value:
        case None | bool():
            return value
        case int() if abs(value) < 1 << 63:
            return value
        case float() if value == value and abs(value) != float("inf"):
            return value
        case datetime():
            moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
            return {"time": moment.astimezone(UTC).isoformat()}
        case Mapping() | list() | tuple():
            text = json.dumps(value, default=str, ensure_ascii=False)
        case _:
            text = str(value)
    return text if len(text) <= MAX_CELL_CHARACTERS else text[:MAX_CELL_CHARACTERS] + " ..."


def main(source: BinaryIO, sink: BinaryIO) -> None:
    """Reads the statement from `source`, runs it, and writes the answer or the error."""
    for limit, most in ((resource.RLIMIT_AS, ADDRESS_SPACE_BYTES), (resource.RLIMIT_CPU, CPU_SECONDS), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(limit, (most, most))
    request = json.loads(read_message(source) or b"{}")
    signal.setitimer(signal.ITIMER_REAL, request["seconds"])  # its signal ends the process, whatever a library does at the time
    try:
        max_rows = int(request["max_rows"])
        answer = answered(request["statement"], ConsoleRows(source, sink), max_rows + 1)  # one more row shows that there are more
        write_message(sink, ANSWER + encoded(answer, max_rows))
    except LakewardError as error:
        _send_error(sink, _MEMORY if isinstance(error.__cause__, duckdb.OutOfMemoryException) else error)
    except (MemoryError, RecursionError):
        _send_error(sink, _MEMORY)


_MEMORY = StatementFailed("the statement needs more memory than it may have", hint="Read fewer rows or columns.")


def _send_error(sink: BinaryIO, error: LakewardError) -> None:
    write_message(sink, ERROR + json.dumps({"message": error.message, "hint": error.hint}).encode())


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout.buffer)
