"""Two operations on keys: find the last change of each key, and find the rows of the lake that have a changed key.

For few keys Arrow does it in memory. For many keys, and for the look-up of composite ones, DuckDB does it with a memory limit, beyond which
it uses a temporary folder. Keys are compared as values of their lake types. No key is null (`ChangeGuard`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tiering.errors import LakewardError, RoundFailed
from tiering.lake.outside_errors import describe
from tiering.lake.writing.key_sets import KeyTest, key_test
from tiering.library_guards.duckdb_guard import lock
from tiering.model.refused_records import RECORD_ID

Mask = npt.NDArray[np.bool_]

MANY_KEYS = 1_000_000
"""Number of rows from which DuckDB is used. Arrow takes 50 to 100 bytes a key, without a limit."""
DUCKDB_MEMORY = "400MB"


@dataclass(frozen=True)
class KeyRows:
    """The keys of consecutive rows of a data file: file number, position of the first row, and one array for each key column."""

    file: int
    first: int
    keys: list[pa.Array[Any]]


@dataclass(frozen=True)
class ChangedKeys:
    """The distinct keys that a split changes. `batches` reads them and can be called repeatedly. `count` is their number."""

    columns: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    count: int
    batches: Callable[[], Iterator[pa.RecordBatch]]

    def test(self) -> KeyTest | None:
        """Returns a function that tells which rows have a changed key; None if there are too many keys to keep them in memory."""
        if not 0 < self.count < MANY_KEYS:
            return None
        batches = list(self.batches())
        return key_test([pa.chunked_array([batch.column(place) for batch in batches], type=kind) for place, kind in enumerate(self.types)])

    def bounds(self) -> list[tuple[Any, Any]]:
        """Returns the smallest and the largest value of each key column, in the form of `plain`."""
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
    """Returns a key's value for comparison. Dates and times are the stored number, because Python's own types end with the year 9999."""
    return cast(Any, value).value if pa.types.is_temporal(value.type) else value.as_py()


def kept_rows(batches: Iterable[pa.RecordBatch], mask: Mask) -> Iterator[pa.RecordBatch]:
    """Yields the rows of `batches` that `mask` keeps. The mask has one value for each row of all batches."""
    first = 0
    for batch in batches:
        part = mask[first : first + batch.num_rows]
        first += batch.num_rows
        if part.all():
            yield batch
        elif part.any():
            yield pa.RecordBatch.from_arrays([pc.filter(column, pa.array(part)) for column in batch.columns], schema=batch.schema)


def last_of_each_key(rows: int, batches: Iterable[pa.RecordBatch]) -> Mask:
    """Returns for each of the `rows` rows whether no later row has its key. `batches` have only the key columns."""
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
    reader = pa.RecordBatchReader.from_batches(first.schema, chain([first], numbered))
    with _duckdb() as (connection, _):
        connection.register("changes", reader)
        query = f"SELECT max(row) FROM changes GROUP BY {', '.join(first.schema.names[:-1])}"
        for batch in _read(connection, query):
            last[batch.column(0).to_numpy()] = True
    return last


def rows_with(changed: ChangedKeys, lake_rows: Iterable[KeyRows]) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Yields (file number, positions) of the rows of `lake_rows` that have a changed key. A file may be yielded several times."""
    if (has_changed := changed.test()) is not None:
        for rows in lake_rows:
            positions = np.flatnonzero(has_changed(rows.keys))
            if len(positions):
                yield rows.file, positions + rows.first
        return
    yield from _rows_by_duckdb(changed, lake_rows)


def _rows_by_duckdb(changed: ChangedKeys, lake_rows: Iterable[KeyRows]) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    names = [f"k{number}" for number in range(len(changed.columns))]
    fields = list(zip(names, changed.types, strict=True))
    probe = pa.schema([*fields, ("file", pa.int32()), ("position", pa.int64())])
    renamed = (pa.RecordBatch.from_arrays(batch.columns, names=names) for batch in changed.batches())
    with _duckdb() as (connection, own):
        connection.register("changed", pa.RecordBatchReader.from_batches(pa.schema(fields), renamed))
        connection.register("lake_rows", pa.RecordBatchReader.from_batches(probe, own.passed_on(_probe(rows, probe) for rows in lake_rows)))
        query = f"SELECT file, position FROM lake_rows SEMI JOIN changed USING ({', '.join(names)})"
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
    """Yields the batches with the key columns renamed to k0, k1, ... and a column with the rows' numbers."""
    first = 0
    for batch in batches:
        numbers = pa.array(np.arange(first, first + batch.num_rows, dtype=np.int64))
        names: Sequence[str] = [*(f"k{number}" for number in range(batch.num_columns)), "row"]
        yield pa.RecordBatch.from_arrays([*batch.columns, numbers], names=list(names))
        first += batch.num_rows


def _read(connection: duckdb.DuckDBPyConnection, query: str) -> pa.RecordBatchReader:
    reader: pa.RecordBatchReader = cast(Any, connection.sql(query)).to_arrow_reader()
    return reader


class _ReaderErrors:
    """The first error of the batches that DuckDB reads from us. DuckDB raises it as its own, with our stack in the text."""

    def __init__(self) -> None:
        self.first: LakewardError | None = None

    def passed_on(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except LakewardError as error:
            self.first = self.first or error
            raise


@contextmanager
def _duckdb() -> Iterator[tuple[duckdb.DuckDBPyConnection, _ReaderErrors]]:
    own = _ReaderErrors()
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
