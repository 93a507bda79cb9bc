"""The last check of rows before they become files of one bucket: partition, bucket, growing offsets, and offsets within the split.

A wrong row would be doubled or lost permanently once it is committed, and readers that skip files by partition value would miss rows of a
wrongly hashed key. So the guard checks where it costs next to nothing: both ends of every batch, and the hash of the first rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tiering.errors import DataCorrupt
from tiering.lake.base import WriterInitContext
from tiering.model.tables import BUCKET_COLUMN, OFFSET_COLUMN, SNAPSHOT_OFFSET, ChangeType

HASHED_ROWS = 1_024
"""Number of rows of the first batch whose bucket is computed again."""

_CHANGE_TYPES = pa.array([ChangeType.INSERT, ChangeType.UPDATE_BEFORE, ChangeType.UPDATE_AFTER, ChangeType.DELETE], pa.int8())
_TRUE, _FALSE = pa.scalar(True), pa.scalar(False)


@dataclass(frozen=True)
class RowPlaces:
    """The places to which a split's rows belong. `partition`: the value of each partition column in all of the rows. `hashes`: key columns,
    and the lake format's function that computes buckets from their values."""

    partition: Sequence[tuple[str, pa.Scalar[Any]]] = ()
    hashes: Sequence[tuple[Sequence[str], Callable[[Sequence[pa.Array[Any]]], npt.NDArray[np.int32]]]] = ()


class RowGuard:
    """Checks one split's rows. Raises DataCorrupt that names bucket and offsets."""

    def __init__(self, context: WriterInitContext, places: RowPlaces) -> None:
        self._context = context
        self._places = places
        self._hashed = False
        self._first: int | None = None
        self._last: int | None = None

    def check(self, batch: pa.RecordBatch) -> None:
        """Checks a batch in the lake's columns. It must not be empty."""
        self._check_places(batch)
        self._check_growth(batch)

    def _check_places(self, batch: pa.RecordBatch) -> None:
        buckets, offsets = batch.column(BUCKET_COLUMN), batch.column(OFFSET_COLUMN)
        for position in (0, batch.num_rows - 1):
            if buckets[position].as_py() != self._context.bucket.bucket_id:
                raise self._corrupt(f"a row at offset {offsets[position]} says that it is of bucket {buckets[position]}")
            for name, value in self._places.partition:
                if not batch.column(name)[position].equals(value):
                    raise self._corrupt(f"a row at offset {offsets[position]} has {name!r} {batch.column(name)[position]}, not {value}")
        if not self._hashed:
            self._hashed = True
            self._check_hashes(batch.slice(0, HASHED_ROWS))

    def _check_growth(self, batch: pa.RecordBatch) -> None:
        offsets = batch.column(OFFSET_COLUMN)
        first, last = offsets[0].as_py(), offsets[batch.num_rows - 1].as_py()
        if last - first < batch.num_rows - 1 or (self._last is not None and first <= self._last):
            raise self._corrupt(f"{batch.num_rows} rows have the offsets {first} to {last}, after {self._last}")
        self._first = first if self._first is None else self._first
        self._last = last

    def check_range(self, starting_offset: int, reached_offset: int) -> None:
        """Raises DataCorrupt unless all rows are in `[starting_offset, reached_offset)`."""
        if self._first is None or self._last is None:
            return
        if self._first < starting_offset or self._last >= reached_offset:
            raise self._corrupt(f"rows have the offsets {self._first} to {self._last}, outside of [{starting_offset}, {reached_offset})")

    def _check_hashes(self, batch: pa.RecordBatch) -> None:
        for names, bucket_ids in self._places.hashes:
            columns = [batch.column(name) for name in names]
            if any(column.null_count for column in columns) or (bucket_ids(columns) != self._context.bucket.bucket_id).any():
                raise self._corrupt(f"a key in column {', '.join(map(repr, names))} does not hash to this bucket")

    def _corrupt(self, complaint: str) -> DataCorrupt:
        context = self._context
        return DataCorrupt(
            f"the log of bucket {context.bucket} of {context.table.path} returned wrong rows: {complaint}",
            hint="This round committed nothing. Is the log damaged?",
            table_path=context.table.path,
            bucket=context.bucket,
        )


class ChangeGuard(RowGuard):
    """Checks what `RowGuard` checks, and that each row of a primary-key table has a key and a known change type.

    Rows of a KV snapshot (`+I` at offset -1) come before all others. Rows of the log have growing offsets.
    """

    def check_changes(self, batch: pa.RecordBatch, changes: pa.Array[Any], keys: Sequence[str]) -> None:
        """Checks a batch in the lake's columns, which must not be empty, and its change types. DataCorrupt names the first wrong row."""
        offsets = batch.column(OFFSET_COLUMN)
        for name in keys:
            if batch.column(name).null_count:
                wrong = batch.column(name).is_null().index(_TRUE).as_py()
                raise self._corrupt(f"the row at offset {offsets[wrong]} has no value in the key column {name!r}")
        is_known = pc.is_in(changes, value_set=_CHANGE_TYPES)
        if (wrong := is_known.index(_FALSE).as_py()) >= 0:
            raise self._corrupt(f"the row at offset {offsets[wrong]} has the change type {changes[wrong]}, which no primary-key table has")
        self._check_places(batch)
        if offsets[0].as_py() == SNAPSHOT_OFFSET:
            self._check_snapshot(offsets, changes)
        else:
            self._check_growth(batch)

    def _check_snapshot(self, offsets: pa.Array[Any], changes: pa.Array[Any]) -> None:
        if self._last is not None:
            raise self._corrupt(f"rows of a KV snapshot came after the offset {self._last} of the log")
        if not (np.all(offsets.to_numpy() == SNAPSHOT_OFFSET) and np.all(changes.to_numpy() == ChangeType.INSERT)):
            raise self._corrupt("a KV snapshot holds rows with an offset, or other than inserts")
