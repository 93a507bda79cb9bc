"""The readable content of a cluster's folder, for its owner (`storage`) and for other processes, which never write to it.

Segments are immutable; if log retention deletes one while it is read, the error says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

import pyarrow as pa
import sqlalchemy as sa

from tiering.cluster.capabilities import BlockingRecord
from tiering.cluster.embedded.kv.refused_records import REASON, blocking_record, refused_of_table, text_with_error
from tiering.cluster.embedded.kv.snapshot_files import EmbeddedSnapshotReader, StoredSnapshot, files_exist, open_snapshot_reader
from tiering.cluster.embedded.log.bucketing import key_buckets
from tiering.cluster.embedded.log.log_index import NO_LIMIT, LogIndex
from tiering.cluster.embedded.log.split_reader import EmbeddedSplitReader, ListedRange, open_reader
from tiering.cluster.embedded.metadata import lease_rows, snapshot_rows, table_rows
from tiering.cluster.embedded.metadata.database import FILE_NAME, FORMAT_VERSION, NO_PARTITION, Metadata, facts
from tiering.cluster.embedded.metadata.lake_record import read_lake_record
from tiering.cluster.embedded.metadata.partitions import list_partitions
from tiering.errors import SetupError, UnknownTable
from tiering.files.sqlite_files import harden, read_only_url
from tiering.model.leases import KvSnapshot, KvSnapshotLease
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.splits import TieringSnapshotSplit, TieringSplit
from tiering.model.tables import BucketKey, BucketOffsets, Offsets, Partition, TableInfo, TablePath


class StoredCluster:
    """A `SplitSource`, `RewritableLogs`, `KeyBuckets`, `DenseOffsets`, `FormerColumns` and `LeaseListing`, without `tables`, `table` and
    `close`.

    Each answer shows the metadata at one moment.
    """

    def __init__(self, root: Path, metadata: Metadata, log_index: LogIndex) -> None:
        self.root = root
        self.metadata = metadata
        self.log_index = log_index

    @property
    def cluster_id(self) -> str:
        """Returns the UUID that was created with the folder."""
        return self.metadata.cluster_id

    def databases(self) -> Sequence[str]:
        """Returns the names of all databases. Implements `TableCatalog.databases`."""
        with self.metadata.read() as connection:
            return table_rows.list_databases(connection)

    def partitions(self, table: TableInfo) -> Sequence[Partition]:
        """Returns the partitions of a table. Implements `TableCatalog.partitions`."""
        return self.list_partitions(table.table_id)

    def list_partitions(self, table_id: int, after: int = NO_PARTITION, limit: int = NO_LIMIT) -> Sequence[Partition]:
        """Returns the first `limit` partitions with an id above `after`, by id. Raises UnknownTable."""
        with self.metadata.read() as connection:
            if not table_rows.table_exists(connection, table_id):
                raise UnknownTable(f"the table with id {table_id} does not exist", table_id=table_id)
            return tuple(list_partitions(connection, table_id, after, limit))

    def lake_snapshot(self, table: TableInfo) -> RecordedLakeSnapshot | None:
        """Returns the recorded lake snapshot of a table. Implements `TableCatalog.lake_snapshot`."""
        return self.lake_record(table.table_id)

    def lake_record(self, table_id: int) -> RecordedLakeSnapshot | None:
        """Returns the recorded lake snapshot of the table with that id."""
        with self.metadata.read() as connection:
            return read_lake_record(connection, table_id)

    def offsets(self, table: TableInfo) -> Mapping[BucketKey, BucketOffsets]:
        """Returns the offsets of all buckets. Implements `LogOffsets.offsets`."""
        return self.log_index.offsets(table.table_id)

    def offsets_of(self, tables: Sequence[TableInfo]) -> Mapping[int, Mapping[BucketKey, BucketOffsets]]:
        """Returns the offsets of several tables at one moment. Implements `LogOffsets.offsets_of`."""
        return self.log_index.offsets_of([table.table_id for table in tables])

    def oldest_timestamps(self, table: TableInfo, offsets: Offsets) -> Mapping[BucketKey, datetime]:
        """Returns the commit times of records. Implements `LogOffsets.oldest_timestamps`."""
        return self.log_index.oldest_timestamps(table.table_id, offsets)

    def record_traces(self, table: TableInfo, offsets: Offsets) -> Mapping[BucketKey, str]:
        """Returns the traces of records. Implements `RewritableLogs.record_traces`.

        A log is rewritten if the folder is restored to an older copy and writers continue in it.
        """
        return self.log_index.record_traces(table.table_id, offsets)

    def settle(self, table: TableInfo) -> None:
        """Does nothing, because each call reads the folder again. Implements `RewritableLogs.settle`."""

    def reader(self, table: TableInfo, split: TieringSplit) -> EmbeddedSplitReader | EmbeddedSnapshotReader:
        """Returns the reader of a split. Implements `SplitSource.reader`."""
        if isinstance(split, TieringSnapshotSplit):
            snapshot = self.kv_snapshot(table.table_id, split.bucket, split.snapshot_id)
            return open_snapshot_reader(str(self.root), table, split, snapshot, partial(self.columns_at, table.table_id))
        bounds = self.log_index.bounds(table.table_id, split.bucket)

        def list_range(bucket: BucketKey, start: int, stop: int) -> ListedRange:
            segments = self.log_index.segments(table.table_id, bucket, start, stop)
            return ListedRange(str(self.root), segments, self.log_index.refused(table.table_id, bucket))

        return open_reader(table, split, bounds, list_range, partial(self.columns_at, table.table_id))

    def columns_at(self, table_id: int, schema_id: int) -> pa.Schema:
        """Returns the columns that a table had with a schema id. Implements `FormerColumns.columns_at`."""
        return self.log_index.columns_at(table_id, schema_id)

    def key_buckets(self, table: TableInfo, keys: pa.RecordBatch) -> Sequence[int]:
        """Returns the bucket of each row of bucket keys. Implements `KeyBuckets.key_buckets`."""
        return key_buckets(table, keys)

    def has_dense_offsets(self, table: TableInfo) -> bool:
        """Returns True: each offset has a record. Implements `DenseOffsets.has_dense_offsets`."""
        return True

    def stopped_buckets(self, table_id: int) -> Mapping[BucketKey, BlockingRecord]:
        """Returns the buckets that are stopped at a record. Implements `StoppedBuckets.stopped_buckets`."""
        with self.metadata.read() as connection:
            refused = refused_of_table(connection, table_id)
        blocking = {bucket: record for bucket, records in refused.items() if (record := blocking_record(records)) is not None}
        return {bucket: BlockingRecord(record.offset, REASON, text_with_error(record)) for bucket, record in blocking.items()}

    def kv_snapshots(self, table: TableInfo) -> Mapping[BucketKey, KvSnapshot]:
        """Returns the newest KV snapshot of each bucket. Implements `SplitSource.kv_snapshots`."""
        return self.list_kv_snapshots(table.table_id)

    def list_kv_snapshots(self, table_id: int) -> Mapping[BucketKey, KvSnapshot]:
        """Returns, for each bucket, its newest KV snapshot whose files exist. Raises UnknownTable."""
        with self.metadata.read() as connection:
            if not table_rows.table_exists(connection, table_id):
                raise UnknownTable(f"the table with id {table_id} does not exist", table_id=table_id)
            return snapshot_rows.newest_snapshots(connection, table_id, self._files_exist)

    def kv_snapshot(self, table_id: int, bucket: BucketKey, snapshot_id: int) -> StoredSnapshot | None:
        """Returns one KV snapshot with its files; None if it does not exist (any more)."""
        with self.metadata.read() as connection:
            return snapshot_rows.find_snapshot(connection, table_id, bucket, snapshot_id)

    def leases(self) -> Sequence[KvSnapshotLease]:
        """Returns all leases. Implements `LeaseListing.leases`."""
        with self.metadata.read() as connection:
            return lease_rows.list_leases(connection, self._files_exist)

    def _files_exist(self, snapshot: StoredSnapshot) -> bool:
        return files_exist(self.root, snapshot.files)


class ReadOnlyEmbeddedCluster(StoredCluster):
    """A `ReadOnlyCluster`. Raises SetupError if the folder does not exist or is of another version.

    Implements `TableCatalog` and `SplitSource`.
    """

    def __init__(self, root: Path) -> None:
        metadata = _open_metadata(root.absolute())
        super().__init__(root.absolute(), metadata, LogIndex(metadata))

    def tables(self, database_name: str | None = None) -> Sequence[TableInfo]:
        """Returns tables, sorted by path. Implements `TableCatalog.tables`."""
        with self.metadata.read() as connection:
            return table_rows.list_tables(connection, database_name)

    def table(self, path: TablePath) -> TableInfo:
        with self.metadata.read() as connection:
            return table_rows.find_table(connection, path).info

    def close(self) -> None:
        self.metadata.close()


def _open_metadata(root: Path) -> Metadata:
    file = root / FILE_NAME
    if not file.is_file():
        raise SetupError(f"{root} has no embedded cluster: {FILE_NAME} is missing", hint="Name a Lakeward data folder.")
    engine = sa.create_engine(read_only_url(file))
    try:
        harden(engine)
        with engine.connect() as connection:
            stored_facts = dict(connection.execute(sa.select(facts.c.name, facts.c.value)).all())
    except sa.exc.SQLAlchemyError as error:
        engine.dispose()
        raise SetupError(f"cannot read {file}: {error}", hint="Check that it is a Lakeward data folder.") from error
    version = int(stored_facts.get("format_version", "0"))
    if version != FORMAT_VERSION:
        engine.dispose()
        newer = version > FORMAT_VERSION
        raise SetupError(
            f"{root} was written by {'a newer' if newer else 'an older'} version (format {version}, known {FORMAT_VERSION})",
            hint="Upgrade Lakeward." if newer else "Start `lakeward up` on it once to upgrade the folder.",
        )
    return Metadata(engine, stored_facts["cluster_id"])
