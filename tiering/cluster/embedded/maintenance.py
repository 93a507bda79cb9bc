"""Periodic work of the cluster, every few seconds: takes due KV snapshots, ends leases, applies log retention."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import sqlalchemy as sa
import structlog

from tiering.clock import Clock
from tiering.cluster.embedded.kv.primary_key_tables import PrimaryKeyTables
from tiering.cluster.embedded.kv.snapshot_files import remove_files
from tiering.cluster.embedded.log.segments import log_starts_file
from tiering.cluster.embedded.metadata.database import Metadata, bucket_key, buckets, in_bucket, segments
from tiering.cluster.embedded.metadata.lake_record import read_lake_record
from tiering.cluster.embedded.metadata.listing import TableListing
from tiering.cluster.embedded.metadata.snapshot_rows import last_snapshot_times, oldest_offsets
from tiering.cluster.embedded.metadata.table_rows import table_exists
from tiering.errors import LakewardError, UnknownTable
from tiering.files.durable_files import sync_folder, write_whole
from tiering.instants import to_microseconds
from tiering.lake.table_options import KV_SNAPSHOT_INTERVAL, LOG_TTL
from tiering.model.tables import BucketKey, TableInfo, TableType

PERIOD_S = 10.0
"""Interval of the passes: short enough for the shortest useful lease and snapshot interval."""

NOTHING_KEPT: Mapping[BucketKey, int] = MappingProxyType({})

_log = structlog.get_logger(__name__)


class Maintenance:
    """Runs one pass at a time. A pass may be repeated, or interrupted at any point."""

    def __init__(self, root: Path, metadata: Metadata, listing: TableListing, primary_key_tables: PrimaryKeyTables, clock: Clock) -> None:
        self._root = root
        self._metadata = metadata
        self._listing = listing
        self._primary_key_tables = primary_key_tables
        self._clock = clock
        self.lake_is_confirmed: Callable[[int], bool] = lambda table_id: True
        """The check that precedes a cut of a lake-enabled table's log (`LogRetention.ask_before_cut`)."""
        self.kept_for_reads: Callable[[int], Mapping[BucketKey, int] | None] = lambda table_id: {}
        """The first offsets that open reads of a table need, per bucket; None = unknown (`LogRetention.keep_for_reads`)."""
        self._uncut_logs: set[int] = set()

    def run(self) -> None:
        """Runs one pass over all tables. A failure for one table is logged, and retried in the next pass."""
        for table, log_ttl_ms, last in self._maintained_tables():
            try:
                if table.table_type is TableType.PRIMARY_KEY:
                    self._take_snapshot(table, last)
                if log_ttl_ms is not None:
                    self._cut_log(table, log_ttl_ms)
            except UnknownTable:
                continue  # the table was dropped in the meantime
            except (LakewardError, OSError) as error:
                _log.warning("maintenance_failed", table=str(table.path), error=str(error))
        self._primary_key_tables.sweep()

    def _maintained_tables(self) -> Iterator[tuple[TableInfo, int | None, datetime]]:
        """Yields the tables that need maintenance (often few of many), with their log's TTL and the time of their last KV snapshot."""
        with_ttl = ((table, LOG_TTL.of(table.properties)) for table in self._listing.all())
        maintained = [(table, ttl) for table, ttl in with_ttl if table.table_type is TableType.PRIMARY_KEY or ttl is not None]
        if maintained:
            with self._metadata.read() as connection:
                last = last_snapshot_times(connection)
            for table, log_ttl_ms in maintained:
                yield table, log_ttl_ms, last.get(table.table_id, table.created_at)

    def _take_snapshot(self, table: TableInfo, last: datetime) -> None:
        since = self._clock.now() - last
        # A snapshot time in the future means that the clock was ahead. The age of that snapshot is unknown, so the next one is due.
        if since < timedelta(0) or since >= timedelta(milliseconds=KV_SNAPSHOT_INTERVAL.of(table.properties)):
            self._primary_key_tables.snapshot(table.path)

    def _cut_log(self, table: TableInfo, ttl_ms: int) -> None:
        with self._metadata.read() as connection:
            if not plan_cuts(connection, table, ttl_ms, self._clock.now()):
                return
        if self._has_to_keep(table):
            return
        with self._primary_key_tables.exclusive(table.table_id):  # a state that is being rebuilt reads the log
            with self._metadata.write() as connection:
                if not table_exists(connection, table.table_id):
                    return
                kept = self.kept_for_reads(table.table_id)
                if kept is None:
                    return
                cuts = plan_cuts(connection, table, ttl_ms, self._clock.now(), kept)
                paths = cut_logs(connection, self._root, table.table_id, cuts)
            remove_files(self._root, paths)

    def _has_to_keep(self, table: TableInfo) -> bool:
        """Returns whether the log may have rows that the lake has lost, because the lake table was not confirmed recently. Logged once."""
        if not table.lake_enabled or self.lake_is_confirmed(table.table_id):
            self._uncut_logs.discard(table.table_id)
            return False
        if table.table_id not in self._uncut_logs:
            self._uncut_logs.add(table.table_id)
            _log.info("log_kept", table=str(table.path), reason="the last round failed, or no round has checked the lake table lately")
        return True


