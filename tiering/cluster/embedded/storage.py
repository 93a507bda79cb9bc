"""The embedded cluster in process: a `ClusterOwner` and `WritableCluster` over one folder (DESIGN 9).

   LOCK                      held by the one process that has the folder open
   meta.db                   databases, tables, offsets, segments (metadata/database.py)
   log/<table id>/*.arrow    segment files (log/segments.py), immutable
   kv/<table id>.duckdb      present rows of a primary-key table (kv/state.py); may be lost at any time
   kv-snapshots/<table id>/  files of KV snapshots (kv/snapshot_files.py), immutable
   log/**/<id>.dropped       empty tombstone of a dropped table or partition, whose missing segments are no damage

Safe to call from several threads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import sqlalchemy as sa

from tiering.clock import Clock, Ids, RandomIds, SystemClock
from tiering.cluster.capabilities import DroppedPartition, SkippedRecord, SkipRequest
from tiering.cluster.embedded.folder import Published, check_metadata_is_there, lock_folder, sweep
from tiering.cluster.embedded.kv.primary_key_tables import PrimaryKeyTables
from tiering.cluster.embedded.log.appends import check_writer
from tiering.cluster.embedded.log.log import Log
from tiering.cluster.embedded.maintenance import Maintenance
from tiering.cluster.embedded.metadata import lease_rows, snapshot_rows, table_rows
from tiering.cluster.embedded.metadata.database import FILE_NAME, Metadata, partitions, segments, tables
from tiering.cluster.embedded.metadata.lake_record import delete_dropped, list_dropped, write_lake_record
from tiering.cluster.embedded.metadata.lease_rows import SteadyTime
from tiering.cluster.embedded.table_changes import AlterableCluster, check_path
from tiering.cluster.key_columns import check_log_table
from tiering.cluster.lease_rules import check_lease
from tiering.cluster.rows import fit_rows
from tiering.cluster.table_options import check_new_options
from tiering.cluster.writable import MAX_APPEND_BYTES, AppendedRange, Rows
from tiering.errors import SetupError
from tiering.files.durable_files import sync_folder
from tiering.model.leases import KvSnapshot
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey, Offsets, TableBucket, TableInfo, TablePath
from tiering.throttle import pieces

LEASED_TOGETHER = 500
"""Number of snapshots that one write of the metadata leases or releases; it takes some 10 ms."""


class EmbeddedStorage(AlterableCluster):
    """Opens the folder and removes leftovers of a crash. Raises SetupError if it is in use, not writable, or of a newer version.

    Implements `WritableCluster`, `DroppedPartitions`, `RecordSkipping`, `KvSnapshotsOnDemand` and `KvSnapshotLeases`.
    """

    def __init__(
        self, root: Path, clock: Clock | None = None, ids: Ids | None = None, check_lake: Callable[[TableInfo], None] | None = None
    ) -> None:
        """`check_lake` raises BadRequest for a table that its lake cannot hold; None if the opening process tiers nothing."""
        root, clock, ids = root.absolute(), clock or SystemClock(), ids or RandomIds()
        self._lease_time = SteadyTime(clock)
        self._lock = lock_folder(root)
        try:
            metadata = _open_swept(root, clock, ids)
            with metadata.write() as connection:
                lease_rows.rebase(connection, self._lease_time.now())
        except BaseException:
            self._lock.close()
            raise
        log = Log(root, metadata, clock, ids)
        primary_key_tables = PrimaryKeyTables(root, metadata, log, clock, ids, self._lease_time)
        super().__init__(root, metadata, log, primary_key_tables, clock, check_lake)
        self.maintenance = Maintenance(root, metadata, self._listing, self.primary_key_tables, clock)

    def close(self) -> None:
        """Closes the folder and releases its lock."""
        self.primary_key_tables.close()
        self.metadata.close()
        self._lock.close()

    def __enter__(self) -> EmbeddedStorage:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def remembers_writers(self) -> bool:
        """Returns True: a write is remembered as long as its partitions exist. Implements `WritableCluster.remembers_writers`."""
        return True

    @property
    def max_write_bytes(self) -> int:
        return MAX_APPEND_BYTES

    def check_options(self, properties: Mapping[str, str]) -> None:
        check_new_options(properties)

    def dropped_partitions(self) -> Sequence[DroppedPartition]:
        with self.metadata.read() as connection:
            return list_dropped(connection)

    def forget_dropped_partitions(self, partition_ids: Collection[int]) -> None:
        with self.metadata.write() as connection:
            delete_dropped(connection, partition_ids)

    def append(self, path: TablePath, rows: Rows, writer_id: str, sequence: int) -> Sequence[AppendedRange]:
        check_path(path)
        check_writer(writer_id, sequence)
        with self.metadata.read() as connection:
            stored = table_rows.find_table(connection, path)
        check_log_table(stored.info)
        return self.log.append(stored, fit_rows(rows, stored.info), writer_id, sequence)

    def upsert(self, path: TablePath, rows: Rows, writer_id: str, sequence: int) -> Sequence[AppendedRange]:
        check_path(path)
        check_writer(writer_id, sequence)
        return self.primary_key_tables.upsert(path, rows, writer_id, sequence)

    def delete(self, path: TablePath, keys: Rows, writer_id: str, sequence: int) -> Sequence[AppendedRange]:
        check_path(path)
        check_writer(writer_id, sequence)
        return self.primary_key_tables.delete(path, keys, writer_id, sequence)

    def skip_record(self, request: SkipRequest) -> SkippedRecord:
        check_path(request.path)
        return self.primary_key_tables.skip(request)

    def take_kv_snapshots(self, path: TablePath) -> Mapping[BucketKey, KvSnapshot]:
        check_path(path)
        return self.primary_key_tables.snapshot(path)

    def acquire_lease(
        self, lease_id: str, ttl_ms: int, snapshots: Mapping[TableBucket, int], owner: str | None = None
    ) -> Collection[TableBucket]:
        """Leases KV snapshots; returns the buckets whose snapshot is unavailable. Implements `KvSnapshotLeases.acquire_lease`."""
        check_lease(lease_id, ttl_ms)
        unavailable: list[TableBucket] = []
        for piece in pieces(snapshots.items(), LEASED_TOGETHER) if snapshots else [()]:
            named = dict(piece)
            with self.metadata.read() as connection:  # files are checked outside of the write lock, which every append needs
                stored = snapshot_rows.find_snapshots(connection, named)
            existing = {bucket: named[bucket] for bucket, snapshot in stored.items() if self._files_exist(snapshot)}
            with self.metadata.write() as connection:
                now = self._lease_time.now()
                vanished = set(lease_rows.acquire(connection, lease_id, ttl_ms, existing, owner, now, only_renews=not snapshots))
            unavailable += [bucket for bucket in named if bucket not in existing or bucket in vanished]
        return unavailable

    def release_lease(self, lease_id: str, buckets: Collection[TableBucket]) -> Collection[TableBucket]:
        """Releases buckets of a lease; returns the released ones. Implements `KvSnapshotLeases.release_lease`."""
        with self.metadata.read() as connection:
            leased = lease_rows.leased_buckets(connection, lease_id)
        released = [bucket for bucket in dict.fromkeys(buckets) if bucket in leased]
        for piece in pieces(released, LEASED_TOGETHER):
            with self.metadata.write() as connection:
                lease_rows.release(connection, lease_id, piece)
        with self.metadata.write() as connection:
            lease_rows.end_empty(connection)
        return released

    def drop_lease(self, lease_id: str) -> bool:
        with self.metadata.write() as connection:
            return lease_rows.drop(connection, lease_id)

    def prepare_lake_commit(self, table: TableInfo, offsets: Offsets) -> Mapping[str, str]:
        """Returns no properties, because this cluster reads only its own record, never a lake snapshot. Implements
        `ClusterOwner.prepare_lake_commit`.
        """
        return {}

    def record_lake_snapshot(self, table: TableInfo, snapshot: RecordedLakeSnapshot) -> None:
        """Records a lake snapshot. Raises Fenced if an offset would move back, UnknownTable. Implements
        `ClusterOwner.record_lake_snapshot`.
        """
        with self.metadata.write() as connection:
            write_lake_record(connection, table, snapshot)

    def ask_before_cut(self, lake_is_confirmed: Callable[[int], bool]) -> None:
        """Sets the check that precedes a cut of a log. Without it only the lake record decides. Implements
        `LogRetention.ask_before_cut`.
        """
        self.maintenance.ask_before_cut(lake_is_confirmed)

    def rewind_lake_snapshot(self, table: TableInfo, snapshot: RecordedLakeSnapshot) -> None:
        """Records a lake snapshot whose offsets may be lower. Raises UnknownTable. Implements `ClusterOwner.rewind_lake_snapshot`."""
        with self.metadata.write() as connection:
            write_lake_record(connection, table, snapshot, may_go_back=True)


def _open_swept(root: Path, clock: Clock, ids: Ids) -> Metadata:
    """Opens the metadata of a folder, and removes leftovers of a crash from the folder. Raises SetupError."""
    check_metadata_is_there(root, root / FILE_NAME)
    metadata = Metadata.open(root, ids)
    sync_folder(root)  # makes the name of a new database file durable
    with metadata.read() as connection:
        columns = (segments.c.path, tables.c.table_id, partitions.c.partition_id)
        paths, table_ids, partition_ids = (set(connection.scalars(sa.select(column))) for column in columns)
        paths |= snapshot_rows.all_paths(connection)
    try:
        sweep(root, Published(paths, table_ids, partition_ids), clock.now())
    except OSError as error:
        metadata.close()
        raise SetupError(f"cannot clean up the cluster's folder {root}: {error}", hint="Check its permissions.") from error
    return metadata
