"""Sorts rows by columns as Iceberg's sort orders ask for (spec, "Sorting"). Pure.

Texts and bytes are compared byte by byte, and false comes before true. -0.0 comes before 0.0. NaN, with either sign, comes after all
numbers, as in Java, whose engines read the files. Rows that are equal in all columns keep their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tiering.lake.schema.file_order import SortEntry

_Column: TypeAlias = "pa.ChunkedArray[Any]"
_Direction = Literal["ascending", "descending"]


def sorted_rows(rows: pa.Table, keys: Sequence[SortEntry]) -> pa.Table:
    """Returns the rows in the order of `keys`."""
    return rows.take(order_of(rows, keys))


def merged_rows(streams: Sequence[Iterator[pa.RecordBatch]], keys: Sequence[SortEntry], rows_at_once: int) -> Iterator[pa.RecordBatch]:
    """Yields the rows of all streams, of which each is in the order of `keys`, in that order. They are complete even if a stream is not.

    Memory: for each stream `rows_at_once` and the rows of one batch."""
    heads = [head for head in map(_Head, streams) if not head.is_at_end]
    while heads:
        for head in heads:
            head.fill(rows_at_once)
        rows = pa.concat_tables([head.rows for head in heads])
        order, stops = order_of(rows, keys), np.cumsum([head.rows.num_rows for head in heads])
        ranks = np.empty(rows.num_rows, np.int64)
        ranks[order] = np.arange(rows.num_rows)
        lasts = [ranks[stop - 1] for head, stop in zip(heads, stops, strict=True) if not head.is_at_end]
        count = int(min(lasts, default=rows.num_rows - 1)) + 1  # rows behind the last one of a stream may come before further ones
        yield from rows.take(order[:count]).combine_chunks().to_batches()
        for head, remaining in zip(heads, np.split(ranks >= count, stops[:-1]), strict=True):
            head.rows = head.rows.filter(pa.array(remaining))
        heads = [head for head in heads if head.rows.num_rows or not head.is_at_end]


class _Head:
    """The next rows of a stream."""

    def __init__(self, stream: Iterator[pa.RecordBatch]) -> None:
        first = next(stream, None)
        self._stream = stream
        self.is_at_end = first is None
        self.rows = pa.table({}) if first is None else pa.Table.from_batches([first])

    def fill(self, least: int) -> None:
        """Adds rows until there are at least `least`, or the stream is at its end."""
        while self.rows.num_rows < least and not self.is_at_end:
            batch = next(self._stream, None)
            self.is_at_end = batch is None
            if batch is not None:
                self.rows = pa.concat_tables([self.rows, pa.Table.from_batches([batch])])


def order_of(rows: pa.Table, keys: Sequence[SortEntry]) -> npt.NDArray[np.uint64]:
    """Returns the positions of the rows in the order of `keys`, which has at least one."""
    parts = [part for key in keys for part in _parts(rows.column(key.column), key)]
    names = [str(number) for number in range(len(parts))]
    values = pa.table([values for values, _ in parts], names=names)
    directions = [(name, direction) for name, (_, direction) in zip(names, parts, strict=True)]
    return cast("npt.NDArray[np.uint64]", pc.sort_indices(values, sort_keys=directions).to_numpy())


def _parts(column: _Column, key: SortEntry) -> Iterator[tuple[_Column, _Direction]]:
    """Yields columns that Arrow sorts, each with its direction: whether a value is there, and the value."""
    if column.null_count:
        yield cast("_Column", pc.is_null(column)), "descending" if key.nulls_first else "ascending"
    yield _comparable(column), "descending" if key.descending else "ascending"


def _comparable(column: _Column) -> _Column:
    """Returns values that Arrow compares as the module says."""
    kind = column.type
    if pa.types.is_boolean(kind):
        return column.cast(pa.uint8())
    if pa.types.is_fixed_size_binary(kind):
        return column.cast(pa.binary())
    if pa.types.is_float32(kind):
        return _bits(column, np.int32(np.iinfo(np.int32).max))
    return _bits(column, np.int64(np.iinfo(np.int64).max)) if pa.types.is_float64(kind) else column


def _bits(column: _Column, largest: np.int32 | np.int64) -> _Column:
    """Returns the bits of floats as integers in their order. NULL becomes any integer."""
    values = cast(Any, column).fill_null(0).to_numpy()
    bits = np.where(np.isnan(values), np.array(np.nan, values.dtype), values).view(largest.dtype)
    return pa.chunked_array([pa.array(np.where(bits < 0, bits ^ largest, bits))])
