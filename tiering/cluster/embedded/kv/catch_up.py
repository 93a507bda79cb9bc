"""Applies a table's log to its KV state: the records that are not applied yet, or all records after a KV snapshot if the state is empty.

The same code runs after each published write, at the restart after a crash, and after the loss of a state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import structlog

from tiering.cluster.embedded.kv.refused_records import RefusedRecord, blocking_record, changes_of_nothing
from tiering.cluster.embedded.kv.snapshot_files import StoredSnapshot, read_snapshot_files
from tiering.cluster.embedded.kv.state import KvState, first_refused
from tiering.cluster.embedded.log.log import Log
from tiering.cluster.embedded.log.segments import GAP_HINT, Segment, read_segment
from tiering.cluster.embedded.metadata.database import stored_partition
from tiering.cluster.embedded.stored_columns import ColumnsAt, Versions, as_present, columns_in, versions_of
from tiering.errors import DataCorrupt, KvSnapshotGone
from tiering.model.tables import BucketKey, BucketOffsets, ChangeType, TableInfo

REPLAY_ROWS = 262_144
"""Number of records applied in one transaction; fewer if the records are wide."""
REPLAY_BYTES = 64 * 1024 * 1024
SEGMENTS_AT_ONCE = 1_000

_log = structlog.get_logger(__name__)


@dataclass
class RecordRefused(Exception):
    """The first record of a bucket that the state cannot accept. No later record of the bucket was applied."""

    bucket: BucketKey
    offset: int
    row: pa.RecordBatch
    """The record as a single row, with its change type."""
    error: str


SnapshotsOf = Callable[[BucketKey], Sequence[StoredSnapshot]]
"""Returns the KV snapshots of a bucket, the newest first."""


def catch_up(
    state: KvState,
    table: TableInfo,
    root: Path,
    log: Log,
    snapshots_of: SnapshotsOf,
    refused: Mapping[BucketKey, Sequence[RefusedRecord]],
) -> None:
    """Applies the logs of all buckets to their ends, or up to the record at which `refused` stops a bucket. Skipped records change nothing.

    Raises RecordRefused, DataCorrupt (a damaged segment, or neither log nor snapshot reaches back far enough), duckdb.Error.
    """
    bounds = log.offsets(table.table_id)
    columns_at = partial(log.columns_at, table.table_id)
    state.follow(table, columns_at)
    applied = state.applied()
    if dropped := [bucket for bucket in applied if bucket not in bounds]:
        state.forget(dropped)
    replay = _Replay(state, table, root, columns_at)
    for bucket, ends in bounds.items():
        records = refused.get(bucket, ())
        if (blocking := blocking_record(records)) is not None:
            ends = replace(ends, log_end=blocking.offset)
        at = applied.get(bucket)
        if at == ends.log_end or (at is None and ends.log_end == 0):
            continue
        if at is None or not ends.log_start <= at <= ends.log_end:
            replay.flush()
            at = _begin(state, table, root, bucket, ends, at is not None, snapshots_of(bucket), columns_at)
        skipped = [record.offset for record in records if record.is_skipped]
        for segment in _segments(log, table.table_id, bucket, at, ends.log_end):
            replay.add(bucket, segment, max(at, segment.starting_offset), min(ends.log_end, segment.stopping_offset), skipped)
    replay.flush()


def _begin(
    state: KvState,
    table: TableInfo,
    root: Path,
    bucket: BucketKey,
    ends: BucketOffsets,
    has_rows: bool,
    snapshots: Sequence[StoredSnapshot],
    columns_at: ColumnsAt,
) -> int:
    """Loads the newest readable KV snapshot, and returns the offset from which on the log has to be replayed."""
    for snapshot in snapshots:
        if not ends.log_start <= snapshot.log_offset <= ends.log_end:
            continue
        try:
            stored = columns_in(snapshot, versions_of(table, [snapshot], columns_at))
            state.load(bucket, read_snapshot_files(root, snapshot.files, stored, table.schema, bucket), snapshot.log_offset)
        except (DataCorrupt, KvSnapshotGone) as error:
            _log.warning("kv_snapshot_unusable", table=str(table.path), bucket=str(bucket), error=str(error))
        else:
            return snapshot.log_offset
    if ends.log_start > 0:
        raise DataCorrupt(
            f"the rows of {table.path} bucket {bucket} cannot be restored: its log starts at {ends.log_start}, "
            "and no KV snapshot is readable",
            hint="Restore the cluster's folder from a backup, or drop the table and load it again.",
            table_id=table.table_id,
            bucket=bucket,
        )
    if has_rows:
        state.load(bucket, (), 0)
    return 0


def _segments(log: Log, table_id: int, bucket: BucketKey, start: int, stop: int) -> Iterator[Segment]:
    """Yields the segments of the range. Raises DataCorrupt if there is a gap between them."""
    while start < stop:
        page = log.segments(table_id, bucket, start, stop, SEGMENTS_AT_ONCE)
        for segment in page:
            if not segment.starting_offset <= start < segment.stopping_offset:
                break
            yield segment
            start = segment.stopping_offset
        if not page or start != page[-1].stopping_offset:
            raise DataCorrupt(
                f"the log of bucket {bucket} has no segment for offset {start}", hint=GAP_HINT, table_id=table_id, bucket=bucket
            )


def read_changes(root: Path, segment: Segment, versions: Versions, schema: pa.Schema, bucket: BucketKey) -> pa.RecordBatch:
    """Returns the records of a segment of a primary-key table with the columns `schema`, then the change type. Raises the errors of
    `read_segment`.
    """
    stored = columns_in(segment, versions)
    return as_present(read_segment(root, segment, stored, bucket, changes=True), stored, schema)


@dataclass
class _Replay:
    """Collects records and applies them together."""

    state: KvState
    table: TableInfo
    root: Path
    columns_at: ColumnsAt
    batches: list[tuple[BucketKey, int, pa.RecordBatch]] = field(default_factory=list)
    """Bucket, offset of the first record, and rows of each batch."""
    reached: dict[BucketKey, int] = field(default_factory=dict)
    rows: int = 0
    size_bytes: int = 0

    def add(self, bucket: BucketKey, segment: Segment, start: int, stop: int, skipped: Sequence[int]) -> None:
        """Adds the records `[start, stop)` of a segment."""
        batch = read_changes(self.root, segment, versions_of(self.table, [segment], self.columns_at), self.table.schema, bucket)
        batch = changes_of_nothing(batch, [offset - segment.starting_offset for offset in skipped])
        batch = batch.slice(start - segment.starting_offset, stop - start)
        self.batches.append((bucket, start, batch))
        self.reached[bucket] = stop
        self.rows += batch.num_rows
        self.size_bytes += batch.nbytes
        if self.rows >= REPLAY_ROWS or self.size_bytes >= REPLAY_BYTES:
            self.flush()

    def flush(self) -> None:
        if not self.batches:
            return
        whole = pa.Table.from_batches([batch for _, _, batch in self.batches])
        counts = [batch.num_rows for _, _, batch in self.batches]
        partitions = [stored_partition(bucket) for bucket, _, _ in self.batches]
        places: dict[str, pa.Array[Any]] = {
            "p": pa.array(np.repeat(np.array(partitions, dtype=np.int64), counts)),
            "b": pa.array(np.repeat(np.array([bucket.bucket_id for bucket, _, _ in self.batches], dtype=np.int32), counts)),
        }
        kinds = whole.column(whole.num_columns - 1).to_numpy()
        try:
            self.state.apply(whole.select(self.table.schema.names), kinds, pa.Table.from_pydict(places), dict(self.reached))
        except duckdb.OutOfMemoryException:
            raise
        except duckdb.Error as error:
            if (refused := self._refused()) is None:
                raise  # the state is damaged, not a record
            raise refused from error
        self.batches.clear()
        self.reached.clear()
        self.rows = self.size_bytes = 0

    def _refused(self) -> RecordRefused | None:
        """Returns the first record that no KV state accepts; None if all records are acceptable."""
        for bucket, start, batch in self.batches:
            kinds = batch.column(batch.num_columns - 1).to_numpy()
            lasting = np.flatnonzero(kinds != ChangeType.UPDATE_BEFORE)
            rows = pa.Table.from_batches([batch.take(lasting)])
            if (refusal := first_refused(rows)) is not None:
                position = int(lasting[refusal[0]])
                return RecordRefused(bucket, start + position, batch.slice(position, 1), refusal[1])
        return None
