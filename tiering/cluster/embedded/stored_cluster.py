"""What can be read of a cluster's folder, the same for its owner (`storage`) and for whoever reads beside it (`read_only`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from tiering.cluster.capabilities import StandingRecord
from tiering.cluster.embedded.kv.refused_records import REASON, standing_at, text_with_error
from tiering.cluster.embedded.kv.snapshot_files import StoredSnapshot, files_exist
from tiering.cluster.embedded.kv.snapshot_reader import EmbeddedSnapshotReader, open_snapshot_reader
from tiering.cluster.embedded.log.log_index import NO_LIMIT, LogIndex
from tiering.cluster.embedded.log.split_reader import EmbeddedSplitReader, ListedRange, open_reader
from tiering.cluster.embedded.metadata import lease_rows, snapshot_rows, table_rows
from tiering.cluster.embedded.metadata.database import NO_PARTITION, Metadata
from tiering.cluster.embedded.metadata.lake_record import read_lake_record
from tiering.cluster.embedded.metadata.partitions import list_partitions
from tiering.cluster.embedded.metadata.refused_record_rows import refused_of_table
from tiering.errors import UnknownTable
from tiering.model.leases import KvSnapshot, KvSnapshotLease
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.splits import TieringSnapshotSplit, TieringSplit
from tiering.model.tables import BucketKey, BucketOffsets, Offsets, Partition, TableInfo


class StoredCluster:
    """A `SplitSource`, `RewritableLogs` and `LeaseListing` without `tables`, `table` and `close`.

    Each answer is one moment of the metadata.
    """

    def __init__(self, root: Path, metadata: Metadata, log_index: LogIndex) -> None:
        self.root = root
        self.metadata = metadata
        self.log_index = log_index

    @property
    def cluster_id(self) -> str:
        """A UUID made with the folder."""
        return self.metadata.cluster_id

    def databases(self) -> Sequence[str]:
        """As `TableCatalog.databases`."""
        with self.metadata.read() as connection:
            return table_rows.list_databases(connection)

    def partitions(self, table: TableInfo) -> Sequence[Partition]:
        """As `TableCatalog.partitions`."""
        return self.list_partitions(table.table_id)

    def list_partitions(self, table_id: int, after: int = NO_PARTITION, limit: int = NO_LIMIT) -> Sequence[Partition]:
        """The first `limit` partitions with an id above `after`, by id. Raises UnknownTable."""
        with self.metadata.read() as connection:
            if not table_rows.table_exists(connection, table_id):
                raise UnknownTable(f"the table with id {table_id} is gone", table_id=table_id)
            return tuple(list_partitions(connection, table_id, after, limit))

    def lake_snapshot(self, table: TableInfo) -> RecordedLakeSnapshot | None:
        """As `TableCatalog.lake_snapshot`."""
        return self.lake_record(table.table_id)

    def lake_record(self, table_id: int) -> RecordedLakeSnapshot | None:
        """What is recorded of the lake for the table with that id."""
        with self.metadata.read() as connection:
            return read_lake_record(connection, table_id)

    def offsets(self, table: TableInfo) -> Mapping[BucketKey, BucketOffsets]:
        """As `LogOffsets.offsets`."""
        return self.log_index.offsets(table.table_id)

    def offsets_of(self, tables: Sequence[TableInfo]) -> Mapping[int, Mapping[BucketKey, BucketOffsets]]:
        """As `LogOffsets.offsets_of`."""
        return self.log_index.offsets_of([table.table_id for table in tables])

    def oldest_timestamps(self, table: TableInfo, offsets: Offsets) -> Mapping[BucketKey, datetime]:
        """As `LogOffsets.oldest_timestamps`."""
        return self.log_index.oldest_timestamps(table.table_id, offsets)

    def record_traces(self, table: TableInfo, offsets: Offsets) -> Mapping[BucketKey, str]:
        """As `RewritableLogs.record_traces`. The log is rewritten where the folder is an older copy, and writers go on in it."""
        return self.log_index.record_traces(table.table_id, offsets)

    def settle(self, table: TableInfo) -> None:
        """As `RewritableLogs.settle`: nothing, for the folder is read anew by each look."""

    def reader(self, table: TableInfo, split: TieringSplit) -> EmbeddedSplitReader | EmbeddedSnapshotReader:
        """As `SplitSource.reader`."""
        if isinstance(split, TieringSnapshotSplit):
            return open_snapshot_reader(str(self.root), table, split, self.kv_snapshot(table.table_id, split.bucket, split.snapshot_id))
        bounds = self.log_index.bounds(table.table_id, split.bucket)

        def listed(bucket: BucketKey, start: int, stop: int) -> ListedRange:
            segments = self.log_index.segments(table.table_id, bucket, start, stop)
            return ListedRange(str(self.root), segments, self.log_index.refused(table.table_id, bucket))

        return open_reader(table, split, bounds, listed)

    def standing_buckets(self, table_id: int) -> Mapping[BucketKey, StandingRecord]:
        """As `StandingBuckets.standing_buckets`."""
        with self.metadata.read() as connection:
            refused = refused_of_table(connection, table_id)
        standing = {bucket: record for bucket, records in refused.items() if (record := standing_at(records)) is not None}
        return {bucket: StandingRecord(record.offset, REASON, text_with_error(record)) for bucket, record in standing.items()}

    def kv_snapshots(self, table: TableInfo) -> Mapping[BucketKey, KvSnapshot]:
        """As `SplitSource.kv_snapshots`."""
        return self.list_kv_snapshots(table.table_id)

    def list_kv_snapshots(self, table_id: int) -> Mapping[BucketKey, KvSnapshot]:
        """The newest KV snapshot of each bucket that has one, without those that lost files. Raises UnknownTable."""
        with self.metadata.read() as connection:
            if not table_rows.table_exists(connection, table_id):
                raise UnknownTable(f"the table with id {table_id} is gone", table_id=table_id)
            return snapshot_rows.newest_snapshots(connection, table_id, self._files_exist)

    def kv_snapshot(self, table_id: int, bucket: BucketKey, snapshot_id: int) -> StoredSnapshot | None:
        """One KV snapshot with its files; None = it is not there (any more)."""
        with self.metadata.read() as connection:
            return snapshot_rows.find_snapshot(connection, table_id, bucket, snapshot_id)

    def leases(self) -> Sequence[KvSnapshotLease]:
        """As `LeaseListing.leases`."""
        with self.metadata.read() as connection:
            return lease_rows.list_leases(connection, self._files_exist)

    def _files_exist(self, snapshot: StoredSnapshot) -> bool:
        return files_exist(self.root, snapshot.files)
