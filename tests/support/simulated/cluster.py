"""A cluster in memory with tables of both kinds, partitions, KV snapshots and leases, whose answers fail, lag and get lost.

A row is its offset. The log of a primary-key table has an insert and an update in turn: `+I`, `-U`, `+U`. Former records stay known beyond
their end (`all_logs`), for checks of a lake's contents.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pyarrow as pa

from support.clusters.memory_cluster import WHEN, MemoryCluster
from support.simulated.chance import Chance, PanicException
from support.worlds.simulated_effects import SimulatedClock
from tiering.cluster.base import check_goes_on
from tiering.cluster.capabilities import SkipOutcome, SkippedRecord, SkipRequest
from tiering.durations import parse_duration_ms
from tiering.errors import (
    BucketStopped,
    ClusterUnavailable,
    InvalidArgument,
    KvSnapshotGone,
    LogTruncated,
    SourceChanged,
    UnknownLease,
    UnknownPartition,
    UnknownTable,
)
from tiering.model.leases import KvSnapshot, KvSnapshotLease, LeasedSnapshot
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.splits import TieringLogSplit, TieringSplit
from tiering.model.tables import (
    SNAPSHOT_OFFSET,
    BucketKey,
    BucketOffsets,
    ChangeType,
    Offsets,
    Partition,
    TableBucket,
    TableInfo,
    TablePath,
    TableType,
)

BATCH_ROWS = 3
CYCLE = (ChangeType.INSERT, ChangeType.UPDATE_BEFORE, ChangeType.UPDATE_AFTER)
FRESHNESS_MS = 1_000
BUCKETS = 2
SCHEMA = pa.schema([pa.field("id", pa.int64())])
USERS_LEASE = "ann"
"""No tierer's."""
UNAVAILABLE = 0.004
STALE = 0.02
SUPERSEDED = 0.1
"""Share of lease requests just before which the next KV snapshot is taken."""


def source_table(table_id: int, path: TablePath, *, primary_key: bool, partitioned: bool, since: datetime = WHEN) -> TableInfo:
    """A lake-enabled table; its one column is the offset."""
    return TableInfo(
        table_id=table_id,
        path=path,
        table_type=TableType.PRIMARY_KEY if primary_key else TableType.LOG,
        schema=SCHEMA,
        bucket_count=BUCKETS,
        created_at=since,
        primary_key=("id",) if primary_key else (),
        partition_keys=("region",) if partitioned else (),
        lake_enabled=True,
        lake_enabled_at=since,
        freshness_ms=FRESHNESS_MS,
    )


