"""Reads the rows of a lake table on executors, for reads that join the lake with the log (`tiering.union_read`).

An optional ability of a lake, like those of `maintenance` and `file_lists`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

import pyarrow as pa

from tiering.lake.base import LakeView
from tiering.model.tables import TableInfo


@runtime_checkable
class LakeRowReader(Protocol):
    """Reads the live rows of some lake files on an executor. Can be pickled; opens nothing before `read`."""

    @property
    def size_bytes(self) -> int:
        """The size of the files."""

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows with the columns of `TableInfo.schema`, in any order. A column that the files lack is null.

        Raises LakeUnavailable, DataCorrupt, ForbiddenLocation, SchemaDrift (a value does not fit the type of its column).
        """


@runtime_checkable
class RowScan(Protocol):
    """A lake whose rows can be read on executors."""

    def row_readers(self, table: TableInfo, view: LakeView) -> Sequence[LakeRowReader]:
        """Returns the readers of all live rows of a log table at the head of `view`.

        Raises LakeUnavailable, SchemaDrift (a file that no reader of this version can read).
        """
