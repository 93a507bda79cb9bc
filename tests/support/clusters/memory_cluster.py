"""A cluster in memory: tables whose buckets have as many records as `append` was told."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from tiering.cluster.base import offsets_one_by_one
from tiering.errors import ClusterUnavailable, Fenced, KvSnapshotGone, UnknownDatabase, UnknownLease, UnknownTable
from tiering.model.leases import KvSnapshot, KvSnapshotLease
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.splits import TieringLogSplit, TieringSplit
from tiering.model.tables import BucketKey, BucketOffsets, Offsets, Partition, TableBucket, TableInfo, TablePath, TableType

WHEN = datetime(2026, 1, 1, tzinfo=UTC)
BATCH_ROWS = 3


def log_table(table_id: int = 1, path: TablePath | None = None, buckets: int = 2) -> TableInfo:
    """A lake-enabled log table with one column."""
    schema = pa.schema([pa.field("id", pa.int64())])
    return TableInfo(
        table_id, path or TablePath("sales", "orders"), TableType.LOG, schema, buckets, WHEN, lake_enabled=True, lake_enabled_at=WHEN
    )


def ids_of(bucket: int, start: int, stop: int) -> list[int]:
    """The rows `[start, stop)` of a bucket: each names its bucket and its offset."""
    return [bucket << 32 | offset for offset in range(start, stop)]


@dataclass(frozen=True)
class MemoryReader:
    """A `SplitReader` whose rows are `ids_of` its offsets."""

    table: TableInfo
    split: TieringLogSplit

    def read(self) -> Iterator[pa.RecordBatch]:
        for start in range(self.split.starting_offset, self.split.stopping_offset, BATCH_ROWS):
            offsets = list(range(start, min(start + BATCH_ROWS, self.split.stopping_offset)))
            ids = ids_of(self.split.bucket.bucket_id, offsets[0], offsets[-1] + 1)
            columns = {"id": ids, "__bucket": [self.split.bucket.bucket_id] * len(offsets), "__offset": offsets}
            yield pa.RecordBatch.from_pydict({**columns, "__timestamp": [WHEN] * len(offsets)}, schema=self.table.lake_schema())


class MemoryCluster:
    """A `ClusterOwner` of log tables without partitions."""

    cluster_id = "cluster-1"

    def __init__(self, *tables: TableInfo) -> None:
        self.by_path: dict[TablePath, TableInfo] = {table.path: table for table in tables}
        self.logs: dict[int, dict[BucketKey, tuple[int, int]]] = {}
        self.bytes_per_record: float | None = 8.0
        self.recorded: dict[int, RecordedLakeSnapshot] = {}
        self.before_rewind: Callable[[], None] = lambda: None
        self.snapshot_properties: dict[str, str] = {}
        self.prepared: list[dict[BucketKey, int]] = []
        self.unreachable_at_prepare = False
        for table in tables:
            self.logs[table.table_id] = {BucketKey(None, number): (0, 0) for number in range(table.bucket_count)}

    def append(self, table: TableInfo, bucket: int, records: int) -> None:
        """Adds records to one bucket."""
        start, end = self.logs[table.table_id][BucketKey(None, bucket)]
        self.logs[table.table_id][BucketKey(None, bucket)] = (start, end + records)

    def databases(self) -> Sequence[str]:
        return sorted({path.database_name for path in self.by_path})

    def tables(self, database_name: str | None = None) -> Sequence[TableInfo]:
        if database_name is not None and database_name not in self.databases():
            raise UnknownDatabase(f"there is no database {database_name}")
        return [self.by_path[path] for path in sorted(self.by_path) if database_name in (None, path.database_name)]

    def table(self, path: TablePath) -> TableInfo:
        if path not in self.by_path:
            raise UnknownTable(f"there is no table {path}", table_path=path)
        return self.by_path[path]

    def partitions(self, table: TableInfo) -> Sequence[Partition]:
        return []

    def offsets(self, table: TableInfo) -> Mapping[BucketKey, BucketOffsets]:
        return {bucket: BucketOffsets(start, end, self.bytes_per_record) for bucket, (start, end) in self.logs[table.table_id].items()}

    def offsets_of(self, tables: Sequence[TableInfo]) -> Mapping[int, Mapping[BucketKey, BucketOffsets]]:
        return offsets_one_by_one(self, tables)

    def oldest_timestamps(self, table: TableInfo, offsets: Offsets) -> Mapping[BucketKey, datetime]:
        return {bucket: WHEN for bucket, offset in offsets.items() if self.logs[table.table_id][bucket][1] > offset}

    def reader(self, table: TableInfo, split: TieringSplit) -> MemoryReader:
        if not isinstance(split, TieringLogSplit):
            raise KvSnapshotGone(f"{table.path} has no KV snapshot {split.snapshot_id}", table_id=table.table_id)
        return MemoryReader(table, split)

    def kv_snapshots(self, table: TableInfo) -> Mapping[BucketKey, KvSnapshot]:
        return {}

    def acquire_lease(
        self, lease_id: str, ttl_ms: int, snapshots: Mapping[TableBucket, int], owner: str | None = None
    ) -> Collection[TableBucket]:
        if not snapshots:
            raise UnknownLease(f"there is no lease {lease_id!r}")
        return tuple(snapshots)

    def release_lease(self, lease_id: str, buckets: Collection[TableBucket]) -> Collection[TableBucket]:
        return ()

    def drop_lease(self, lease_id: str) -> bool:
        return False

    def leases(self) -> Sequence[KvSnapshotLease]:
        return ()

    def close(self) -> None:
        """Nothing is held open."""

    def lake_snapshot(self, table: TableInfo) -> RecordedLakeSnapshot | None:
        return self.recorded.get(table.table_id)

    def rewind_lake_snapshot(self, table: TableInfo, snapshot: RecordedLakeSnapshot) -> None:
        self.before_rewind()
        self.recorded[table.table_id] = snapshot

    def prepare_lake_commit(self, table: TableInfo, offsets: Offsets) -> Mapping[str, str]:
        if self.unreachable_at_prepare:
            raise ClusterUnavailable("the cluster does not answer")
        self.prepared.append(dict(offsets))
        return self.snapshot_properties

    def record_lake_snapshot(self, table: TableInfo, snapshot: RecordedLakeSnapshot) -> None:
        recorded = self.recorded.get(table.table_id)
        if recorded is not None and any(snapshot.offsets.get(bucket, 0) < offset for bucket, offset in recorded.offsets.items()):
            raise Fenced(f"the lake record of {table.path} would go back", table_id=table.table_id)
        self.recorded[table.table_id] = snapshot
