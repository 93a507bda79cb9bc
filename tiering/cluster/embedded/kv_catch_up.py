"""Brings a KV state up to its table's log: it replays what it has not applied, beginning at a KV snapshot where it has nothing.

So one path serves the write that was just published, the restart after a crash and the state that was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import structlog

from tiering.cluster.embedded.kv_state import KvState
from tiering.cluster.embedded.log import Log
from tiering.cluster.embedded.metadata import NO_PARTITION
from tiering.cluster.embedded.segments import Segment, read_segment
from tiering.cluster.embedded.snapshot_files import StoredSnapshot, read_snapshot_files
from tiering.errors import DataCorrupt, KvSnapshotGone
from tiering.model import BucketKey, BucketOffsets, TableInfo

REPLAY_ROWS = 262_144
"""Records applied in one transaction; fewer if they are wide."""
REPLAY_BYTES = 64 * 1024 * 1024
SEGMENTS_AT_ONCE = 1_000

_log = structlog.get_logger(__name__)

SnapshotsOf = Callable[[BucketKey], Sequence[StoredSnapshot]]
"""The KV snapshots of a bucket, the newest first."""


def catch_up(state: KvState, table: TableInfo, root: Path, log: Log, snapshots_of: SnapshotsOf) -> Mapping[BucketKey, int]:
    """The ends of all buckets' logs, all applied now.

    Raises DataCorrupt (a segment, or neither log nor snapshot reaches back far enough), duckdb.Error.
    """
    bounds = log.offsets(table.table_id)
    state.widen(table.schema)
    applied = state.applied()
    if gone := [bucket for bucket in applied if bucket not in bounds]:
        state.forget(gone)
    replay = _Replay(state, table, root)
    for bucket, ends in bounds.items():
        at = applied.get(bucket)
        if at == ends.log_end or (at is None and ends.log_end == 0):
            continue
        if at is None or not ends.log_start <= at <= ends.log_end:
            replay.flush()
            at = _begin(state, table, root, bucket, ends, at is not None, snapshots_of(bucket))
        for segment in _segments(log, table.table_id, bucket, at, ends.log_end):
            replay.add(bucket, segment)
    replay.flush()
    return {bucket: ends.log_end for bucket, ends in bounds.items()}


def _begin(
    state: KvState,
    table: TableInfo,
    root: Path,
    bucket: BucketKey,
    ends: BucketOffsets,
    has_rows: bool,
    snapshots: Sequence[StoredSnapshot],
) -> int:
    """Loads the newest KV snapshot that can be read; the offset from which the log has to be replayed."""
    for snapshot in snapshots:
        if not ends.log_start <= snapshot.log_offset <= ends.log_end:
            continue
        try:
            state.load(bucket, read_snapshot_files(root, snapshot.files, table.schema, snapshot.columns, bucket), snapshot.log_offset)
        except (DataCorrupt, KvSnapshotGone) as error:
            _log.warning("kv_snapshot_unusable", table=str(table.path), bucket=str(bucket), error=str(error))
        else:
            return snapshot.log_offset
    if ends.log_start > 0:
        raise DataCorrupt(
            f"the rows of {table.path} bucket {bucket} cannot be restored: its log starts at {ends.log_start}, "
            "and no KV snapshot can be read",
            hint="Restore the cluster's folder from a backup, or drop the table and load it anew.",
            table_id=table.table_id,
            bucket=bucket,
        )
    if has_rows:
        state.load(bucket, (), 0)
    return 0


def _segments(log: Log, table_id: int, bucket: BucketKey, start: int, stop: int) -> Iterator[Segment]:
    """Those of the range, which must be without a hole. Raises DataCorrupt."""
    while start < stop:
        page = log.segments(table_id, bucket, start, stop, SEGMENTS_AT_ONCE)
        for segment in page:
            if segment.starting_offset != start:
                break
            yield segment
            start = segment.stopping_offset
        if not page or start != page[-1].stopping_offset:
            raise DataCorrupt(f"the log of bucket {bucket} has no segment for offset {start}", table_id=table_id, bucket=bucket)


@dataclass
class _Replay:
    """Records that wait to be applied together."""

    state: KvState
    table: TableInfo
    root: Path
    batches: list[tuple[BucketKey, pa.RecordBatch]] = field(default_factory=list)
    reached: dict[BucketKey, int] = field(default_factory=dict)
    rows: int = 0
    size_bytes: int = 0

    def add(self, bucket: BucketKey, segment: Segment) -> None:
        batch = read_segment(self.root, segment, self.table.schema, bucket, changes=True)
        self.batches.append((bucket, batch))
        self.reached[bucket] = segment.stopping_offset
        self.rows += batch.num_rows
        self.size_bytes += batch.nbytes
        if self.rows >= REPLAY_ROWS or self.size_bytes >= REPLAY_BYTES:
            self.flush()

    def flush(self) -> None:
        if not self.batches:
            return
        whole = pa.Table.from_batches([batch for _, batch in self.batches])
        counts = [batch.num_rows for _, batch in self.batches]
        partitions = [NO_PARTITION if bucket.partition_id is None else bucket.partition_id for bucket, _ in self.batches]
        places: dict[str, pa.Array[Any]] = {
            "p": pa.array(np.repeat(np.array(partitions, dtype=np.int64), counts)),
            "b": pa.array(np.repeat(np.array([bucket.bucket_id for bucket, _ in self.batches], dtype=np.int32), counts)),
        }
        kinds = whole.column(whole.num_columns - 1).to_numpy()
        self.state.apply(whole.select(self.table.schema.names), kinds, pa.Table.from_pydict(places), dict(self.reached))
        self.batches.clear()
        self.reached.clear()
        self.rows = self.size_bytes = 0
