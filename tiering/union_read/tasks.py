"""The work of a Spark task of a union read: the readers of one task, and the rows that they yield. Imports neither gRPC nor a catalog."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tiering.model.reading.conditions import Condition, columns_of
from tiering.union_read.pushdown.row_filter import are_applicable, filtered
from tiering.union_read.readers import RowReader, row_count_of

TASK_BYTES = 64 * 1024 * 1024
"""Bytes that one task reads: a second or two of work, so that the cost of a task does not matter and a lost task is repeated quickly."""


@dataclass(frozen=True)
class ReadTask:
    """The readers of one task. Can be pickled."""

    readers: tuple[RowReader, ...]
    columns: tuple[str, ...]
    conditions: tuple[Condition, ...] = ()
    """Rows for which these are not true may be left out."""
    limit: int | None = None
    """The number of rows after which the task ends; None = all."""

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows of all readers with the columns of the scan."""
        filtered_columns = frozenset().union(*(columns_of(condition) for condition in self.conditions))
        read_columns = [*self.columns, *sorted(filtered_columns - set(self.columns))]
        remaining = self.limit
        for reader in self.readers:
            for batch in reader.read(read_columns) if remaining != 0 else ():
                rows = filtered(batch, self.conditions)
                # A condition that was not applied may be false for these rows, so they do not count.
                if remaining is not None and are_applicable(self.conditions, batch.schema):
                    rows = rows.slice(0, remaining)
                    remaining -= rows.num_rows
                if rows.num_rows:
                    yield rows if len(read_columns) == len(self.columns) else rows.select(list(self.columns))
                if remaining == 0:
                    return


def pack_tasks(
    readers: Sequence[RowReader], columns: Sequence[str], conditions: Sequence[Condition] = (), limit: int | None = None
) -> list[ReadTask]:
    """Puts neighbouring readers into one task up to TASK_BYTES; a larger reader has a task of its own.

    With `limit`, returns only as many tasks as needed, as far as the readers can tell their number of rows.
    """
    tasks: list[ReadTask] = []
    pending: list[RowReader] = []
    size = 0

    def end_task() -> None:
        tasks.append(ReadTask(tuple(pending), tuple(columns), tuple(conditions), limit))

    for reader in readers if limit is None or conditions else _first_readers(readers, limit):
        if pending and size + reader.size_bytes > TASK_BYTES:
            end_task()
            pending, size = [], 0
        pending.append(reader)
        size += reader.size_bytes
    if pending:
        end_task()
    return tasks


def _first_readers(readers: Sequence[RowReader], limit: int) -> Iterator[RowReader]:
    """Yields readers until their rows reach the limit for certain."""
    rows = 0
    for reader in readers:
        if rows >= limit:
            return
        yield reader
        rows += row_count_of(reader) or 0
