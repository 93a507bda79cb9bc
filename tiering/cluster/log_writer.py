"""Splits one writer's rows into writes that the cluster accepts, and numbers them so that repeats are idempotent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from tiering.cluster.column_types import count_fields
from tiering.cluster.writable import MAX_APPEND_BYTES, AppendedRange, Rows, WritableCluster
from tiering.errors import InvalidData
from tiering.library_guards.arrow_ipc import WRITE_LIMITS
from tiering.model.tables import TablePath

_OVERHEAD_BYTES_PER_COLUMN = 512
"""Upper bound of the bytes that the stream adds to the buffers: schema, field nodes, padding."""


class LogWriter:
    """Writes to one table under one writer id. For one thread.

    The same rows in the same calls under the same id are the same writes: repeating an interrupted run from its first row, with its writer
    id, doubles no rows.
    """

    def __init__(self, cluster: WritableCluster, path: TablePath, writer_id: str) -> None:
        self._cluster = cluster
        self._path = path
        self.writer_id = writer_id
        self.sequence = 0
        """Number of the next write."""

    def append(self, rows: Rows) -> Sequence[AppendedRange]:
        """Appends all rows, with as many appends as needed. Raises the errors of `WritableCluster.append`."""
        return self._write(self._cluster.append, rows)

    def upsert(self, rows: Rows) -> Sequence[AppendedRange]:
        """Upserts all rows, with as many writes as needed. Raises the errors of `WritableCluster.upsert`."""
        return self._write(self._cluster.upsert, rows)

    def delete(self, keys: Rows) -> Sequence[AppendedRange]:
        """Deletes the rows with these keys, with as many writes as needed. Raises the errors of `WritableCluster.delete`."""
        return self._write(self._cluster.delete, keys)

    def _write(self, write: Callable[[TablePath, Rows, str, int], Sequence[AppendedRange]], rows: Rows) -> Sequence[AppendedRange]:
        ranges: list[AppendedRange] = []
        for piece in cut_rows(as_batch(rows), self._cluster.max_write_bytes):
            ranges += write(self._path, piece, self.writer_id, self.sequence)
            self.sequence += 1
        return ranges


def as_batch(rows: Rows) -> pa.RecordBatch:
    """Returns the rows as one batch."""
    if isinstance(rows, pa.RecordBatch):
        return rows
    batches = rows.to_batches()
    if len(batches) == 1:
        return batches[0]
    return pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], schema=rows.schema)  # type: ignore[attr-defined]


def cut_rows(batch: pa.RecordBatch, limit_bytes: int = MAX_APPEND_BYTES) -> Iterator[pa.RecordBatch]:
    """Yields `batch` in pieces that stay below the size limit and the row limit of one write; pieces are halved if row sizes are uneven.

    Raises InvalidData for a single row that is too large.
    """
    room = limit_bytes - _OVERHEAD_BYTES_PER_COLUMN * (1 + count_fields(batch.schema))
    if (batch.nbytes <= room and batch.num_rows <= WRITE_LIMITS.rows) or batch.num_rows == 0:
        if batch.num_rows:
            yield batch
        return
    if batch.num_rows == 1:
        raise InvalidData(f"one row has {batch.nbytes} bytes; a write may have at most {limit_bytes}")
    # Pieces have equal sizes: batches go to buckets in turn, and a short last piece would always go to the same bucket.
    pieces = max(-(-batch.nbytes // room), -(-batch.num_rows // WRITE_LIMITS.rows))
    rows = min(batch.num_rows - 1, -(-batch.num_rows // pieces))
    for start in range(0, batch.num_rows, rows):
        yield from cut_rows(batch.slice(start, rows), limit_bytes)
