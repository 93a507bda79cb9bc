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

import contextlib
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import sqlalchemy as sa

from tiering.clock import Clock, Ids, RandomIds, SystemClock
from tiering.cluster.capabilities import DroppedPartition, SkippedRecord, SkipRequest
from tiering.cluster.embedded.folder import check_metadata_is_there, lock_folder, sweep
from tiering.cluster.embedded.kv.primary_key_tables import PrimaryKeyTables
from tiering.cluster.embedded.kv.snapshot_files import SNAPSHOT_FOLDER
from tiering.cluster.embedded.log.appends import check_writer, written_records
from tiering.cluster.embedded.log.bucketing import Bucketing, bucketing_for
from tiering.cluster.embedded.log.log import Log
from tiering.cluster.embedded.log.segments import LOG_FOLDER, partition_tombstone, table_tombstone, write_tombstone
from tiering.cluster.embedded.maintenance import Maintenance
from tiering.cluster.embedded.metadata import lease_rows, snapshot_rows, table_rows
from tiering.cluster.embedded.metadata.database import FILE_NAME, Metadata, partitions, segments, tables
from tiering.cluster.embedded.metadata.lake_record import delete_dropped, insert_dropped, list_dropped, read_lake_record, write_lake_record
from tiering.cluster.embedded.metadata.lease_rows import SteadyTime
from tiering.cluster.embedded.metadata.listing import TableListing
from tiering.cluster.embedded.metadata.partitions import ensure_partitions
from tiering.cluster.embedded.metadata.table_rows import ColumnChanges
from tiering.cluster.embedded.stored_cluster import StoredCluster
from tiering.cluster.embedded.stored_paths import stored_path
from tiering.cluster.key_columns import check_log_table
from tiering.cluster.lease_rules import check_lease
from tiering.cluster.table_option_checks import check_documented_option, check_file_order, check_new_options, followed_file_order
from tiering.cluster.writable import MAX_APPEND_BYTES, AppendedRange, Rows, TableDefinitions, TableSpec
from tiering.errors import ClusterUnavailable, DataCorrupt, InvalidArgument, SetupError
from tiering.files.durable_files import sync_folder
from tiering.lake.dead_letters.table import check_new_name
from tiering.lake.table_options import TABLE_OPTIONS, TableOption
from tiering.model.leases import KvSnapshot
from tiering.model.names import check_database, table_path
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.schema.changes import SchemaChange
from tiering.model.tables import BucketKey, Offsets, TableBucket, TableInfo, TablePath
from tiering.throttle import pieces

LEASED_TOGETHER = 500
"""Number of snapshots that one write of the metadata leases or releases; it takes some 10 ms."""


