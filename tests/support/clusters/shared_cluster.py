"""A cluster in memory whose tables another tiering service tiers, too: it keeps the record of a lake table as Fluss 0.9.1 does.

A record names a snapshot and the path of a file of offsets. The last write wins, offsets go back without an error, and a write with
`keep` unset deletes the files of all other registered snapshots, and its own when it is repeated.

A partitioned table has one partition name. `recreate` drops the partition, and the next one gets a new id; only this cluster remembers for
ever what the former one wrote.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa

from support.clusters.memory_cluster import WHEN, MemoryCluster
from tiering.errors import ClusterUnavailable, LakeRecordUnreadable, LogTruncated, SourceChanged
from tiering.model.assignments import ServiceMode
from tiering.model.leases import KvSnapshot
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.splits import TieringLogSplit, TieringSplit
from tiering.model.tables import SNAPSHOT_OFFSET, BucketKey, ChangeType, Offsets, Partition, TableBucket, TableInfo, TableType

PARTITION_NAME = "eu"
Record = tuple[ChangeType, int] | None
"""Kind and key of a log record; None = an offset without a row."""


def commit_time(bucket: BucketKey, offset: int) -> datetime:
    """When a record was committed: those of a later partition came later."""
    return WHEN + timedelta(hours=bucket.partition_id or 0, milliseconds=offset)


def value_of(bucket: BucketKey, offset: int) -> int:
    """The value of a record's row: no other record has it, also in another partition."""
    return (bucket.partition_id or 0) * 1_000_000 + offset


@dataclass(frozen=True)
class SharedReader:
    """A `SplitReader` of the records that there are. Of a KV snapshot it reads one row: the lake in memory knows what is in it."""

    table: TableInfo
    split: TieringSplit
    records: tuple[tuple[int, Record], ...]

    def read(self) -> Iterator[pa.RecordBatch]:
        rows = [(offset, record) for offset, record in self.records if record is not None]
        if rows:
            columns = {
                "id": [record[1] for _, record in rows],
                "value": [value_of(self.split.bucket, offset) for offset, _ in rows],
                "__bucket": [self.split.bucket.bucket_id] * len(rows),
                "__offset": [offset for offset, _ in rows],
                "__timestamp": [commit_time(self.split.bucket, offset) for offset, _ in rows],
                "__change_type": [int(record[0]) for _, record in rows],
            }
            schema = self.table.read_schema()
            yield pa.RecordBatch.from_pydict({name: columns[name] for name in schema.names}, schema=schema)


