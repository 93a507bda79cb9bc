"""The embedded cluster in process: `EmbeddedCluster` over one folder (DESIGN 9).

    LOCK                      held by the one process that has the folder open
    meta.db                   databases, tables, offsets, segments (metadata.py)
    log/<table id>/*.arrow    segment files (segments.py), immutable
    kv/<table id>.duckdb      present rows of a primary-key table (kv_state.py); may be lost at any time
    kv-snapshots/<table id>/  files of KV snapshots (snapshot_files.py), immutable
    log/**/<id>.dropped       empty: that table or partition was dropped, its missing segments are no damage

Safe to call from several threads.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from tiering.clock import Clock, Ids, RandomIds, SystemClock
from tiering.cluster.capabilities import SkippedRecord, SkipRequest
from tiering.cluster.embedded.folder import Published, lock_folder, sweep
from tiering.cluster.embedded.kv.primary_key_tables import KeyedTables
from tiering.cluster.embedded.kv.primary_keys import check_log_table
from tiering.cluster.embedded.kv.snapshot_files import SNAPSHOT_FOLDER, StoredSnapshot, files_exist
from tiering.cluster.embedded.kv.snapshot_reader import EmbeddedSnapshotReader, open_snapshot_reader
from tiering.cluster.embedded.log.appends import check_writer
from tiering.cluster.embedded.log.batches import fit_rows
from tiering.cluster.embedded.log.log import NO_LIMIT, Log
from tiering.cluster.embedded.log.segments import LOG_FOLDER, partition_tombstone, table_tombstone, write_tombstone
from tiering.cluster.embedded.log.split_reader import EmbeddedSplitReader, ListedRange, open_reader
from tiering.cluster.embedded.maintenance import Upkeep
from tiering.cluster.embedded.metadata import lease_rows, snapshot_rows, table_rows
from tiering.cluster.embedded.metadata.database import NO_PARTITION, Metadata, partitions, segments, tables
from tiering.cluster.embedded.metadata.lake_record import read_lake_record, write_lake_record
from tiering.cluster.embedded.metadata.listing import TableListing
from tiering.cluster.embedded.metadata.options import check_documented_option
from tiering.cluster.embedded.metadata.partitions import list_partitions
from tiering.cluster.embedded.metadata.snapshot_rows import all_paths
from tiering.cluster.embedded.metadata.times import SteadyTime
from tiering.cluster.embedded.stored_paths import stored_path
from tiering.cluster.embedded.writable import AppendedRange, Rows, TableSpec
from tiering.errors import ClusterUnavailable, DataCorrupt, InvalidArgument, SetupError, UnknownTable
from tiering.files.durable_files import sync_folder
from tiering.model.leases import KvSnapshot, KvSnapshotLease
from tiering.model.names import check_database, table_path
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.splits import TieringSnapshotSplit, TieringSplit
from tiering.model.tables import BucketKey, BucketOffsets, Offsets, Partition, TableBucket, TableInfo, TablePath


class EmbeddedStorage:
    """Opens the folder, sweeping what a crash left. Raises SetupError: in use, not writable, made by a newer version."""

    def __init__(
        self, root: Path, clock: Clock | None = None, ids: Ids | None = None, check_lake: Callable[[TableInfo], None] | None = None
    ) -> None:
        """`check_lake` raises BadRequest for a table that its lake could not hold; None = whoever opens the folder tiers nothing."""
        self.root = root.absolute()
        self._check_lake = check_lake or _holds_all
        self._clock: Clock = clock or SystemClock()
        ids = ids or RandomIds()
        self._lease_time = SteadyTime(self._clock)
        self._lock = lock_folder(self.root)
        try:
            self._metadata = Metadata.open(self.root, ids)
            sync_folder(self.root)  # the name of a new database
            self._sweep()
            with self._metadata.write() as connection:
                lease_rows.rebase(connection, self._lease_time.now())
        except BaseException:
            self._lock.close()
            raise
        self.log = Log(self.root, self._metadata, self._clock, ids)
        self.keyed = KeyedTables(self.root, self._metadata, self.log, self._clock, ids, self._lease_time)
        self._listing = TableListing(self._metadata)
        self.upkeep = Upkeep(self.root, self._metadata, self._listing, self.keyed, self._clock)

    def _sweep(self) -> None:
        with self._metadata.read() as connection:
            columns = (segments.c.path, tables.c.table_id, partitions.c.partition_id)
            paths, table_ids, partition_ids = (set(connection.scalars(sa.select(column))) for column in columns)
            paths |= all_paths(connection)
        try:
            sweep(self.root, Published(paths, table_ids, partition_ids), self._clock.now())
        except OSError as error:
            self._metadata.close()
            raise SetupError(f"cannot sweep the cluster's folder {self.root}: {error}", hint="Check its permissions.") from error

    def close(self) -> None:
        """Lets go of the folder."""
        self.keyed.close()
        self._metadata.close()
        self._lock.close()

    def __enter__(self) -> EmbeddedStorage:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def cluster_id(self) -> str:
        """A UUID made with the folder."""
        return self._metadata.cluster_id

    def create_database(self, name: str, ignore_if_exists: bool = False) -> None:
        """As `EmbeddedCluster.create_database`."""
        check_database(name)
        with self._metadata.write() as connection:
            table_rows.insert_database(connection, name, ignore_if_exists)

    def databases(self) -> Sequence[str]:
        """As `Cluster.databases`."""
        with self._metadata.read() as connection:
            return table_rows.list_databases(connection)

    def create_table(self, path: TablePath, spec: TableSpec, ignore_if_exists: bool = False) -> TableInfo:
        """As `EmbeddedCluster.create_table`."""
        _check_path(path)
        with self._listing.altering() as (connection, touched):
            created = table_rows.insert_table(connection, path, spec, ignore_if_exists, self._clock.now())
            if created.is_new and created.info.lake_enabled:
                self._check_lake(created.info)
            touched.add(created.info.table_id)
        return created.info

    def drop_table(self, path: TablePath) -> None:
        """As `EmbeddedCluster.drop_table`."""
        table_id = self.table(path).table_id
        with self.keyed.exclusive(table_id):
            with self._listing.altering() as (connection, touched):
                touched.add(table_id)
                table_rows.delete_table(connection, path, table_id)
                lease_rows.end_empty(connection)
                self._bury(table_tombstone(self.root, table_id))
            # Best effort: the table is gone already, and what is left is swept at the next start.
            with contextlib.suppress(OSError):
                self.keyed.forget(table_id)
                shutil.rmtree(self.root / LOG_FOLDER / str(table_id), ignore_errors=True)
                shutil.rmtree(self.root / SNAPSHOT_FOLDER / str(table_id), ignore_errors=True)

    def drop_partition(self, path: TablePath, partition_name: str) -> None:
        """As `EmbeddedCluster.drop_partition`."""
        table_id = self.table(path).table_id
        with self.keyed.exclusive(table_id), self._metadata.write() as connection:
            partition_id, paths = table_rows.delete_partition(connection, path, table_id, partition_name)
            lease_rows.end_empty(connection)
            self._bury(partition_tombstone(self.root, table_id, partition_id))
        with contextlib.suppress(OSError, DataCorrupt):
            for segment in paths:
                stored_path(self.root, segment).unlink(missing_ok=True)

    def _bury(self, tombstone: Path) -> None:
        """Before the drop is committed: whoever misses a segment afterwards finds the reason. A crash between: `folder.sweep`."""
        try:
            write_tombstone(tombstone)
        except OSError as error:
            raise ClusterUnavailable(f"cannot write {tombstone}: {error}", hint="Is the disk full?") from error

    def alter_table(self, path: TablePath, set_properties: Mapping[str, str], add_columns: Sequence[pa.Field[Any]] = ()) -> TableInfo:
        """As `EmbeddedCluster.alter_table`."""
        return self._alter(path, set_properties, add_columns)

    def set_table_option(self, path: TablePath, name: str, value: str | None, *, dry_run: bool = False) -> TableInfo:
        """As `TableOptionSetting.set_table_option`."""
        check_documented_option(name)
        return self._alter(path, {name: value}, dry_run=dry_run)

    def _alter(
        self, path: TablePath, options: Mapping[str, str | None], add_columns: Sequence[pa.Field[Any]] = (), *, dry_run: bool = False
    ) -> TableInfo:
        _check_path(path)
        with self._listing.altering() as (connection, touched):
            before = table_rows.find_table(connection, path).info
            table_rows.insert_columns(connection, path, add_columns)
            info = table_rows.update_properties(connection, path, options, self._clock.now())
            if info.lake_format != before.lake_format and read_lake_record(connection, info.table_id) is not None:
                raise InvalidArgument(
                    f"the lake format of {path} cannot become {info.lake_format}: its lake table is {before.lake_format} already",
                    hint="Make a new table with that format, and load it.",
                    table_id=info.table_id,
                )
            # What an older version let in may still be altered in other ways, such as to disable the lake.
            if info.lake_enabled and (not before.lake_enabled or info.schema != before.schema):
                self._check_lake(info)
            if dry_run:
                connection.rollback()
            else:
                touched.add(info.table_id)
        return info

    def tables(self, database_name: str | None = None) -> Sequence[TableInfo]:
        """As `Cluster.tables`; the very same list while no table was made, changed or dropped."""
        return self._listing.all() if database_name is None else self._listing.of(check_database(database_name))

    def table(self, path: TablePath) -> TableInfo:
        """As `Cluster.table`."""
        _check_path(path)
        return self._listing.find(path)

    def partitions(self, table: TableInfo) -> Sequence[Partition]:
        """As `Cluster.partitions`."""
        return self.list_partitions(table.table_id)

    def list_partitions(self, table_id: int, after: int = NO_PARTITION, limit: int = NO_LIMIT) -> Sequence[Partition]:
        """The first `limit` partitions with an id above `after`, by id. Raises UnknownTable."""
        with self._metadata.read() as connection:
            if not table_rows.table_exists(connection, table_id):
                raise UnknownTable(f"the table with id {table_id} is gone", table_id=table_id)
            return tuple(list_partitions(connection, table_id, after, limit))

    def append(self, path: TablePath, rows: Rows, writer_id: str, sequence: int) -> Sequence[AppendedRange]:
        """As `EmbeddedCluster.append`."""
        _check_path(path)
        check_writer(writer_id, sequence)
        with self._metadata.read() as connection:
            stored = table_rows.find_table(connection, path)
        check_log_table(stored.info)
        return self.log.append(stored, fit_rows(rows, stored.info), writer_id, sequence)

    def upsert(self, path: TablePath, rows: Rows, writer_id: str, sequence: int) -> Sequence[AppendedRange]:
        """As `EmbeddedCluster.upsert`."""
        _check_path(path)
        check_writer(writer_id, sequence)
        return self.keyed.upsert(path, rows, writer_id, sequence)

    def delete(self, path: TablePath, keys: Rows, writer_id: str, sequence: int) -> Sequence[AppendedRange]:
        """As `EmbeddedCluster.delete`."""
        _check_path(path)
        check_writer(writer_id, sequence)
        return self.keyed.delete(path, keys, writer_id, sequence)

    def skip_record(self, request: SkipRequest) -> SkippedRecord:
        """As `RecordSkipping.skip_record`."""
        _check_path(request.path)
        return self.keyed.skip(request)

    def take_kv_snapshots(self, path: TablePath) -> Mapping[BucketKey, KvSnapshot]:
        """As `KvSnapshotsOnDemand.take_kv_snapshots`."""
        _check_path(path)
        return self.keyed.snapshot(path)

    def offsets(self, table: TableInfo) -> Mapping[BucketKey, BucketOffsets]:
        """As `Cluster.offsets`."""
        return self.log.offsets(table.table_id)

    def offsets_of(self, tables: Sequence[TableInfo]) -> Mapping[int, Mapping[BucketKey, BucketOffsets]]:
        """As `Cluster.offsets_of`."""
        return self.log.offsets_of([table.table_id for table in tables])

    def oldest_timestamps(self, table: TableInfo, offsets: Offsets) -> Mapping[BucketKey, datetime]:
        """As `Cluster.oldest_timestamps`."""
        return self.log.oldest_timestamps(table.table_id, offsets)

    def reader(self, table: TableInfo, split: TieringSplit) -> EmbeddedSplitReader | EmbeddedSnapshotReader:
        """As `Cluster.reader`. Raises also LogTruncated, InvalidArgument."""
        if isinstance(split, TieringSnapshotSplit):
            return open_snapshot_reader(str(self.root), table, split, self.kv_snapshot(table.table_id, split.bucket, split.snapshot_id))
        bounds = self.log.bounds(table.table_id, split.bucket)

        def listed(bucket: BucketKey, start: int, stop: int) -> ListedRange:
            segments = self.log.segments(table.table_id, bucket, start, stop)
            return ListedRange(str(self.root), segments, self.log.refused(table.table_id, bucket))

        return open_reader(table, split, bounds, listed)

    def kv_snapshots(self, table: TableInfo) -> Mapping[BucketKey, KvSnapshot]:
        """As `Cluster.kv_snapshots`."""
        return self.list_kv_snapshots(table.table_id)

    def list_kv_snapshots(self, table_id: int) -> Mapping[BucketKey, KvSnapshot]:
        """The newest KV snapshot of each bucket that has one. Raises UnknownTable."""
        with self._metadata.read() as connection:
            if not table_rows.table_exists(connection, table_id):
                raise UnknownTable(f"the table with id {table_id} is gone", table_id=table_id)
            return snapshot_rows.newest_snapshots(connection, table_id)

    def kv_snapshot(self, table_id: int, bucket: BucketKey, snapshot_id: int) -> StoredSnapshot | None:
        """One KV snapshot with its files; None = it is not there (any more)."""
        with self._metadata.read() as connection:
            return snapshot_rows.find_snapshot(connection, table_id, bucket, snapshot_id)

    def acquire_lease(
        self, lease_id: str, ttl_ms: int, snapshots: Mapping[TableBucket, int], owner: str | None = None
    ) -> Collection[TableBucket]:
        """As `Cluster.acquire_lease`."""
        with self._metadata.write() as connection:
            return lease_rows.acquire(connection, lease_id, ttl_ms, snapshots, owner, self._lease_time.now(), self._files_exist)

    def release_lease(self, lease_id: str, buckets: Collection[TableBucket]) -> Collection[TableBucket]:
        """As `Cluster.release_lease`."""
        with self._metadata.write() as connection:
            return lease_rows.release(connection, lease_id, buckets)

    def drop_lease(self, lease_id: str) -> bool:
        """As `Cluster.drop_lease`."""
        with self._metadata.write() as connection:
            return lease_rows.drop(connection, lease_id)

    def leases(self) -> Sequence[KvSnapshotLease]:
        """As `Cluster.leases`."""
        with self._metadata.read() as connection:
            return lease_rows.list_leases(connection, self._files_exist)

    def _files_exist(self, snapshot: StoredSnapshot) -> bool:
        return files_exist(self.root, snapshot.files)

    def lake_snapshot(self, table: TableInfo) -> RecordedLakeSnapshot | None:
        """As `Cluster.lake_snapshot`."""
        return self.lake_record(table.table_id)

    def lake_record(self, table_id: int) -> RecordedLakeSnapshot | None:
        """What is recorded of the lake for the table with that id."""
        with self._metadata.read() as connection:
            return read_lake_record(connection, table_id)

    def record_lake_snapshot(self, table: TableInfo, snapshot: RecordedLakeSnapshot) -> None:
        """As `Cluster.record_lake_snapshot`. Raises Fenced if an offset would go back, UnknownTable."""
        with self._metadata.write() as connection:
            write_lake_record(connection, table, snapshot)

    def rewind_lake_snapshot(self, table: TableInfo, snapshot: RecordedLakeSnapshot) -> None:
        """As `Cluster.rewind_lake_snapshot`. Raises UnknownTable."""
        with self._metadata.write() as connection:
            write_lake_record(connection, table, snapshot, may_go_back=True)


def _holds_all(_: TableInfo) -> None:
    """What a lake that nobody tiers to refuses."""


def _check_path(path: TablePath) -> None:
    table_path(path.database_name, path.table_name)
