"""The work of a Spark task of a union read: the readers of one task, and the rows that they yield. Imports neither gRPC nor a catalog."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tiering.union_read.readers import RowReader

TASK_BYTES = 64 * 1024 * 1024
"""Bytes that one task reads: a second or two of work, so that the cost of a task does not matter and a lost task is repeated quickly."""


@dataclass(frozen=True)
class ReadTask:
    """The readers of one task. Can be pickled."""

    readers: tuple[RowReader, ...]
    columns: tuple[str, ...]

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows of all readers with the columns of the scan."""
        for reader in self.readers:
            yield from reader.read(self.columns)


def pack_tasks(readers: Sequence[RowReader], columns: Sequence[str]) -> list[ReadTask]:
    """Puts neighbouring readers into one task up to TASK_BYTES; a larger reader has a task of its own."""
    tasks: list[ReadTask] = []
    pending: list[RowReader] = []
    size = 0
    for reader in readers:
        if pending and size + reader.size_bytes > TASK_BYTES:
            tasks.append(ReadTask(tuple(pending), tuple(columns)))
            pending, size = [], 0
        pending.append(reader)
        size += reader.size_bytes
    return [*tasks, ReadTask(tuple(pending), tuple(columns))] if pending else tasks