@dataclass
class Lease:
    """Held snapshots by bucket, and when it was renewed (steady time)."""

    ttl_ms: int
    renewed_ms: int
    snapshots: dict[TableBucket, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SimulatedReader:
    """A `SplitReader`: between its batches everybody else goes on."""

    cluster: SimulatedCluster
    table: TableInfo
    split: TieringSplit

    def read(self) -> Iterator[pa.RecordBatch]:
        self.cluster.during_reads()
        self.cluster.answer("read")
        if isinstance(self.split, TieringLogSplit):
            yield from self._log(self.split)
            return
        for part in range(self.cluster.snapshot_parts):
            if part:
                self.cluster.during_reads()
            self._check_snapshot()
            yield self._batch([self.split.log_offset_of_snapshot], SNAPSHOT_OFFSET)

    def _log(self, split: TieringLogSplit) -> Iterator[pa.RecordBatch]:
        for start in range(split.starting_offset, split.stopping_offset, BATCH_ROWS - self._is_keyed):
            log_start, log_end = self.cluster.log_of(self.table, split.bucket)
            stop = min(start + BATCH_ROWS - self._is_keyed, split.stopping_offset)
            if start < log_start or stop > log_end:
                raise LogTruncated(f"offsets {start} to {stop} are not in [{log_start}, {log_end}) any more")
            yield self._batch(list(range(start, stop)))
            self.cluster.during_reads()

    @property
    def _is_keyed(self) -> bool:
        return self.table.table_type is TableType.PRIMARY_KEY

    def _check_snapshot(self) -> None:
        assert not isinstance(self.split, TieringLogSplit)
        if self.split.snapshot_id not in self.cluster.stored_snapshots.get(TableBucket(self.table.table_id, self.split.bucket), {}):
            raise KvSnapshotGone(f"the KV snapshot {self.split.snapshot_id} of {self.table.path} is gone", table_id=self.table.table_id)

    def _batch(self, offsets: list[int], offset: int | None = None) -> pa.RecordBatch:
        count = len(offsets)
        columns: list[pa.Array[pa.Scalar]] = [
            pa.array(offsets, pa.int64()),
            pa.array([self.split.bucket.bucket_id] * count, pa.int32()),
            pa.array(offsets if offset is None else [offset] * count, pa.int64()),
            pa.array([0] * count, pa.timestamp("us", tz="UTC")),
        ]
        names = ["id", "__bucket", "__offset", "__timestamp"]
        if self._is_keyed:
            kinds = [ChangeType.INSERT if offset is not None else CYCLE[at % len(CYCLE)] for at in offsets]
            columns.append(pa.array([int(kind) for kind in kinds], pa.int8()))
            names.append("__change_type")
        return pa.RecordBatch.from_arrays(columns, names)


class SimulatedCluster(MemoryCluster):
    """A `ClusterOwner` with `RewritableLogs` and `KvSnapshotsOnDemand`. `on_record` is called with what is recorded of a lake."""

    def __init__(self, chance: Chance, clock: SimulatedClock) -> None:
        super().__init__()
        self.chance, self.clock = chance, clock
        self.all_logs: dict[int, dict[BucketKey, tuple[int, int]]] = self.logs
        self.partitions_of: dict[int, dict[int, str]] = {}
        self.partition_names: dict[int, str] = {}
        """Names of all partitions that ever existed."""
        self.stored_snapshots: dict[TableBucket, dict[int, int]] = {}
        self.held_leases: dict[str, Lease] = {}
        self.generations: dict[tuple[int, BucketKey], list[int]] = {}
        """By bucket, the offsets from which on records were written anew."""
        self.stale: set[int] = set()
        self.standing: dict[tuple[int, BucketKey], int] = {}
        """Buckets whose rows cannot take a record of their log, and its offset."""
        self.skipped: set[tuple[int, BucketKey, int]] = set()
        self.during_reads: Callable[[], None] = lambda: None
        self.on_record: Callable[[TableInfo, RecordedLakeSnapshot], None] = lambda table, snapshot: None
        self.auto_compaction = False
        """Setting of new tables."""
        self.read_at_once = True
        self.supersedes = False
        """Whether snapshots go just before they are leased."""
        self.snapshot_parts = 1
        """In which a KV snapshot is read."""
        self.ever_leased: set[tuple[TableBucket, int]] = set()
        """Snapshots, by bucket and number."""
        self.dropped_leases: set[str] = set()
        """Leases that were released completely or in part, without the knowledge of their holder."""
        self._numbers = itertools.count(1)

    # --- what its users do

    def create(self, path: TablePath, *, primary_key: bool, partitioned: bool) -> TableInfo:
        """A new table under a free path."""
        info = source_table(next(self._numbers), path, primary_key=primary_key, partitioned=partitioned, since=self.clock.now())
        info = replace(info, auto_compaction=self.auto_compaction)
        self.by_path[path] = info
        self.partitions_of[info.table_id] = {}
        self.logs[info.table_id] = {} if partitioned else {BucketKey(None, number): (0, 0) for number in range(BUCKETS)}
        if partitioned:
            self.add_partition(info, "eu")
        return info

    def add_partition(self, table: TableInfo, name: str) -> None:
        """Made anew, it has another id than before."""
        partition_id = next(self._numbers)
        self.partitions_of[table.table_id][partition_id] = name
        self.partition_names[partition_id] = name
        self.logs[table.table_id] |= {BucketKey(partition_id, number): (0, 0) for number in range(BUCKETS)}

    def drop_partition(self, table: TableInfo, partition_id: int) -> None:
        del self.partitions_of[table.table_id][partition_id]

    def drop(self, path: TablePath) -> None:
        info = self.by_path.pop(path)
        for bucket in [bucket for bucket in self.stored_snapshots if bucket.table_id == info.table_id]:
            del self.stored_snapshots[bucket]

    def change(self, table: TableInfo, **fields: object) -> TableInfo:
        """Alters a table, or renames it."""
        changed = replace(self.by_path.pop(table.path), **fields)  # type: ignore[arg-type]
        self.by_path[changed.path] = changed
        return changed

    def buckets(self, table: TableInfo) -> list[BucketKey]:
        """Returns the existing buckets."""
        living = self.partitions_of[table.table_id].keys() if table.partition_keys else {None}
        return [bucket for bucket in self.logs[table.table_id] if bucket.partition_id in living]

    def append_to(self, table: TableInfo, bucket: BucketKey, records: int) -> None:
        """Writes records; to a primary-key table whole cycles of changes."""
        start, end = self.logs[table.table_id][bucket]
        self.logs[table.table_id][bucket] = (start, end + records * (len(CYCLE) if table.primary_key else 1))

    def cut(self, table: TableInfo, bucket: BucketKey, new_start: int) -> None:
        """Retention removes the log's beginning; of a bucket that stands none that its rows are restored from."""
        start, end = self.logs[table.table_id][bucket]
        if (table.table_id, bucket) in self.standing:
            new_start = min(new_start, self._restored_from(table.table_id, bucket))
        self.logs[table.table_id][bucket] = (max(start, min(new_start, end)), end)

    def rewrite(self, table: TableInfo, bucket: BucketKey, records: int) -> int:
        """The last records are lost, and others come in their place; the first of them."""
        start, end = self.logs[table.table_id][bucket]
        first = max(end - records, start)
        self.generations.setdefault((table.table_id, bucket), []).append(first)
        return first

    def refuse(self, table: TableInfo, bucket: BucketKey, change: int) -> bool:
        """Changes come, and rows cannot take one of the three: the bucket stands there. Whether it does: rows are restored from its log."""
        start, end = self.logs[table.table_id][bucket]
        place = (table.table_id, bucket)
        if self._restored_from(*place) < start or place in self.standing:
            return False
        self.append_to(table, bucket, 1)
        self.standing[place] = end + change
        return True

    def _restored_from(self, table_id: int, bucket: BucketKey) -> int:
        """Up to where the KV snapshots of a bucket have its rows."""
        return max(self.stored_snapshots.get(TableBucket(table_id, bucket), {}).values(), default=0)

    def skip_record(self, request: SkipRequest) -> SkippedRecord:
        table = self.table(request.path)
        self.answer("skipping")
        names = {name: number for number, name in self.partitions_of[table.table_id].items()}
        if request.partition_name is not None and request.partition_name not in names:
            raise UnknownPartition(f"{table.path} has no partition {request.partition_name}")
        bucket = BucketKey(None if request.partition_name is None else names[request.partition_name], request.bucket_id)
        place = (table.table_id, bucket)
        if (*place, request.offset) in self.skipped:
            return SkippedRecord(table.table_id, "it", SkipOutcome.ALREADY_SKIPPED)
        if self.standing.get(place) != request.offset:
            raise InvalidArgument(f"bucket {bucket} of {table.path} does not stand at offset {request.offset}")
        if request.dry_run:
            return SkippedRecord(table.table_id, "it", SkipOutcome.WOULD_SKIP)
        self.skipped.add((*place, request.offset))
        del self.standing[place]
        if self.chance.strikes("cluster-unreachable", 5 * UNAVAILABLE):
            raise ClusterUnavailable("the answer of the cluster got lost")
        return SkippedRecord(table.table_id, "it", SkipOutcome.SKIPPED)

    def set_table_option(self, path: TablePath, name: str, value: str | None, *, dry_run: bool = False) -> TableInfo:
        table = self.table(path)
        self.answer("setting an option")
        freshness_ms = FRESHNESS_MS if value is None else parse_duration_ms(value, name)
        properties = {key: text for key, text in {**table.properties, name: value}.items() if text is not None}
        changed = replace(table, properties=properties, freshness_ms=freshness_ms)
        return changed if dry_run else self.change(table, properties=properties, freshness_ms=freshness_ms)

    def take_kv_snapshots(self, path: TablePath) -> Mapping[BucketKey, KvSnapshot]:
        table = self.table(path)
        for bucket in self.buckets(table):
            _, end = self.logs[table.table_id][bucket]
            stored = self.stored_snapshots.setdefault(TableBucket(table.table_id, bucket), {})
            stands = (table.table_id, bucket) in self.standing  # its rows are not those of its log's end
            if end and end not in stored.values() and not stands:
                stored[next(self._numbers)] = end
        return self.kv_snapshots(table)

    def collect_garbage(self) -> None:
        """Ends leases that were not renewed, and deletes superseded snapshots without a lease."""
        now = self.clock.ms
        for name in [name for name, lease in self.held_leases.items() if lease.renewed_ms + lease.ttl_ms <= now]:
            del self.held_leases[name]
            if name != USERS_LEASE:
                self.chance.note("lease-expired")
        leased = {(bucket, number) for lease in self.held_leases.values() for bucket, number in lease.snapshots.items()}
        for bucket, stored in self.stored_snapshots.items():
            newest = max(stored, default=None)
            for number in [number for number in stored if number != newest and (bucket, number) not in leased]:
                del stored[number]

    # --- what it answers

    def answer(self, question: str) -> None:
        """At times it has no answer."""
        if self.chance.strikes("cluster-unreachable", UNAVAILABLE):
            raise ClusterUnavailable(f"the cluster does not answer: {question}")
        if question == "read" and self.chance.strikes("library-panic", UNAVAILABLE):
            raise PanicException("in a library that reads")

    def log_of(self, table: TableInfo, bucket: BucketKey) -> tuple[int, int]:
        """Raises UnknownTable if it is gone, SourceChanged if the bucket's partition is."""
        self._check(table)
        if bucket.partition_id is not None and bucket.partition_id not in self.partitions_of[table.table_id]:
            raise SourceChanged(f"the partition {bucket.partition_id} of {table.path} was dropped", table_id=table.table_id)
        return self.logs[table.table_id][bucket]

    def partitions(self, table: TableInfo) -> Sequence[Partition]:
        self._check(table)
        return [Partition(number, name) for number, name in self.partitions_of[table.table_id].items()]

    def offsets(self, table: TableInfo) -> Mapping[BucketKey, BucketOffsets]:
        """Returns the offsets of a leader that moved just now, fewer than there are, until `settle`; at times one of the leaders does not
        answer."""
        self._check(table)
        self.answer("offsets")
        offsets = super().offsets(table)
        buckets = self.buckets(table)
        if self.chance.strikes("ends-stale", STALE):
            self.stale.add(table.table_id)
        if len(buckets) > 1 and self.chance.strikes("bucket-without-ends", STALE):
            buckets = buckets[1:]
        back = len(CYCLE) if table.table_id in self.stale else 0
        return {bucket: self._shown(offsets[bucket], back) for bucket in buckets}

    @staticmethod
    def _shown(log: BucketOffsets, back: int) -> BucketOffsets:
        return replace(log, log_end=max(log.log_end - back, log.log_start)) if back else log

    def settle(self, table: TableInfo) -> None:
        self.stale.discard(table.table_id)

    def record_traces(self, table: TableInfo, offsets: Offsets) -> Mapping[BucketKey, str]:
        return {bucket: f"{bucket} {at} {self._generation(table, bucket, at)}" for bucket, at in offsets.items() if at > 0}

    def _generation(self, table: TableInfo, bucket: BucketKey, at: int) -> int:
        return sum(first < at for first in self.generations.get((table.table_id, bucket), ()))

    def oldest_timestamps(self, table: TableInfo, offsets: Offsets) -> Mapping[BucketKey, datetime]:
        return {bucket: WHEN for bucket, offset in offsets.items() if self.logs[table.table_id][bucket][1] > offset}

    def reader(self, table: TableInfo, split: TieringSplit) -> SimulatedReader:  # type: ignore[override]
        """Raises BucketStopped for a split with the record at which its bucket stands."""
        standing = self.standing.get((table.table_id, split.bucket), -1)
        if isinstance(split, TieringLogSplit) and split.starting_offset <= standing < split.stopping_offset:
            name = self.partition_names.get(split.bucket.partition_id or 0)
            partition = "" if name is None else f", partition => '{name}'"
            raise BucketStopped(
                f"bucket {split.bucket} of {table.path} stands at offset {standing}",
                hint=f"CALL sys.skip_record('{table.path}', {split.bucket.bucket_id}, {standing}{partition}, reason => '...')",
                table_id=table.table_id,
                bucket=split.bucket,
                offset=standing,
            )
        return SimulatedReader(self, table, split)

    def kv_snapshots(self, table: TableInfo) -> Mapping[BucketKey, KvSnapshot]:
        self._check(table)
        newest = {}
        for bucket in self.buckets(table):
            stored = self.stored_snapshots.get(TableBucket(table.table_id, bucket), {})
            if stored:
                number = max(stored)
                newest[bucket] = KvSnapshot(number, stored[number])
        return newest

    # --- leases

    def acquire_lease(
        self, lease_id: str, ttl_ms: int, snapshots: Mapping[TableBucket, int], owner: str | None = None
    ) -> Collection[TableBucket]:
        self.answer("leases")
        if snapshots and self.supersedes and self.chance.faulty and self.chance.may("kv-snapshot-superseded"):
            self._supersede(snapshots)
        lease = self.held_leases.get(lease_id)
        here = {bucket: number for bucket, number in snapshots.items() if number in self.stored_snapshots.get(bucket, {})}
        if not (snapshots.items() <= here.items() | self.ever_leased):
            self.chance.note("kv-snapshot-superseded")
        self.ever_leased |= here.items()
        if lease is None and not snapshots:
            raise UnknownLease(f"there is no lease {lease_id!r}")
        if lease is None and here:
            lease = self.held_leases[lease_id] = Lease(ttl_ms, self.clock.ms)
        if lease is not None:
            lease.renewed_ms, lease.ttl_ms = self.clock.ms, ttl_ms
            lease.snapshots |= here
            if snapshots and here.keys() == snapshots.keys():  # else its tierer still has what it lost meanwhile, until that round ends
                self.dropped_leases.discard(lease_id)
        return [bucket for bucket in snapshots if bucket not in here]

    def _supersede(self, buckets: Collection[TableBucket]) -> None:
        """At times their tables have grown, and have other snapshots now."""
        if self.chance.random.random() >= SUPERSEDED:
            return
        ids = {bucket.table_id for bucket in buckets}
        for table in [table for table in self.tables() if table.table_id in ids]:
            for bucket in self.buckets(table):
                self.append_to(table, bucket, 1)
            self.take_kv_snapshots(table.path)
        self.collect_garbage()

    def release_lease(self, lease_id: str, buckets: Collection[TableBucket]) -> Collection[TableBucket]:
        lease = self.held_leases.get(lease_id)
        released = [] if lease is None else [bucket for bucket in buckets if lease.snapshots.pop(bucket, None) is not None]
        if lease is not None and not lease.snapshots:
            del self.held_leases[lease_id]
        return released

    def drop_lease(self, lease_id: str) -> bool:
        self.dropped_leases.add(lease_id)
        return self.held_leases.pop(lease_id, None) is not None

    def leases(self) -> Sequence[KvSnapshotLease]:
        start = self.clock.now() - timedelta(milliseconds=self.clock.ms)
        return [
            KvSnapshotLease(
                lease_id=name,
                acquired_at=start + timedelta(milliseconds=lease.renewed_ms),
                renewed_at=start + timedelta(milliseconds=lease.renewed_ms),
                expires_at=start + timedelta(milliseconds=lease.renewed_ms + lease.ttl_ms),
                ttl_ms=lease.ttl_ms,
                snapshots=tuple(LeasedSnapshot(bucket, number, 0) for bucket, number in lease.snapshots.items()),
            )
            for name, lease in sorted(self.held_leases.items())
        ]

    # --- the lake record

    def lake_snapshot(self, table: TableInfo) -> RecordedLakeSnapshot | None:
        self.answer("lake record")
        return super().lake_snapshot(table)

    def record_lake_snapshot(self, table: TableInfo, snapshot: RecordedLakeSnapshot) -> None:
        self._check(table)
        self.answer("recording")
        recorded = self.recorded.get(table.table_id)
        if recorded is not None:
            check_goes_on(table, recorded, snapshot, self.partitions_of[table.table_id].keys())
        self.recorded[table.table_id] = snapshot
        self.on_record(table, snapshot)
        if self.chance.strikes("record-answer-lost", 5 * UNAVAILABLE):
            raise ClusterUnavailable("the answer of the cluster got lost")

    def rewind_lake_snapshot(self, table: TableInfo, snapshot: RecordedLakeSnapshot) -> None:
        self._check(table)
        super().rewind_lake_snapshot(table, snapshot)
        self.on_record(table, snapshot)

    def _check(self, table: TableInfo) -> None:
        if not any(info.table_id == table.table_id for info in self.by_path.values()):
            raise UnknownTable(f"there is no table {table.path} with the id {table.table_id}", table_path=table.path)