@contextmanager
def running_maintenance(maintenance: Maintenance, period_s: float = PERIOD_S) -> Iterator[None]:
    """Runs the maintenance in a thread while the context is open."""
    ended = threading.Event()

    def keep() -> None:
        while not ended.wait(period_s):
            try:
                maintenance.run()
            except LakewardError as error:
                _log.warning("maintenance_failed", error=str(error))
            except BaseException:  # even after a panic: without this thread no log is cut and no snapshot is taken
                _log.exception("maintenance_failed")

    thread = threading.Thread(target=keep, name="embedded-cluster-maintenance")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


# Log retention (`table.log.ttl`, as in Fluss) cuts only whole segments older than the ttl. For a lake-enabled table they must be in the
# lake. For a primary-key table they must be before the oldest kept KV snapshot, because the later log is needed to restore the rows, or
# to continue from the snapshot; a bucket without a snapshot is not cut. A small file beside the segments lets a reader distinguish cut
# segments from damage.
def plan_cuts(
    connection: sa.Connection, table: TableInfo, ttl_ms: int, now: datetime, kept: Mapping[BucketKey, int] = NOTHING_KEPT
) -> dict[BucketKey, int]:
    """Returns the buckets whose log can be cut, with their new starts. Records from the offsets of `kept` on stay."""
    old = to_microseconds(now - timedelta(milliseconds=ttl_ms))
    tiered = read_lake_record(connection, table.table_id)
    snapshots = oldest_offsets(connection, table.table_id) if table.table_type is TableType.PRIMARY_KEY else {}
    cuts: dict[BucketKey, int] = {}
    for row in connection.execute(sa.select(buckets).where(buckets.c.table_id == table.table_id, buckets.c.log_end > buckets.c.log_start)):
        bucket = bucket_key(row.partition_id, row.bucket_id)
        limit = min(row.log_end, kept.get(bucket, row.log_end))
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
            cuts[bucket] = start
    return cuts


def cut_logs(connection: sa.Connection, root: Path, table_id: int, cuts: Mapping[BucketKey, int]) -> list[str]:
    """Removes the segments before the new starts from the log, and returns the paths of their files. Raises OSError."""
    paths = []
    for bucket, log_start in cuts.items():
        before = in_bucket(segments, table_id, bucket) & (segments.c.stopping_offset <= log_start)
        removed = connection.execute(sa.select(segments.c.path, segments.c.size_bytes).where(before)).all()
        paths += [row.path for row in removed]
        connection.execute(sa.delete(segments).where(before))
        size_bytes = buckets.c.size_bytes - sum(row.size_bytes for row in removed)
        in_the_bucket = in_bucket(buckets, table_id, bucket)
        connection.execute(sa.update(buckets).where(in_the_bucket).values(log_start=log_start, size_bytes=size_bytes))
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
