"""One read of a system table: its rows, filtered, sorted, limited and pruned, or aggregated, as Arrow pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import chain, islice

import pyarrow as pa

from sys_tables.declare.columns import array_of, checked_array, without_nulls
from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import SystemTable
from sys_tables.query.arrow_stream import ROWS_AT_ONCE, batch_pieces, joined, schema_pieces
from sys_tables.query.lookup import near_hint
from sys_tables.query.ordering import aggregated, sorted_indices
from tiering.coordinator.interface import CoordinatorView, NamesView
from tiering.errors import InvalidArgument
from tiering.model.reading.matching import AnyArray, Columns, matching

OBSERVED_TIME_KEY = "observed_time"
"""Metadata of the stream's schema: the moment that the rows show, ISO 8601, UTC."""

MakeRows = Callable[[], Iterable[object] | Columns]
"""Makes the rows of a system table, or its columns, when they are wanted."""


def read_table(table: SystemTable, view: CoordinatorView, scan: ScanRequest, *, null_columns: bool = False) -> Iterator[bytes]:
    """The pieces, made as they are drawn; columns in the order of the request, all of them if it names none.

    `null_columns`: where the whole answer is one batch, a column of nothing but NULLs has Arrow's null type.

    Raises, at the first piece, InvalidArgument for a column, condition, order, aggregate or limit that the table cannot have, and
    AccessDenied for a caller without the privilege that the table requires.
    """
    return joined(_pieces(table, lambda: table.read(view, scan), view.now, scan, null_columns))


@dataclass(frozen=True)
class StatementView:
    """The view of one statement: the meaning of names, and the rows of system tables, all of one moment.

    `read` returns the requested rows of a system table, as the pieces of an Arrow stream.
    """

    names: NamesView
    read: Callable[[SystemTable, ScanRequest], Iterator[bytes]]


def statement_view_of(view: CoordinatorView) -> StatementView:
    """Returns the moment that a coordinator's view shows."""
    return StatementView(view, lambda table, scan: read_table(table, view, scan))


def read_rows(table: SystemTable, make_rows: MakeRows, observed: datetime, scan: ScanRequest) -> Iterator[bytes]:
    """Does the same as `read_table` with rows of the caller. `observed` is the moment that they show, UTC."""
    return joined(_pieces(table, make_rows, observed, scan, null_columns=False))


def _pieces(table: SystemTable, make_rows: MakeRows, observed: datetime, scan: ScanRequest, null_columns: bool) -> Iterator[bytes]:
    _check(table, scan)
    moment: dict[bytes | str, bytes | str] = {OBSERVED_TIME_KEY: observed.isoformat()}
    if scan.is_aggregated:
        batch = aggregated(_all_matching(table, make_rows, scan), table.schema, scan).slice(0, scan.limit)
        yield from schema_pieces(batch.schema.with_metadata(moment))
        yield from batch_pieces([batch])
        return
    schema = _answer_schema(table, scan.columns)
    batches = (_batch(source, schema) for source in _limited(_sources(table, make_rows, scan), scan.limit))
    # Drawn before the stream begins, so that an error in the request comes before any piece.
    first = list(islice(batches, 2 if null_columns else 1))
    if null_columns and len(first) == 1:
        first = [without_nulls(first[0])]
        schema = first[0].schema
    yield from schema_pieces(schema.with_metadata(moment))
    yield from batch_pieces(chain(first, batches))


@lru_cache(maxsize=256)
def _answer_schema(table: SystemTable, columns: tuple[str, ...]) -> pa.Schema:
    """The columns in the order of the request. Cached, since a dashboard repeats its request."""
    return pa.schema([table.schema.field(name) for name in columns or table.schema.names])


def _check(table: SystemTable, scan: ScanRequest) -> None:
    column_names = table.schema.names
    for name in scan.columns:
        if name not in column_names:
            raise InvalidArgument(f"sys.{table.name} has no column {name!r}", hint=near_hint(name, column_names, "columns"))
    if scan.limit is not None and scan.limit < 0:
        raise InvalidArgument(f"a limit of {scan.limit} rows is not possible")
    if scan.is_aggregated and (scan.columns or scan.order):
        raise InvalidArgument("groups and aggregates have neither plain columns nor an order beside them")


