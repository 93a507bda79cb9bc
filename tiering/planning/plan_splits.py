"""Plans a round: turns the lake's marker and the ends of the log into splits, and cuts a bucket that is far behind. Finds the splits that
can be read, and the write results that may be committed: the contiguous prefix. Pure (DESIGN 6 steps 3 and 5).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Generic, TypeVar

from tiering.errors import BucketStopped, KvSnapshotGone, SourceChanged
from tiering.lake.base import WriteResult
from tiering.lake.marker import TieredRange
from tiering.model.leases import KvSnapshot
from tiering.model.splits import AssignedBacklog, TieringLogSplit, TieringSnapshotSplit
from tiering.model.tables import BucketKey, BucketOffsets, Offsets, Partition, TableInfo, TableType
from tiering.planning.check_log import check_gaps, check_not_behind, log_gaps

SPLIT_BYTES = 256 * 1024 * 1024
"""Bytes of the log that one task reads: some seconds of work. Spark's cost per task is small beside that, and a lost task is repeated
quickly."""

BACKLOG_SPLIT_BYTES = 64 * 1024 * 1024
"""Bytes of the log that one task reads in a backlog. Throughput matters there: many splits keep all executors busy to the end of a long
round, and a split that stops early loses less work. Files have some MB, and the lake gets no smaller ones later."""

UNSIZED_SPLIT_RECORDS = 1_000_000
"""Records per task if the cluster does not know their sizes: SPLIT_BYTES of records of some 270 bytes."""


@dataclass(frozen=True)
class Plan:
    """The records that a round reads, and the state of each bucket of the table before the round.

    `starts` has the first offset that was ever tiered of every bucket, `bases` the next one to tier. A bucket with a split in `snapshots`
    begins with that KV snapshot: it is not tiered at all before its snapshot is in the lake. `estimated_bytes` is the size of all records
    to read; None if the cluster does not know the sizes of all.
    """

    splits: tuple[TieringLogSplit, ...]
    starts: Offsets
    bases: Offsets
    estimated_bytes: int | None
    snapshots: tuple[TieringSnapshotSplit, ...] = ()

    @property
    def stops(self) -> Offsets:
        """Offset of each bucket after the round, if all of the round's work is committed."""
        stops = dict(self.bases)
        for split in self.splits:
            stops[split.bucket] = max(stops[split.bucket], split.stopping_offset)
        return stops

    @property
    def untiered(self) -> frozenset[BucketKey]:
        """The buckets that begin with a KV snapshot."""
        return frozenset(split.bucket for split in self.snapshots)


def plan_round(
    table: TableInfo,
    tiered: Mapping[BucketKey, TieredRange],
    ends: Mapping[BucketKey, BucketOffsets],
    partitions: Sequence[Partition],
    snapshots: Mapping[BucketKey, KvSnapshot] | None = None,
    backlog: AssignedBacklog | None = None,
) -> Plan:
    """Returns log splits for each bucket with new records, several for a bucket of a log table that is far behind. No splits = nothing to
    do.

    `tiered` has the next offset of each bucket in the lake. A bucket without one begins with its KV snapshot, if it has one, and the log
    from there (that log split may be empty), else at its log's start. A partition that was dropped after the ends were listed has no
    splits: its id is never used again. Splits carry the `backlog_offset` that `backlog` has for their bucket.

    Raises LogTruncated (the log no longer has the next record) and LogBehindLake (the lake has records that the log does not have yet).
    Raises KvSnapshotGone (a bucket has to begin with a snapshot that it lacks) and SourceChanged (an existing bucket has no ends).
    """
    names: dict[int | None, str | None] = {None: None}
    names |= {partition.partition_id: partition.partition_name for partition in partitions}
    splits, from_snapshot = list[TieringLogSplit](), list[TieringSnapshotSplit]()
    starts, bases = dict[BucketKey, int](), dict[BucketKey, int]()
    _check_all_told(table, tiered, ends, names)
    check_gaps(table, log_gaps({bucket: at.tiered for bucket, at in tiered.items()}, ends, names))
    for bucket in sorted(ends, key=BucketKey.sort_key):
        if bucket.partition_id not in names:
            continue
        log, name = ends[bucket], names[bucket.partition_id]
        snapshot = None if bucket in tiered else _first_snapshot(table, bucket, log, (snapshots or {}).get(bucket))
        first = log.log_start if snapshot is None else snapshot.log_offset
        stands = tiered.get(bucket, TieredRange(first, first))
        check_not_behind(table, bucket, stands.tiered, log)
        starts[bucket], bases[bucket] = stands.start, stands.tiered
        backlog_offset = None if backlog is None else backlog.offset_of(bucket, log.log_end)
        if snapshot is not None:
            from_snapshot.append(TieringSnapshotSplit(table.path, bucket, name, snapshot.snapshot_id, first, backlog_offset))
        if snapshot is not None or log.log_end > stands.tiered:
            whole = TieringLogSplit(table.path, bucket, name, stands.tiered, log.log_end, backlog_offset)
            # The changes of one key are folded by one task: a primary-key bucket is never cut.
            splits += cut_splits(whole, log.bytes_per_record) if table.table_type is TableType.LOG else [whole]
    return Plan(tuple(splits), starts, bases, _estimated_bytes(splits, from_snapshot, ends), tuple(from_snapshot))


