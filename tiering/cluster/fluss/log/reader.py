"""The executor side of a log split: reads it from the leader of its bucket and from remote segments.

It serves both kinds of tables: the decoder is faster than pyfluss's scanner of log tables, and reads changelogs as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import pyarrow as pa

from tiering.cluster.capabilities import uncounted
from tiering.cluster.fluss.log.bucket_log import PATIENCE_S, BucketLog
from tiering.cluster.fluss.log.fetch import ahead, log_chunks
from tiering.cluster.fluss.log.rows import LogChunk, RowFormat, rows_of
from tiering.cluster.fluss.settings import FlussConnection
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.errors import InvalidArgument, LogTruncated, SourceChanged
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import BucketOffsets, TableInfo


@dataclass(frozen=True)
class FlussLogSplitReader:
    """Implements `SplitReader`, `CountingReader`, `ProjectingReader` and `ResumableReader`. It can be pickled: it contains addresses, not a
    connection.
    """

    connection: FlussConnection
    table_id: int
    split: TieringLogSplit
    row_format: RowFormat
    remote_properties: Mapping[str, str] = field(default_factory=dict)
    """Properties for access to remote segments, without secrets (`remote_files.py`)."""
    patience_s: float = PATIENCE_S

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yields the records. Offsets without records are left out."""
        return self.read_counted(uncounted)

    def read_counted(self, count: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
        """Yields the records, and passes the sizes of their record batches, in the form of servers and remote segments, to `count`."""
        return self._rows(self.row_format, count)

    def read_columns(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return self._rows(replace(self.row_format, columns=tuple(columns)), uncounted)

    def from_offset(self, offset: int) -> FlussLogSplitReader:
        """Returns a reader of the records from `offset` on (`ResumableReader`)."""
        return replace(self, split=replace(self.split, starting_offset=offset))

    def _rows(self, row_format: RowFormat, count: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
        split = self.split
        log = BucketLog(executor_client(self.connection), split.table_path, self.table_id, split.bucket, self.patience_s)
        chunks = log_chunks(log, split.starting_offset, split.stopping_offset, self.remote_properties)
        yield from rows_of(_counted(ahead(chunks), count), split, row_format)


def _counted(chunks: Iterator[LogChunk], count: Callable[[int], None]) -> Iterator[LogChunk]:
    for chunk in chunks:
        count(sum(header.size for header in chunk.headers))
        yield chunk


def open_log_reader(
    connection: FlussConnection,
    table: TableInfo,
    split: TieringLogSplit,
    bounds: BucketOffsets | None,
    schemas: Mapping[int, bytes],
    remote_properties: Mapping[str, str],
) -> FlussLogSplitReader:
    """Returns the reader of `split`; `bounds` are those of its bucket's log, None = the bucket does not exist.

    Raises LogTruncated, InvalidArgument (a range beyond the log or the table's buckets), SourceChanged (the partition was dropped).
    """
    start, stop = split.starting_offset, split.stopping_offset
    if bounds is None and split.bucket.partition_id is not None:
        name = split.partition_name or split.bucket.partition_id
        raise SourceChanged(f"the partition {name} of {table.path} was dropped", table_id=table.table_id, bucket=split.bucket)
    if bounds is None or not 0 <= start <= stop <= bounds.log_end:
        end = "which does not exist" if bounds is None else f"whose log ends at {bounds.log_end}"
        raise InvalidArgument(f"cannot read [{start}, {stop}) of {table.path} bucket {split.bucket}, {end}", table_id=table.table_id)
    if start < bounds.log_start and start < stop:
        raise LogTruncated(
            f"the log of {table.path} bucket {split.bucket} starts at offset {bounds.log_start}, after {start}", table_id=table.table_id
        )
    return FlussLogSplitReader(connection, table.table_id, split, RowFormat.of(table, schemas), remote_properties)


def executor_client(connection: FlussConnection) -> FlussClient:
    """Returns this process's client of a cluster, which lives as long as the process.

    Spark's Python workers are forked, and a worker must not use the sockets and locks of its parent process.
    """
    return _client_of(connection, os.getpid())


@cache  # also keeps the clients of the parent process, so that their sockets are never closed here
def _client_of(connection: FlussConnection, _process: int) -> FlussClient:
    return FlussClient(connection)
