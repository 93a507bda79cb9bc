"""Writes a split's rows to one sequence of data files for each value of the partition fields of `table.datalake.partition`.

All values share one budget of memory. When it is full, the rows of the value with the most bytes are written. The number of open files is
bounded: the file that was written least recently ends first. Upkeep merges the small files that result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)

from tiering.errors import InvalidArgument
from tiering.lake.base import WriterInitContext
from tiering.lake.iceberg.schema.partition_values import PartitionItem, PartitionValue
from tiering.lake.iceberg.writing.writer import RowFiles, TableState, file_columns
from tiering.lake.proof.file_footer import Run, sum_of
from tiering.lake.table_options import PARTITION
from tiering.lake.writing.parquet_stream import ROW_GROUP_BYTES
from tiering.lake.writing.provenance import Provenance
from tiering.library_guards.bucket_hash import bucketed, truncated
from tiering.model.tables import OFFSET_COLUMN

MAX_OPEN_FILES = 16
"""Upper bound of the open files of one split. Streams to object stores hold some 10 MiB each."""
MAX_VALUES = 10_000
"""Upper bound of the partition values in one split. Each has at least one file, which every commit and every scan reads about."""

_TIME_UNITS = {YearTransform: "Y", MonthTransform: "M", DayTransform: "D", HourTransform: "h"}


class PartitionedFiles:
    """The data files of one attempt, by the values of `fields`. `new_files` returns the files of one value. Implements `LogFiles`."""

    def __init__(
        self,
        context: WriterInitContext,
        state: TableState,
        fields: Sequence[PartitionField],
        new_files: Callable[[PartitionValue], RowFiles],
    ) -> None:
        self.schema = file_columns(state.schema)
        self._path = context.table.path
        self._fields = [(state.schema.find_field(field.source_id).name, field.transform) for field in fields]
        self._new_files = new_files
        self._offsets = Provenance(context)
        self._files: dict[PartitionValue, RowFiles] = {}
        self._open: dict[PartitionValue, None] = {}
        """The values with an open file, the one written least recently first."""

    def add_records(self, rows: pa.RecordBatch) -> None:
        """Takes records in the order of their offsets. Raises InvalidArgument (too many values), InvalidData, LakeUnavailable."""
        self._offsets.take_offsets(rows.column(OFFSET_COLUMN).to_numpy())
        for value, places in groups_of([partition_column(rows.column(name), how) for name, how in self._fields], rows.num_rows):
            part = rows if places is None else rows.take(cast(Any, pa.array(places)))
            self._files_of(value).add_records(part)
            self._note_open(value)
        while sum(files.buffered_bytes for files in self._files.values()) >= ROW_GROUP_BYTES:
            value = max(self._files, key=lambda value: self._files[value].buffered_bytes)
            self._files[value].flush()
            self._note_open(value)

    def _files_of(self, value: PartitionValue) -> RowFiles:
        if value not in self._files:
            if len(self._files) == MAX_VALUES:
                raise InvalidArgument(
                    f"the rows of one split of {self._path} have more than {MAX_VALUES:,} values of the option {PARTITION}",
                    hint=f"Set {PARTITION} to a coarser partition, such as days, or a bucket.",
                    table_path=self._path,
                )
            self._files[value] = self._new_files(value)
        return self._files[value]

    def _note_open(self, value: PartitionValue) -> None:
        self._open.pop(value, None)
        if self._files[value].is_open:
            self._open[value] = None
        while len(self._open) > MAX_OPEN_FILES:
            oldest = next(iter(self._open))
            del self._open[oldest]
            self._files[oldest].end_file()

    def close(self) -> tuple[DataFile, ...]:
        """Ends all files and returns them. Raises InvalidData, LakeUnavailable."""
        return tuple(file for files in self._files.values() for file in files.close())

    def abort(self) -> None:
        """Deletes the files that were written so far. Never raises."""
        for files in self._files.values():
            files.abort()

    @property
    def checksum(self) -> int | None:
        """Checksum of all rows (`WriteResult.checksum`)."""
        return sum_of(files.checksum or 0 for files in self._files.values())

    def without_rows(self, start: int, stop: int) -> tuple[Run, ...]:
        """Returns those offsets of `[start, stop)` that have no row."""
        return self._offsets.without_rows(start, stop)


def partition_column(column: pa.Array[Any], transform: Transform[Any, Any]) -> pa.Array[Any]:
    """Returns the transformed values of a column as Iceberg stores them: times as integers."""
    if (unit := _TIME_UNITS.get(type(transform))) is not None:
        return _time(column, unit)
    if isinstance(transform, BucketTransform):
        return bucketed(column, transform.num_buckets)
    if isinstance(transform, TruncateTransform):
        return truncated(column, transform.width)
    assert isinstance(transform, IdentityTransform), transform
    return _as_stored(column)


def _as_stored(column: pa.Array[Any]) -> pa.Array[Any]:
    if pa.types.is_date32(column.type):
        return column.view(pa.int32())
    return column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column


def _time(column: pa.Array[Any], unit: str) -> pa.Array[Any]:
    """Returns the number of years, months, days or hours since 1970, rounded down."""
    own = "D" if pa.types.is_date32(column.type) else "us"
    is_null = column.is_null().to_numpy(zero_copy_only=False)
    numbers = _as_stored(column).fill_null(0).to_numpy(zero_copy_only=False).astype("int64")
    cut = numbers.astype(f"datetime64[{own}]").astype(f"datetime64[{unit}]").astype("int64").astype("int32")
    return pa.array(cut, pa.int32(), mask=is_null)


def groups_of(columns: Sequence[pa.Array[Any]], rows: int) -> Iterator[tuple[PartitionValue, npt.NDArray[np.intp] | None]]:
    """Yields each distinct value of the columns, with the positions of its rows in order; None = all rows."""
    codes = np.zeros(rows, np.int64)
    dictionaries: list[tuple[pa.Array[Any], npt.NDArray[np.int64]]] = []
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        indices = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        dictionaries.append((encoded.dictionary, indices))
        _, codes = np.unique(codes * len(encoded.dictionary) + indices, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    borders = np.flatnonzero(np.diff(codes[order])) + 1
    for places in np.split(order, borders):
        value: tuple[PartitionItem, ...] = tuple(dictionary[int(indices[places[0]])].as_py() for dictionary, indices in dictionaries)
        yield value, None if len(places) == rows else places