def _check_all_told(
    table: TableInfo, tiered: Mapping[BucketKey, TieredRange], ends: Mapping[BucketKey, BucketOffsets], names: Collection[int | None]
) -> None:
    """Raises SourceChanged for a tiered bucket that exists but has no ends: a marker without it would cause it to be tiered again.

    `names`: ids of the existing partitions, and None.
    """
    for bucket in sorted(tiered.keys() - ends.keys(), key=BucketKey.sort_key):
        if bucket.partition_id in names:
            raise SourceChanged(f"the cluster did not say how far the log of bucket {bucket} of {table.path} goes", table_path=table.path)


def _estimated_bytes(
    splits: Sequence[TieringLogSplit], from_snapshot: Sequence[TieringSnapshotSplit], ends: Mapping[BucketKey, BucketOffsets]
) -> int | None:
    """Returns the number of bytes to read; None if the size of some records is unknown."""
    sizes = [_size(split.records, ends[split.bucket].bytes_per_record) for split in splits]
    # Every key of a KV snapshot was written at least once.
    sizes += [_size(split.log_offset_of_snapshot, ends[split.bucket].bytes_per_record) for split in from_snapshot]
    known_sizes = [size for size in sizes if size is not None]
    return int(sum(known_sizes)) if len(known_sizes) == len(sizes) else None


def _size(records: int, bytes_per_record: float | None) -> float | None:
    """Returns the size of `records` in bytes; None if the size of a record is unknown, 0 for no records in any case."""
    if records == 0:
        return 0.0
    return None if bytes_per_record is None else records * bytes_per_record


def _first_snapshot(table: TableInfo, bucket: BucketKey, log: BucketOffsets, newest: KvSnapshot | None) -> KvSnapshot | None:
    """Returns the KV snapshot with which a bucket that was never tiered begins; None if it begins with its log."""
    if table.table_type is TableType.LOG or log.log_end == 0:
        return None
    if newest is not None and newest.log_offset >= log.log_start:
        return newest
    if log.log_start == 0:
        return None
    shortage = "has no KV snapshot" if newest is None else f"has a KV snapshot at offset {newest.log_offset} only"
    raise KvSnapshotGone(
        f"bucket {bucket} of {table.path} was never tiered: its log starts at {log.log_start}, and it {shortage}",
        hint="The next round tries again; a newer KV snapshot of the bucket is needed.",
        table_path=table.path,
        bucket=bucket,
    )


