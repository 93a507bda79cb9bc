"""Readers of a union read, which executors run: they yield the rows of one part of a table. They can be pickled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa

from tiering.cluster.base import SplitReader
from tiering.cluster.capabilities import read_columns


class RowReader(Protocol):
    """Reads a part of the rows of a table on an executor. Can be pickled; opens nothing before `read`."""

    @property
    def size_bytes(self) -> int:
        """Approximate number of bytes that it reads."""

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yields the rows with these columns of the source table, in this order and in the source's types.

        Raises LakeUnavailable, ClusterUnavailable, DataCorrupt, LogTruncated, SchemaDrift (a value does not fit the type of its column).
        """


@runtime_checkable
class CountedRows(Protocol):
    """A `RowReader` that can tell its number of rows without reading them."""

    @property
    def row_count(self) -> int | None:
        """The number of rows that it yields; None = unknown."""

    @property
    def partition_name(self) -> str | None:
        """The partition of all its rows; None = unknown, or the table has no partitions."""


@runtime_checkable
class OneBucketRows(Protocol):
    """A `RowReader` whose rows may all be of one bucket."""

    @property
    def bucket_id(self) -> int | None:
        """The bucket; None = the rows may be of any bucket."""


def row_count_of(reader: RowReader) -> int | None:
    """Returns the number of rows that the reader yields; None = unknown."""
    return reader.row_count if isinstance(reader, CountedRows) else None


@dataclass(frozen=True)
class LogRows:
    """The rows of a range of a log table's log. Implements `RowReader` and `CountedRows`."""

    reader: SplitReader
    size_bytes: int
    row_count: int | None = None

    @property
    def partition_name(self) -> str | None:
        return self.reader.split.partition_name

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from read_columns(self.reader, columns)