class SharedMemoryCluster(MemoryCluster):
    """A `ClusterOwner` of one table beside another service. `records` is the log by bucket, whatever retention cut."""

    service_mode = ServiceMode.SHARED

    def __init__(self, table: TableInfo) -> None:
        super().__init__(table)
        self.shared_table = table
        self.partition_id: int | None = 1 if table.partition_keys else None
        self.is_dropped = False
        """Whether there is no partition now."""
        if table.partition_keys:
            self.logs[table.table_id] = dict.fromkeys(self._buckets(), (0, 0))
        self.records: dict[BucketKey, list[Record]] = {bucket: [] for bucket in self.logs[table.table_id]}
        self.files: dict[str, dict[BucketKey, int]] = {}
        self.registered: dict[int, str] = {}
        self.latest: int | None = None
        self.takes_kv_snapshots = False
        self.highest_told: dict[BucketKey, int] = {}
        """Tablet servers only ever raise the lake offset: retention follows it."""
        self._names = itertools.count(1)

    def _buckets(self) -> list[BucketKey]:
        return [BucketKey(self.partition_id, number) for number in range(self.shared_table.bucket_count)]

    @property
    def living(self) -> list[BucketKey]:
        """The buckets that there are."""
        return list(self.logs[self.shared_table.table_id])

    def drop_partition(self) -> None:
        """All of its log is gone."""
        self.is_dropped = True
        self.logs[self.shared_table.table_id] = {}

    def create_partition(self) -> None:
        """Another one of that name."""
        assert self.partition_id is not None
        self.partition_id += 1
        self.is_dropped = False
        self.logs[self.shared_table.table_id] = dict.fromkeys(self._buckets(), (0, 0))
        self.records |= {bucket: [] for bucket in self._buckets()}

    def partitions(self, table: TableInfo) -> list[Partition]:
        if self.partition_id is None or self.is_dropped:
            return []
        return [Partition(self.partition_id, PARTITION_NAME)]

    def oldest_timestamps(self, table: TableInfo, offsets: Offsets) -> Mapping[BucketKey, datetime]:
        ends = self.ends()
        return {bucket: commit_time(bucket, offset) for bucket, offset in offsets.items() if ends.get(bucket, 0) > offset}

    def write(self, bucket: int, *records: Record) -> None:
        """Adds records to one bucket's log; a partition is created on its first record."""
        if self.is_dropped:
            self.create_partition()
        key = BucketKey(self.partition_id, bucket)
        self.records[key].extend(records)
        start, end = self.logs[self.shared_table.table_id][key]
        self.logs[self.shared_table.table_id][key] = (start, end + len(records))

    def cut(self, bucket: int, start: int) -> None:
        """Retention removes what is below `start`."""
        key = BucketKey(self.partition_id, bucket)
        _, end = self.logs[self.shared_table.table_id][key]
        self.logs[self.shared_table.table_id][key] = (start, end)

    def ends(self) -> dict[BucketKey, int]:
        return {bucket: end for bucket, (_, end) in self.logs[self.shared_table.table_id].items()}

    def reader(self, table: TableInfo, split: TieringSplit) -> SharedReader:  # type: ignore[override]
        if not isinstance(split, TieringLogSplit):
            return SharedReader(table, split, ((SNAPSHOT_OFFSET, (ChangeType.INSERT, 0)),))
        start, stop = split.starting_offset, split.stopping_offset
        if split.bucket not in self.logs[table.table_id]:
            raise SourceChanged(f"bucket {split.bucket} is gone", table_path=table.path)
        if start < self.logs[table.table_id][split.bucket][0]:
            raise LogTruncated(f"bucket {split.bucket} lacks the offset {start}")
        return SharedReader(table, split, tuple(enumerate(self.records[split.bucket][start:stop], start)))

    def kv_snapshots(self, table: TableInfo) -> Mapping[BucketKey, KvSnapshot]:
        """One of each bucket at its log's end."""
        if table.table_type is TableType.LOG or not self.takes_kv_snapshots:
            return {}
        return {bucket: KvSnapshot(1, end) for bucket, end in self.ends().items() if end > 0}

    def prepare(self, offsets: Offsets, *, ignore_previous: bool = False) -> str:
        """Writes a file of offsets, merged over those on record; its path."""
        before: dict[BucketKey, int] = {}
        if not ignore_previous and self.latest is not None:
            path = self.registered[self.latest]
            if path not in self.files:
                raise ClusterUnavailable(f"the file {path} is gone")
            before = self.files[path]
        path = f"offsets-{next(self._names)}"
        self.files[path] = {**before, **offsets}
        return path

    def register(self, snapshot_id: int, path: str, keep: int | None = None) -> None:
        """CommitLakeTableSnapshot."""
        if keep is None:
            doomed = list(self.registered.values())
            self.registered = {}
            for other in doomed:
                self.files.pop(other, None)  # its own, too, if it was registered before
        self.registered[snapshot_id] = path
        self.latest = snapshot_id
        for bucket, offset in self.files.get(path, {}).items():
            self.highest_told[bucket] = max(offset, self.highest_told.get(bucket, 0))

    def acquire_lease(
        self, lease_id: str, ttl_ms: int, snapshots: Mapping[TableBucket, int], owner: str | None = None
    ) -> Collection[TableBucket]:
        return ()

    def lake_snapshot(self, table: TableInfo) -> RecordedLakeSnapshot | None:
        if self.latest is None:
            return None
        path = self.registered[self.latest]
        if path not in self.files:
            raise LakeRecordUnreadable(f"the file {path} is gone", table_id=table.table_id)
        return RecordedLakeSnapshot(self.latest, dict(self.files[path]))

    def record_lake_snapshot(self, table: TableInfo, snapshot: RecordedLakeSnapshot) -> None:
        raise AssertionError("beside another service offsets may go back")

    def rewind_lake_snapshot(self, table: TableInfo, snapshot: RecordedLakeSnapshot) -> None:
        """Records a lake snapshot as Lakeward does in Fluss: a separate file that no snapshot names, all buckets in it, and `keep` set."""
        self.before_rewind()
        self.register(snapshot.lake_snapshot_id, self.prepare(snapshot.offsets, ignore_previous=True), keep=-1)