def cut_splits(whole: TieringLogSplit, bytes_per_record: float | None) -> list[TieringLogSplit]:
    """Cuts `whole` into even pieces of about SPLIT_BYTES, so that the number of buckets does not limit the parallelism.

    In a backlog, pieces have about BACKLOG_SPLIT_BYTES. If the size of a record is unknown (None), pieces have about UNSIZED_SPLIT_RECORDS
    records, and in a backlog fewer by the same factor.
    """
    split_bytes = SPLIT_BYTES if whole.backlog_offset is None else min(SPLIT_BYTES, BACKLOG_SPLIT_BYTES)
    each_bytes = SPLIT_BYTES / UNSIZED_SPLIT_RECORDS if bytes_per_record is None else bytes_per_record
    share = whole.records * each_bytes / split_bytes
    pieces = max(1, min(whole.records, round(share)))
    bounds = [whole.starting_offset + whole.records * piece // pieces for piece in range(pieces + 1)]
    return [replace(whole, starting_offset=start, stopping_offset=stop) for start, stop in pairwise(bounds)]


def next_buckets(plan: Plan, prefix: Prefix) -> dict[BucketKey, TieredRange]:
    """Returns the buckets of the new marker. `plan` has only existing buckets, so buckets of dropped partitions are left out.

    A bucket that begins with a KV snapshot is in the marker once that snapshot was read completely, which a committed result shows.
    """
    kept = {result.bucket for result in prefix.kept}
    return {
        bucket: TieredRange(plan.starts[bucket], prefix.reached.get(bucket, base))
        for bucket, base in plan.bases.items()
        if bucket not in plan.untiered or bucket in kept
    }


def replaced_buckets(plan: Plan, base_moved_back: Collection[BucketKey]) -> frozenset[BucketKey]:
    """Returns the buckets that begin with a KV snapshot which replaces all of the bucket's rows in the lake.

    A bucket of a partition keeps them: a bucket that no marker names was never tiered, so the rows under the partition's value are those
    of a dropped partition of that name. `base_moved_back`: buckets to which another tiering service wrote rows that tell no end; these
    rows are the living partition's own.
    """
    return frozenset(bucket for bucket in plan.untiered if bucket.partition_id is None or bucket in base_moved_back)


def plan_again(plan: Plan, buckets: Mapping[BucketKey, TieredRange]) -> Plan:
    """Returns the part of `plan` that led to `buckets` of a marker: the same work, to exactly the same offsets.

    A bucket whose KV snapshot was not read completely is not among `buckets`, so it is not in the returned plan.
    """
    splits = tuple(
        replace(split, stopping_offset=min(split.stopping_offset, buckets[split.bucket].tiered))
        for split in plan.splits
        if split.bucket in buckets and (split.bucket in plan.untiered or split.starting_offset < buckets[split.bucket].tiered)
    )
    return replace(
        plan,
        splits=splits,
        starts={bucket: start for bucket, start in plan.starts.items() if bucket in buckets},
        bases={bucket: base for bucket, base in plan.bases.items() if bucket in buckets},
        snapshots=tuple(split for split in plan.snapshots if split.bucket in buckets),
    )


ReaderT = TypeVar("ReaderT")


@dataclass(frozen=True)
class ReadableSplits(Generic[ReaderT]):
    """The splits with their readers, and the buckets that end before the end of their log."""

    splits: Sequence[tuple[TieringLogSplit, ReaderT]]
    stopped: Mapping[BucketKey, BucketStopped]


def readable_splits(splits: Sequence[TieringLogSplit], reader: Callable[[TieringLogSplit], ReaderT]) -> ReadableSplits[ReaderT]:
    """Returns the splits with their readers. For a bucket with a refused record, it returns the part before the record and no later splits.
    Raises the errors of `reader`, except for refused records."""
    readable: list[tuple[TieringLogSplit, ReaderT]] = []
    stopped: dict[BucketKey, BucketStopped] = {}
    for split in splits:
        if split.bucket in stopped:
            continue
        try:
            readable.append((split, reader(split)))
        except BucketStopped as error:
            stopped[split.bucket] = error
            before = replace(split, stopping_offset=int(error.ids["offset"]))
            if before.stopping_offset > before.starting_offset:
                readable.append((before, reader(before)))
    return ReadableSplits(readable, stopped)


@dataclass(frozen=True)
class Prefix:
    """Results without a gap from each bucket's base, the offsets that they reach, and the results behind a gap."""

    kept: tuple[WriteResult, ...]
    reached: Offsets
    left_out: tuple[WriteResult, ...]


def contiguous_prefix(results: Iterable[WriteResult], bases: Offsets) -> Prefix:
    """Returns, per bucket, the results that follow each other from `bases` on. The order of `results` does not matter."""
    by_bucket: dict[BucketKey, list[WriteResult]] = defaultdict(list)
    for result in results:
        by_bucket[result.bucket].append(result)
    kept: list[WriteResult] = []
    left_out: list[WriteResult] = []
    reached: dict[BucketKey, int] = dict(bases)
    for bucket in sorted(by_bucket, key=BucketKey.sort_key):
        for result in sorted(by_bucket[bucket], key=lambda result: (result.starting_offset, result.reached_offset)):
            if result.starting_offset == reached.get(bucket):
                kept.append(result)
                reached[bucket] = result.reached_offset
            else:
                left_out.append(result)
    return Prefix(tuple(kept), reached, tuple(left_out))