def _sources(table: SystemTable, make_rows: MakeRows, scan: ScanRequest) -> Iterator[Columns]:
    """The matching rows: at once where they are sorted or come by column, else in chunks as they are made."""
    if scan.order and not table.is_ordered(scan.order):
        matches = _all_matching(table, make_rows, scan)
        yield matches.take(sorted_indices(matches, table.schema, scan.order).slice(0, scan.limit))
        return
    yield from _chunks(table, make_rows(), scan, min(scan.limit or ROWS_AT_ONCE, ROWS_AT_ONCE))


def _chunks(table: SystemTable, source: Iterable[object] | Columns, scan: ScanRequest, at_once: int) -> Iterator[Columns]:
    """The matching rows in chunks as they are made, `at_once` in the first one; those that come by column are one chunk."""
    if isinstance(source, Columns):
        yield _matching(source, table, scan)
        return
    rows = iter(source)
    while chunk := list(islice(rows, at_once)):
        at_once = ROWS_AT_ONCE
        yield _matching(RowColumns(chunk, table.schema), table, scan)
    # A condition that does not fit the schema is an error for a table without rows, too.
    _matching(RowColumns([], table.schema), table, scan)


def _all_matching(table: SystemTable, make_rows: MakeRows, scan: ScanRequest) -> Columns:
    """Returns all matching rows, for groups and for an order. Only the requested columns of rows that come one by one stay in memory."""
    source = make_rows()
    if isinstance(source, Columns):
        return _matching(source, table, scan)
    names = [name for name in table.schema.names if not scan.used_columns or name in scan.used_columns] or table.schema.names[:1]
    schema = pa.schema([table.schema.field(name) for name in names])
    limit, pending = scan.limit if scan.order else None, 0
    kept: list[pa.RecordBatch] = []
    for chunk in _chunks(table, source, scan, ROWS_AT_ONCE):
        kept.append(_batch(chunk, schema))
        pending += chunk.num_rows
        if limit is not None and pending >= max(limit, ROWS_AT_ONCE):
            first = _joined_batches(kept, schema)
            kept, pending = [first.take(sorted_indices(first, table.schema, scan.order).slice(0, limit))], 0
    return _joined_batches(kept, schema)


def _joined_batches(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    joined_table = pa.Table.from_batches(batches, schema).combine_chunks()
    return next(iter(joined_table.to_batches()), pa.RecordBatch.from_pylist([], schema))


def _matching(source: Columns, table: SystemTable, scan: ScanRequest) -> Columns:
    return matching(source, table.schema, (*scan.filters, *scan.conditions))


def _limited(sources: Iterator[Columns], limit: int | None) -> Iterator[Columns]:
    """Yields as many of the rows as the limit allows, and draws no more sources than that needs."""
    left = limit
    for source in sources:
        if left is not None and source.num_rows >= left:
            yield source.take(pa.array(range(left), pa.int64())) if source.num_rows > left else source
            return
        yield source
        left = None if left is None else left - source.num_rows


def _batch(source: Columns, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([checked_array(field, source.column(field.name)) for field in schema], schema=schema)


class RowColumns:
    """Row objects as `Columns`. `column` raises ValueError for None in a column that has no NULLs."""

    def __init__(self, rows: Sequence[object], schema: pa.Schema) -> None:
        self.rows = rows
        self._schema = schema
        self._columns: dict[str, AnyArray] = {}

    @property
    def num_rows(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> AnyArray:
        """The values of an attribute, converted once however many conditions read it."""
        if name not in self._columns:
            self._columns[name] = array_of(self._schema.field(name), [getattr(row, name) for row in self.rows])
        return self._columns[name]

    def take(self, indices: AnyArray) -> RowColumns:
        return RowColumns([self.rows[index] for index in indices.to_pylist()], self._schema)
