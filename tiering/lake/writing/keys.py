"""The two questions about keys: which change of a key is the last, and which rows of the lake have one of the changed keys.

Few keys are answered in memory by Arrow, many, and the look-up of composite ones, by DuckDB with a memory limit, which goes to a
temporary folder beyond it. Keys are compared as values of their lake types; none is null (`ChangeGuard`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tiering.errors import LakewardError, RoundFailed
from tiering.lake.outside_errors import describe
from tiering.library_guards.duckdb_guard import lock
from tiering.model.refused_records import RECORD_ID

Mask = npt.NDArray[np.bool_]

MANY_KEYS = 1_000_000
"""Rows from which DuckDB does it: Arrow takes 50 to 100 bytes a key, without a limit."""
DUCKDB_MEMORY = "400MB"
TABLE_RANGE = 1 << 25
"""Of integers, a byte each."""


@dataclass(frozen=True)
class KeyRows:
    """Keys of consecutive rows of a data file: file number, position of the first row, one array a key column."""

    file: int
    first: int
    keys: list[pa.Array[Any]]


@dataclass(frozen=True)
class ChangedKeys:
    """The distinct keys that a split changes. `batches` reads them, as often as it is called; `count` of them."""

    columns: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    count: int
    batches: Callable[[], Iterator[pa.RecordBatch]]

    def bounds(self) -> list[tuple[Any, Any]]:
        """Smallest and largest value of each key column, as `plain` has them."""
        bounds: list[tuple[Any, Any]] = []
        for batch in self.batches():
            for number, column in enumerate(batch.columns):
                extremes: Any = pc.min_max(column)
                low, high = plain(extremes["min"]), plain(extremes["max"])
                if number == len(bounds):
                    bounds.append((low, high))
                else:
                    bounds[number] = (min(low, bounds[number][0]), max(high, bounds[number][1]))
        return bounds


def plain(value: pa.Scalar[Any]) -> Any:
    """A key's value for comparison: dates and times as the number that is stored, since Python's own end with the year 9999."""
    return cast(Any, value).value if pa.types.is_temporal(value.type) else value.as_py()


def last_of_each_key(rows: int, batches: Iterable[pa.RecordBatch]) -> Mask:
    """For each of the `rows` rows of `batches`, which have the key columns alone, whether no later row has its key."""
    last = np.zeros(rows, dtype=bool)
    if not rows:
        return last
    numbered = _numbered(batches)
    if rows < MANY_KEYS:
        table = pa.Table.from_batches(numbered)
        grouped = table.group_by(table.column_names[:-1], use_threads=False).aggregate([("row", "max")])
        last[grouped["row_max"].to_numpy()] = True
        return last
    first = next(numbered)
    reader = pa.RecordBatchReader.from_batches(first.schema, _chain(first, numbered))
    with _duckdb() as (connection, _):
        connection.register("changes", reader)
        query = f"SELECT max(row) FROM changes GROUP BY {', '.join(first.schema.names[:-1])}"
        for batch in _read(connection, query):
            last[batch.column(0).to_numpy()] = True
    return last


def rows_with(changed: ChangedKeys, standing: Iterable[KeyRows]) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """(file number, positions) of the rows of `standing` that have a changed key; a file may come several times."""
    if changed.count < MANY_KEYS and len(changed.columns) == 1:
        has_changed = _membership(pa.chunked_array([batch.column(0) for batch in changed.batches()], type=changed.types[0]))
        for rows in standing:
            positions = np.flatnonzero(has_changed(rows.keys[0]))
            if len(positions):
                yield rows.file, positions + rows.first
        return
    yield from _rows_by_duckdb(changed, standing)


def _membership(values: pa.ChunkedArray[Any]) -> Callable[[pa.Array[Any]], Mask]:
    """Whether each of some keys is one of `values`, of which there is at least one. Integers that lie close together are looked up in a
    table, ten times as fast as by hash."""
    if pa.types.is_integer(values.type):
        wanted = values.to_numpy()
        low, high = int(wanted.min()), int(wanted.max())
        if high - low < TABLE_RANGE:
            return lambda keys: np.isin(keys.to_numpy(), wanted, kind="table")
    return lambda keys: pc.is_in(keys, value_set=values).to_numpy(zero_copy_only=False)


def _rows_by_duckdb(changed: ChangedKeys, standing: Iterable[KeyRows]) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    names = [f"k{number}" for number in range(len(changed.columns))]
    fields = list(zip(names, changed.types, strict=True))
    probe = pa.schema([*fields, ("file", pa.int32()), ("position", pa.int64())])
    renamed = (pa.RecordBatch.from_arrays(batch.columns, names=names) for batch in changed.batches())
    with _duckdb() as (connection, own):
        connection.register("changed", pa.RecordBatchReader.from_batches(pa.schema(fields), renamed))
        connection.register("standing", pa.RecordBatchReader.from_batches(probe, own.passed_on(_probe(rows, probe) for rows in standing)))
        query = f"SELECT file, position FROM standing SEMI JOIN changed USING ({', '.join(names)})"
        for batch in _read(connection, query):
            files, positions = batch.column(0).to_numpy(), batch.column(1).to_numpy()
            for file in np.unique(files):
                yield int(file), positions[files == file]


def _probe(rows: KeyRows, schema: pa.Schema) -> pa.RecordBatch:
    count = len(rows.keys[0])
    files = pa.array(np.full(count, rows.file, np.int32))
    positions = pa.array(np.arange(rows.first, rows.first + count, dtype=np.int64))
    return pa.RecordBatch.from_arrays([*rows.keys, files, positions], schema=schema)


def _numbered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Key columns as k0, k1, ... and the rows' numbers."""
    first = 0
    for batch in batches:
        numbers = pa.array(np.arange(first, first + batch.num_rows, dtype=np.int64))
        names: Sequence[str] = [*(f"k{number}" for number in range(batch.num_columns)), "row"]
        yield pa.RecordBatch.from_arrays([*batch.columns, numbers], names=list(names))
        first += batch.num_rows


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _read(connection: duckdb.DuckDBPyConnection, query: str) -> pa.RecordBatchReader:
    reader: pa.RecordBatchReader = cast(Any, connection.sql(query)).to_arrow_reader()
    return reader


class _OwnErrors:
    """Errors of what DuckDB reads from us: it tells of them as its own, with our stack in the text."""

    def __init__(self) -> None:
        self.first: LakewardError | None = None

    def passed_on(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except LakewardError as error:
            self.first = self.first or error
            raise


@contextmanager
def _duckdb() -> Iterator[tuple[duckdb.DuckDBPyConnection, _OwnErrors]]:
    own = _OwnErrors()
    with tempfile.TemporaryDirectory(prefix="lakeward-") as folder:
        try:
            config: dict[str, str | bool | int | float | list[str]] = {
                "threads": 1,
                "memory_limit": DUCKDB_MEMORY,
                "temp_directory": folder,
                "preserve_insertion_order": False,
            }
            with duckdb.connect(config=config) as connection:
                lock(connection)
                yield connection, own
        except duckdb.Error as error:
            if own.first is not None:
                raise own.first from error
            is_of_machine = isinstance(error, duckdb.OperationalError)
            raise RoundFailed(
                f"the keys of a split could not be compared: {describe(error) if is_of_machine else type(error).__name__}",
                cause_class=type(error).__name__,
                hint="Is there room for temporary files (TMPDIR)?",
                **{RECORD_ID: None if is_of_machine else describe(error)},  # what DuckDB says of rows may name their values
            ) from error