class EmbeddedStorage(StoredCluster):
    """Opens the folder and removes leftovers of a crash. Raises SetupError if it is in use, not writable, or of a newer version.

    A change of the catalog is one transaction of the metadata, followed by the changes of files. Readers see it as a whole, through the
    listing that marks the touched tables.

    Implements `ClusterOwner`, `WritableCluster`, `DefiningCluster`, `TableOptionSetting`, `DroppedPartitions`, `RecordSkipping`,
    `KvSnapshotsOnDemand`, `KvSnapshotLeases` and `WriterHistory`.
    """

    remembers_writers = True
    """A write is remembered as long as its partitions exist."""
    max_write_bytes = MAX_APPEND_BYTES

    def __init__(
        self, root: Path, clock: Clock | None = None, ids: Ids | None = None, check_lake: Callable[[TableInfo], None] | None = None
    ) -> None:
        """`check_lake` raises BadRequest for a table that its lake cannot hold; None if the opening process tiers nothing."""
        root, ids = root.absolute(), ids or RandomIds()
        self._clock = clock or SystemClock()
        self._check_lake = check_lake or (lambda _: None)
        self._lease_time = SteadyTime(self._clock)
        self._lock = lock_folder(root)
        try:
            metadata = _open_swept(root, self._clock, ids)
            with metadata.write() as connection:
                lease_rows.rebase(connection, self._lease_time.now())
        except BaseException:
            self._lock.close()
            raise
        self.log = Log(root, metadata, self._clock, ids)
        super().__init__(root, metadata, self.log)
        self.primary_key_tables = PrimaryKeyTables(root, metadata, self.log, self._clock, ids, self._lease_time)
        self._listing = TableListing(metadata)
        self.maintenance = Maintenance(root, metadata, self._listing, self.primary_key_tables, self._clock)

    def close(self) -> None:
        """Closes the folder and releases its lock."""
        self.primary_key_tables.close()
        self.metadata.close()
        self._lock.close()

    def __enter__(self) -> EmbeddedStorage:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check_options(self, properties: Mapping[str, str]) -> None:
        check_new_options(properties)

    def dropped_partitions(self) -> Sequence[DroppedPartition]:
        with self.metadata.read() as connection:
            return list_dropped(connection)

    def forget_dropped_partitions(self, partition_ids: Collection[int]) -> None:
        with self.metadata.write() as connection:
            delete_dropped(connection, partition_ids)

    def tables(self, database_name: str | None = None) -> Sequence[TableInfo]:
        """Returns tables, sorted by path; the same list object while no table was created, changed or dropped. Implements
        `TableCatalog.tables`.
        """
        return self._listing.all() if database_name is None else self._listing.of(check_database(database_name))

    def table(self, path: TablePath) -> TableInfo:
        check_path(path)
        return self._listing.find(path)

    def create_database(self, name: str, ignore_if_exists: bool = False) -> None:
        check_database(name)
        with self.metadata.write() as connection:
            table_rows.insert_database(connection, name, ignore_if_exists)

    def drop_database(self, name: str) -> None:
        check_database(name)
        with self.metadata.write() as connection:
            table_rows.delete_database(connection, name)

    @property
    def definitions(self) -> TableDefinitions:
        """Implements `DefiningCluster`."""
        return self

    def create_table(self, path: TablePath, spec: TableSpec, ignore_if_exists: bool = False) -> TableInfo:
        check_path(path)
        with self._listing.altering() as (connection, touched):
            info, is_new = table_rows.insert_table(connection, path, spec, ignore_if_exists, self._clock.now())
            if is_new:
                check_new_name(path)
                check_file_order(info)
            if is_new and info.lake_enabled:
                self._check_lake(info)
            touched.add(info.table_id)
        return info

    def drop_table(self, path: TablePath) -> None:
        check_path(path)
        table_id = self._listing.find(path).table_id
        with self.primary_key_tables.exclusive(table_id):
            with self._listing.altering() as (connection, touched):
                touched.add(table_id)
                table_rows.delete_table(connection, path, table_id)
                lease_rows.end_empty(connection)
                self._bury(table_tombstone(self.root, table_id))
            # Best effort: the table is dropped already, and the next start removes what is left.
            with contextlib.suppress(OSError):
                self.primary_key_tables.forget(table_id)
                shutil.rmtree(self.root / LOG_FOLDER / str(table_id), ignore_errors=True)
                shutil.rmtree(self.root / SNAPSHOT_FOLDER / str(table_id), ignore_errors=True)

    def add_partitions(self, path: TablePath, names: Sequence[str]) -> None:
        check_path(path)
        with self.metadata.write() as connection:
            ensure_partitions(connection, table_rows.find_table(connection, path).info, names)

    def drop_partition(self, path: TablePath, partition_name: str) -> None:
        check_path(path)
        table_id = self._listing.find(path).table_id
        with self.primary_key_tables.exclusive(table_id), self.metadata.write() as connection:
            insert_dropped(connection, path, partition_name)
            partition_id, paths = table_rows.delete_partition(connection, path, table_id, partition_name)
            lease_rows.end_empty(connection)
            self._bury(partition_tombstone(self.root, table_id, partition_id))
        with contextlib.suppress(OSError, DataCorrupt):
            for segment in paths:
                stored_path(self.root, segment).unlink(missing_ok=True)

    def _bury(self, tombstone: Path) -> None:
        """Writes the tombstone before the drop is committed, so that a reader who misses a segment afterwards finds the reason. After a
        crash in between, `folder.sweep` removes it.
        """
        try:
            write_tombstone(tombstone)
        except OSError as error:
            raise ClusterUnavailable(f"cannot write {tombstone}: {error}", hint="Check that the disk is not full.") from error

    def alter_table(
        self, path: TablePath, set_properties: Mapping[str, str | None], changes: Sequence[SchemaChange] = (), change_id: str | None = None
    ) -> TableInfo:
        """Sets options and changes columns. A repeated request with the same `change_id` changes nothing. Implements
        `WritableCluster.alter_table`.
        """
        check_path(path)
        if not changes:
            return self._alter_table(path, set_properties)
        table_id = self._listing.find(path).table_id
        with self.primary_key_tables.exclusive(table_id):  # a write to a primary-key table reads and logs rows with the same columns
            return self._alter_table(path, set_properties, ColumnChanges(table_id, changes, change_id))

    def set_table_option(self, path: TablePath, name: str, value: str | None, *, dry_run: bool = False) -> TableInfo:
        check_documented_option(name)
        return self._alter_table(path, {name: value}, dry_run=dry_run)

    def _alter_table(
        self, path: TablePath, options: Mapping[str, str | None], columns: ColumnChanges | None = None, *, dry_run: bool = False
    ) -> TableInfo:
        """Sets options, or resets them to their defaults with None, and changes columns, as a whole or not at all."""
        check_path(path)
        with self._listing.altering() as (connection, touched):
            stored = table_rows.find_table(connection, path)
            before = stored.info
            if columns is not None:
                if not table_rows.change_columns(connection, before, columns):
                    return before
                options = {**followed_file_order(before, table_rows.find_table(connection, path).info.schema, options), **options}
            info = table_rows.update_properties(connection, path, options, self._clock.now())
            fixed = [option for option in TABLE_OPTIONS.values() if option.only_before_lake_table]
            changed = [option for option in fixed if option.of(info.properties) != option.of(before.properties)]
            if changed and read_lake_record(connection, info.table_id) is not None:
                raise _other_lake_table(changed[0], info, before)
            _check_bucketing(stored, info)
            check_file_order(info)
            # A table that an older version accepted may still be altered in other ways, for example to disable its lake.
            if info.lake_enabled and (not before.lake_enabled or changed or info.schema_id != before.schema_id):
                self._check_lake(info)
            if dry_run:
                connection.rollback()
            else:
                touched.add(info.table_id)
        return info

    def written_records(self, table_id: int, writer_ids: str) -> int:
        with self.metadata.read() as connection:
            return written_records(connection, table_id, writer_ids)

    def append(self, path: TablePath, rows: Rows, writer_id: str, sequence: int) -> Sequence[AppendedRange]:
        check_path(path)
        check_writer(writer_id, sequence)
        with self.metadata.read() as connection:
            stored = table_rows.find_table(connection, path)
        check_log_table(stored.info)
        return self.log.append(stored, rows, writer_id, sequence)

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
        self.maintenance.lake_is_confirmed = lake_is_confirmed

    def keep_for_reads(self, first_offsets: Callable[[int], Mapping[BucketKey, int] | None]) -> None:
        """Sets the offsets from which on logs are kept. Implements `LogRetention.keep_for_reads`."""
        self.maintenance.kept_for_reads = first_offsets

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
        sweep(root, paths, table_ids, partition_ids, clock.now())
    except OSError as error:
        metadata.close()
        raise SetupError(f"cannot clean up the cluster's folder {root}: {error}", hint="Check its permissions.") from error
    return metadata


def _check_bucketing(stored: table_rows.StoredTable, info: TableInfo) -> None:
    """Raises InvalidArgument for a lake format whose readers would look for rows in other buckets."""
    required = bucketing_for(info.bucket_keys, info.lake_format)
    if info.bucket_count > 1 and stored.bucketing is not required and Bucketing.PAIMON in (stored.bucketing, required):
        raise InvalidArgument(
            f"the lake format of {info.path} cannot become {info.lake_format}: its rows are in buckets by the formula {stored.bucketing}, "
            f"which readers of that format do not know",
            hint="Create a new table with that format, and load it.",
            table_id=info.table_id,
        )


def _other_lake_table(option: TableOption[str], info: TableInfo, before: TableInfo) -> InvalidArgument:
    """Returns the error for an option that the lake table took over when it was created."""
    kind = option.name.rpartition(".")[2]
    now, former = option.of(info.properties), option.of(before.properties)
    return InvalidArgument(
        f"the lake {kind} of {info.path} cannot become {now}: its lake table is {former} already",
        hint=f"Create a new table with that {kind}, and load it.",
        table_id=info.table_id,
    )


def check_path(path: TablePath) -> None:
    """Raises InvalidName for a path with an invalid name."""
    table_path(path.database_name, path.table_name)
