"""Log retention: moves the start of a log behind old segments that are not needed any more (`table.log.ttl`, as in Fluss).

Only whole segments older than the ttl are cut. For a lake-enabled table they must be in the lake. For a primary-key table they must be
before the oldest kept KV snapshot, because the later log is needed to restore the rows, or to continue from the snapshot; a bucket without
a snapshot is not cut. No log of a lake-enabled table is cut unless the coordinator has confirmed the lake table recently (`maintenance`). A
small file beside the segments lets a reader distinguish cut segments from damage.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import sqlalchemy as sa

from tiering.cluster.embedded.log.segments import log_starts_file
from tiering.cluster.embedded.metadata.database import bucket_key, buckets, in_bucket, segments
from tiering.cluster.embedded.metadata.lake_record import read_lake_record
from tiering.cluster.embedded.metadata.snapshot_rows import oldest_offsets
from tiering.files.durable_files import sync_folder, write_whole
from tiering.instants import to_microseconds
from tiering.model.tables import BucketKey, TableInfo, TableType


@dataclass(frozen=True)
class Cut:
    """The new start of one bucket's log."""

    bucket: BucketKey
    log_start: int


def plan_cuts(connection: sa.Connection, table: TableInfo, ttl_ms: int, now: datetime) -> list[Cut]:
    """Returns the buckets whose log can be cut, with their new starts."""
    old = to_microseconds(now - timedelta(milliseconds=ttl_ms))
    tiered = read_lake_record(connection, table.table_id)
    snapshots = oldest_offsets(connection, table.table_id) if table.table_type is TableType.PRIMARY_KEY else {}
    cuts = []
    for row in connection.execute(sa.select(buckets).where(buckets.c.table_id == table.table_id, buckets.c.log_end > buckets.c.log_start)):
        bucket = bucket_key(row.partition_id, row.bucket_id)
        limit = row.log_end
        if table.lake_enabled:
            limit = min(limit, 0 if tiered is None else tiered.offsets.get(bucket, 0))
        if table.table_type is TableType.PRIMARY_KEY:
            limit = min(limit, snapshots.get(bucket, 0))
        start = connection.scalar(
            sa.select(sa.func.max(segments.c.stopping_offset)).where(
                in_bucket(segments, table.table_id, bucket), segments.c.stopping_offset <= limit, segments.c.commit_us <= old
            )
        )
        if start is not None and start > row.log_start:
            cuts.append(Cut(bucket, start))
    return cuts


def cut_logs(connection: sa.Connection, root: Path, table_id: int, cuts: list[Cut]) -> list[str]:
    """Removes the segments before the new starts from the log, and returns the paths of their files. Raises OSError."""
    paths = []
    for cut in cuts:
        before = in_bucket(segments, table_id, cut.bucket) & (segments.c.stopping_offset <= cut.log_start)
        removed = connection.execute(sa.select(segments.c.path, segments.c.size_bytes).where(before)).all()
        paths += [row.path for row in removed]
        connection.execute(sa.delete(segments).where(before))
        size_bytes = buckets.c.size_bytes - sum(row.size_bytes for row in removed)
        in_the_bucket = in_bucket(buckets, table_id, cut.bucket)
        connection.execute(sa.update(buckets).where(in_the_bucket).values(log_start=cut.log_start, size_bytes=size_bytes))
    _write_starts(connection, root, table_id)
    return paths


def _write_starts(connection: sa.Connection, root: Path, table_id: int) -> None:
    """Writes the new starts before the cut is committed, so that a reader who misses a segment always finds the reason."""
    rows = connection.execute(sa.select(buckets).where(buckets.c.table_id == table_id, buckets.c.log_start > 0))
    starts: Mapping[str, int] = {str(bucket_key(row.partition_id, row.bucket_id)): row.log_start for row in rows}
    file = log_starts_file(root, table_id)
    file.with_name(file.name + ".tmp").unlink(missing_ok=True)
    write_whole(file, pa.py_buffer(json.dumps(starts).encode()))
    sync_folder(file.parent)
