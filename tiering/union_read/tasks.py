"""The work of a Spark task of a union read: the readers of one task, and the rows that they yield. Imports neither gRPC nor a catalog."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tiering.cluster.base import SplitReader
from tiering.lake.file_lists import LakeRowReader
from tiering.union_read.plan import SizedReader

TASK_BYTES = 64 * 1024 * 1024
"""Bytes that one task reads: a second or two of work, so that the cost of a task does not matter and a lost task is repeated quickly."""


@dataclass(frozen=True)
class ReadTask:
    """The readers of one task. Can be pickled."""

    readers: tuple[LakeRowReader | SplitReader, ...]

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yields the rows of all readers with these columns of the table, in this order."""
        for reader in self.readers:
            for batch in reader.read():
                yield batch.select(list(columns))


def pack_tasks(readers: Sequence[SizedReader]) -> list[ReadTask]:
    """Puts neighbouring readers into one task up to TASK_BYTES; a larger reader has a task of its own."""
    tasks: list[ReadTask] = []
    pending: list[LakeRowReader | SplitReader] = []
    size = 0
    for sized in readers:
        if pending and size + sized.size_bytes > TASK_BYTES:
            tasks.append(ReadTask(tuple(pending)))
            pending, size = [], 0
        pending.append(sized.reader)
        size += sized.size_bytes
    return [*tasks, ReadTask(tuple(pending))] if pending else tasks
