"""The fresh rows of data tables in a statement: the moment of each table, and the rows of its log part as Arrow.

DuckDB reads the lake part from the lake's files itself (`relations`). It merges both parts: a key that the log changes hides its lake row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Protocol

import pyarrow as pa

from tiering.model.reading.scans import ReadScan
from tiering.model.tables import TableInfo, TablePath

CHUNK_BYTES = 16 * 1024 * 1024
"""Bytes of rows that are passed to DuckDB at once, so that many small segments cost little and memory stays bounded."""


class FreshRead(Protocol):
    """A read of one table whose moment is fixed."""

    @property
    def table(self) -> TableInfo:
        """The table at the moment of the read."""

    @property
    def lake_snapshot_id(self) -> int | None:
        """The lake snapshot of the read; None without a lake copy."""

    @property
    def lake_mark(self) -> int | None:
        """`ReadMoment.lake_mark` of the read."""

    @property
    def lake_rows_are_merged(self) -> bool:
        """Whether the reader of ROWS merges the lake rows. Otherwise they count unless CHANGED_KEYS has their key."""

    def rows(self, scan: ReadScan) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a scan, with its columns in its order. Raises the errors of `union_read.plan.plan_scan` and of its readers."""


OpenRead = Callable[[TablePath], AbstractContextManager[FreshRead]]
"""Fixes the moment of a read as of now. Raises the errors of `union_read.plan.open_read`."""


class StatementReads:
    """The reads of one statement. All uses of a table in the statement have one moment. Closes the reads at its end."""

    def __init__(self, open_read: OpenRead) -> None:
        self._open_read = open_read
        self._reads: dict[TablePath, FreshRead] = {}
        self._opened = ExitStack()

    def __enter__(self) -> StatementReads:
        return self

    def __exit__(self, *error: object) -> None:
        self._opened.close()

    def open(self, path: TablePath) -> FreshRead:
        """Returns the read of a table. The first call fixes its moment."""
        if path not in self._reads:
            self._reads[path] = self._opened.enter_context(self._open_read(path))
        return self._reads[path]

    def opened(self, path: TablePath) -> FreshRead | None:
        """Returns the read of a table if the statement reads the table fresh."""
        return self._reads.get(path)


def chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Joins batches to tables of about CHUNK_BYTES. Batches without rows are left out."""
    pending: list[pa.RecordBatch] = []
    size_bytes = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        pending.append(batch)
        size_bytes += batch.nbytes
        if size_bytes >= CHUNK_BYTES:
            yield pa.Table.from_batches(pending)
            pending, size_bytes = [], 0
    if pending:
        yield pa.Table.from_batches(pending)
