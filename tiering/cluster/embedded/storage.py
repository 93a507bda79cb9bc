"""The embedded cluster in process: a `ClusterOwner` and `WritableCluster` over one folder (DESIGN 9).

    LOCK                      held by the one process that has the folder open
    meta.db                   databases, tables, offsets, segments (metadata.py)
    log/<table id>/*.arrow    segment files (segments.py), immutable
    kv/<table id>.duckdb      present rows of a primary-key table (kv_state.py); may be lost at any time
    kv-snapshots/<table id>/  files of KV snapshots (snapshot_files.py), immutable
    log/**/<id>.dropped       empty: that table or partition was dropped, its missing segments are no damage

Safe to call from several threads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from tiering.clock import Clock, Ids, RandomIds, SystemClock
from tiering.cluster.capabilities import DroppedPartition, SkippedRecord, SkipRequest
from tiering.cluster.embedded.folder import Published, check_metadata_is_there, lock_folder, sweep
from tiering.cluster.embedded.kv.primary_key_tables import PrimaryKeyTables
from tiering.cluster.embedded.kv.primary_keys import check_log_table
from tiering.cluster.embedded.log.appends import check_writer
from tiering.cluster.embedded.log.batches import fit_rows
from tiering.cluster.embedded.log.log import Log
from tiering.cluster.embedded.maintenance import Maintenance
from tiering.cluster.embedded.metadata import lease_rows, snapshot_rows, table_rows
from tiering.cluster.embedded.metadata.database import FILE_NAME, Metadata, partitions, segments, tables
from tiering.cluster.embedded.metadata.dropped_partition_rows import delete_dropped, list_dropped
from tiering.cluster.embedded.metadata.lake_record import write_lake_record
from tiering.cluster.embedded.metadata.listing import TableListing
from tiering.cluster.embedded.metadata.options import check_documented_option, check_new_options
from tiering.cluster.embedded.metadata.times import SteadyTime
from tiering.cluster.embedded.stored_cluster import StoredCluster
from tiering.cluster.embedded.table_changes import TableChanges, check_path
from tiering.cluster.lease_rules import check_lease
from tiering.cluster.writable import MAX_APPEND_BYTES, AppendedRange, Rows, TableSpec
from tiering.errors import SetupError
from tiering.files.durable_files import sync_folder
from tiering.model.leases import KvSnapshot
from tiering.model.names import check_database
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey, Offsets, TableBucket, TableInfo, TablePath
from tiering.pace import pieces

LEASED_TOGETHER = 500
"""Snapshots that one write of the metadata leases or releases: some 10 ms."""


class EmbeddedStorage(StoredCluster):
    """Opens the folder, sweeping what a crash left. Raises SetupError: in use, not writable, made by a newer version."""

    def __init__(
        self, root: Path, clock: Clock | None = None, ids: Ids | None = None, check_lake: Callable[[TableInfo], None] | None = None
    ) -> None:
        """`check_lake` raises BadRequest for a table that its lake could not hold; None = whoever opens the folder tiers nothing."""
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
        self.log = Log(root, metadata, clock, ids)
        super().__init__(root, metadata, self.log)
        self.primary_key_tables = PrimaryKeyTables(root, metadata, self.log, clock, ids, self._lease_time)
        self._listing = TableListing(metadata)
        self._changes = TableChanges(root, metadata, self._listing, self.primary_key_tables, clock, check_lake)
        self.maintenance = Maintenance(root, metadata, self._listing, self.primary_key_tables, clock)

    def close(self) -> None:
        """Lets go of the folder."""
        self.primary_key_tables.close()
        self.metadata.close()
        self._lock.close()

    def __enter__(self) -> EmbeddedStorage:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def remembers_writers(self) -> bool:
        """As `WritableCluster.remembers_writers`: as long as the partitions live that a write went to."""
        return True

    @property
    def max_write_bytes(self) -> int:
        """As `WritableCluster.max_write_bytes`: what fits a message."""
        return MAX_APPEND_BYTES

    def check_options(self, properties: Mapping[str, str]) -> None:
        """As `WritableCluster.check_options`: all of them."""
        check_new_options(properties)

    def create_database(self, name: str, ignore_if_exists: bool = False) -> None:
        """As `WritableCluster.create_database`."""
        self._changes.create_database(name, ignore_if_exists)

    def create_table(self, path: TablePath, spec: TableSpec, ignore_if_exists: bool = False) -> TableInfo:
        """As `WritableCluster.create_table`."""
        return self._changes.create_table(path, spec, ignore_if_exists)

    def drop_table(self, path: TablePath) -> None:
        """As `WritableCluster.drop_table`."""
        self._changes.drop_table(path)

    def drop_partition(self, path: TablePath, partition_name: str) -> None:
        """As `WritableCluster.drop_partition`."""
        self._changes.drop_partition(path, partition_name)

    def dropped_partitions(self) -> Sequence[DroppedPartition]:
        """As `DroppedPartitions.dropped_partitions`."""
        with self.metadata.read() as connection:
            return list_dropped(connection)

    def forget_dropped_partitions(self, partition_ids: Collection[int]) -> None:
        """As `DroppedPartitions.forget_dropped_partitions`."""
        with self.metadata.write() as connection:
            delete_dropped(connection, partition_ids)

    def alter_table(self, path: TablePath, set_properties: Mapping[str, str], add_columns: Sequence[pa.Field[Any]] = ()) -> TableInfo:
        """As `WritableCluster.alter_table`."""
        return self._changes.alter_table(path, set_properties, add_columns)

    def set_table_option(self, path: TablePath, name: str, value: str | None, *, dry_run: bool = False) -> TableInfo:
        """As `TableOptionSetting.set_table_option`."""
        check_documented_option(name)
        return self._changes.alter_table(path, {name: value}, dry_run=dry_run)

    def tables(self, database_name: str | None = None) -> Sequence[TableInfo]:
        """As `TableCatalog.tables`; the very same list while no table was made, changed or dropped."""
        return self._listing.all() if database_name is None else self._listing.of(check_database(database_name))

    def table(self, path: TablePath) -> TableInfo:
        """As `TableCatalog.table`."""
        check_path(path)
        return self._listing.find(path)

    def append(self, path: TablePath, rows: Rows, writer_id: str, sequence: int) -> Sequence[AppendedRange]:
        """As `WritableCluster.append`."""
        check_path(path)
        check_writer(writer_id, sequence)
        with self.metadata.read() as connection:
            stored = table_rows.find_table(connection, path)
        check_log_table(stored.info)
        return self.log.append(stored, fit_rows(rows, stored.info), writer_id, sequence)

    def upsert(self, path: TablePath, rows: Rows, writer_id: str, sequence: int) -> Sequence[AppendedRange]:
        """As `WritableCluster.upsert`."""
        check_path(path)
        check_writer(writer_id, sequence)
        return self.primary_key_tables.upsert(path, rows, writer_id, sequence)

    def delete(self, path: TablePath, keys: Rows, writer_id: str, sequence: int) -> Sequence[AppendedRange]:
        """As `WritableCluster.delete`."""
        check_path(path)
        check_writer(writer_id, sequence)
        return self.primary_key_tables.delete(path, keys, writer_id, sequence)

    def skip_record(self, request: SkipRequest) -> SkippedRecord:
        """As `RecordSkipping.skip_record`."""
        check_path(request.path)
        return self.primary_key_tables.skip(request)

    def take_kv_snapshots(self, path: TablePath) -> Mapping[BucketKey, KvSnapshot]:
        """As `KvSnapshotsOnDemand.take_kv_snapshots`."""
        check_path(path)
        return self.primary_key_tables.snapshot(path)

    def acquire_lease(
        self, lease_id: str, ttl_ms: int, snapshots: Mapping[TableBucket, int], owner: str | None = None
    ) -> Collection[TableBucket]:
        """As `KvSnapshotLeases.acquire_lease`."""
        check_lease(lease_id, ttl_ms)
        unavailable: list[TableBucket] = []
        for piece in pieces(snapshots.items(), LEASED_TOGETHER) if snapshots else [()]:
            named = dict(piece)
            with self.metadata.read() as connection:  # files are looked up before the lock that every append needs
                stored = snapshot_rows.find_snapshots(connection, named)
            there = {bucket: named[bucket] for bucket, snapshot in stored.items() if self._files_exist(snapshot)}
            with self.metadata.write() as connection:
                now = self._lease_time.now()
                gone = set(lease_rows.acquire(connection, lease_id, ttl_ms, there, owner, now, only_renews=not snapshots))
            unavailable += [bucket for bucket in named if bucket not in there or bucket in gone]
        return unavailable

    def release_lease(self, lease_id: str, buckets: Collection[TableBucket]) -> Collection[TableBucket]:
        """As `KvSnapshotLeases.release_lease`."""
        with self.metadata.read() as connection:
            held = lease_rows.held_buckets(connection, lease_id)
        released = [bucket for bucket in dict.fromkeys(buckets) if bucket in held]
        for piece in pieces(released, LEASED_TOGETHER):
            with self.metadata.write() as connection:
                lease_rows.release(connection, lease_id, piece)
        with self.metadata.write() as connection:
            lease_rows.end_empty(connection)
        return released

    def drop_lease(self, lease_id: str) -> bool:
        """As `KvSnapshotLeases.drop_lease`."""
        with self.metadata.write() as connection:
            return lease_rows.drop(connection, lease_id)

    def prepare_lake_commit(self, table: TableInfo, offsets: Offsets) -> Mapping[str, str]:
        """As `ClusterOwner.prepare_lake_commit`: this cluster looks at its own record alone, never at a lake snapshot."""
        return {}

    def record_lake_snapshot(self, table: TableInfo, snapshot: RecordedLakeSnapshot) -> None:
        """As `ClusterOwner.record_lake_snapshot`. Raises Fenced if an offset would go back, UnknownTable."""
        with self.metadata.write() as connection:
            write_lake_record(connection, table, snapshot)

    def ask_before_cut(self, lake_is_confirmed: Callable[[int], bool]) -> None:
        """As `LogRetention.ask_before_cut`. Without this call the lake record alone decides."""
        self.maintenance.ask_before_cut(lake_is_confirmed)

    def rewind_lake_snapshot(self, table: TableInfo, snapshot: RecordedLakeSnapshot) -> None:
        """As `ClusterOwner.rewind_lake_snapshot`. Raises UnknownTable."""
        with self.metadata.write() as connection:
            write_lake_record(connection, table, snapshot, may_go_back=True)


def _open_swept(root: Path, clock: Clock, ids: Ids) -> Metadata:
    """The metadata of a folder from which what a crash left was swept. Raises SetupError."""
    check_metadata_is_there(root, root / FILE_NAME)
    metadata = Metadata.open(root, ids)
    sync_folder(root)  # the name of a new database
    with metadata.read() as connection:
        columns = (segments.c.path, tables.c.table_id, partitions.c.partition_id)
        paths, table_ids, partition_ids = (set(connection.scalars(sa.select(column))) for column in columns)
        paths |= snapshot_rows.all_paths(connection)
    try:
        sweep(root, Published(paths, table_ids, partition_ids), clock.now())
    except OSError as error:
        metadata.close()
        raise SetupError(f"cannot sweep the cluster's folder {root}: {error}", hint="Check its permissions.") from error
    return metadata
