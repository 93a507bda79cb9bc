"""Reads of tables through a running service, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tiering.model.reading.scans import ReadScan
from tiering.model.tables import BucketKey, TablePath
from tiering.union_read.changelog import ChangelogRows
from tiering.union_read.primary_key.key_merge import MergedRows, SnapshotRows
from tiering.union_read.read_client import OpenedRead, ReadClient
from tiering.union_read.readers import LogRows, RowReader
from tiering.union_read.task_codec import decode
from tiering.union_read.tasks import ReadTask
from tiering.wire.channel import Connection

WHOLE_TABLE = ReadScan()


@dataclass(frozen=True)
class ServedRead:
    """A read that is open at a service."""

    client: ReadClient
    opened: OpenedRead

    def tasks(self, scan: ReadScan = WHOLE_TABLE) -> list[ReadTask]:
        """Returns the tasks of a scan, as an executor gets them."""
        return [decode(data) for data in self.client.plan(self.opened.ticket, scan)[0]]

    def rows(self, scan: ReadScan = WHOLE_TABLE) -> list[dict[str, Any]]:
        """Returns the rows of a scan, in any order."""
        return [row for task in self.tasks(scan) for batch in task.read() for row in batch.to_pylist()]

    def count(self, scan: ReadScan = WHOLE_TABLE) -> int | None:
        """Returns the number of rows that the service knows without reading them."""
        return self.client.count(self.opened.ticket, scan)

    def cluster_buckets(self, scan: ReadScan) -> set[BucketKey]:
        """Returns the buckets that a scan reads from the cluster."""
        return {bucket for task in self.tasks(scan) for reader in task.readers for bucket in _buckets(reader)}


def _buckets(reader: RowReader) -> Iterator[BucketKey]:
    match reader:
        case LogRows() | ChangelogRows() | SnapshotRows():
            yield reader.reader.split.bucket
        case MergedRows():
            for changes in reader.changes:
                yield changes.split.bucket
            for base in reader.base:
                yield from _buckets(base)


@contextmanager
def served_read(uri: str, path: TablePath) -> Iterator[ServedRead]:
    """Opens a read of the table, and closes it at the end."""
    with Connection(uri) as connection:
        client = ReadClient(connection, "tests")
        opened = client.open(path)
        try:
            yield ServedRead(client, opened)
        finally:
            client.close(opened.ticket)
