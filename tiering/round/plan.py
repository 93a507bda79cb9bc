"""What a round reads: from the lake's marker and the log's ends to splits. Pure (DESIGN 6 step 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tiering.errors import LogBehindLake, LogTruncated
from tiering.lake.marker import Marker, TieredRange
from tiering.model import BucketKey, BucketOffsets, Offsets, Partition, TableInfo, TieringLogSplit

SPLIT_BYTES = 256 * 1024 * 1024
"""Of log a task reads: some seconds of work, so that Spark's cost of a task does not show, and a lost one is soon done again."""


@dataclass(frozen=True)
class Plan:
    """Which records to read, and where each bucket of the table stands before the round.

    `starts` has the first offset that was ever tiered of every bucket, `bases` the next one to tier.
    """

    splits: tuple[TieringLogSplit, ...]
    starts: Offsets
    bases: Offsets
    estimated_bytes: int

    @property
    def stops(self) -> Offsets:
        """Where each bucket stands after the round, if it goes through whole."""
        stops = dict(self.bases)
        for split in self.splits:
            stops[split.bucket] = max(stops[split.bucket], split.stopping_offset)
        return stops


def plan_round(table: TableInfo, marker: Marker | None, ends: Mapping[BucketKey, BucketOffsets], partitions: Sequence[Partition]) -> Plan:
    """Log splits for each bucket with something new, several for one that is far behind; no splits = nothing to do.

    A bucket the marker does not know begins at its log's start. A partition that vanished after the ends were listed is not
    there any more: its id is never used again, so nothing of it is to come. Raises LogTruncated when the log no longer holds the
    next record, LogBehindLake when the lake holds records that the log does not have yet.
    """
    names = {partition.partition_id: partition.partition_name for partition in partitions}
    known = {} if marker is None else marker.buckets
    splits: list[TieringLogSplit] = []
    starts: dict[BucketKey, int] = {}
    bases: dict[BucketKey, int] = {}
    estimated = 0.0
    for bucket in sorted(ends, key=BucketKey.sort_key):
        if bucket.partition_id is not None and bucket.partition_id not in names:
            continue
        log = ends[bucket]
        tiered = known.get(bucket, TieredRange(log.log_start, log.log_start))
        check_reachable(table, bucket, tiered.tiered, log)
        starts[bucket], bases[bucket] = tiered.start, tiered.tiered
        if log.log_end > tiered.tiered:
            name = None if bucket.partition_id is None else names.get(bucket.partition_id)
            splits += cut_splits(TieringLogSplit(table.path, bucket, name, tiered.tiered, log.log_end, log.log_end), log.bytes_per_record)
            estimated += (log.log_end - tiered.tiered) * log.bytes_per_record
    return Plan(tuple(splits), starts, bases, int(estimated))


def cut_splits(whole: TieringLogSplit, bytes_per_record: float) -> list[TieringLogSplit]:
    """`whole` in even pieces of about SPLIT_BYTES, so that buckets do not bound the parallelism. 0 bytes = unknown: not cut."""
    pieces = max(1, min(whole.records, round(whole.records * bytes_per_record / SPLIT_BYTES)))
    bounds = [whole.starting_offset + whole.records * piece // pieces for piece in range(pieces + 1)]
    return [replace(whole, starting_offset=start, stopping_offset=stop) for start, stop in pairwise(bounds)]


def check_reachable(table: TableInfo, bucket: BucketKey, tiered: int, log: BucketOffsets) -> None:
    """Raises if tiering cannot go on from `tiered` in a log that holds `[log_start, log_end)`."""
    if tiered < log.log_start:
        raise LogTruncated(
            f"bucket {bucket} of {table.path}: the lake is tiered up to offset {tiered}, but the log now starts at {log.log_start}: "
            f"records {tiered} to {log.log_start - 1} are in neither",
            hint="The missing records cannot be tiered any more. Drop the lake table and the source table, or load the records again.",
            table_path=table.path,
            bucket=bucket,
        )
    if tiered > log.log_end:
        raise LogBehindLake(
            f"bucket {bucket} of {table.path}: the lake is tiered up to offset {tiered}, but the log ends at {log.log_end}",
            hint="The cluster lost records that were tiered already, or was restored from an older copy.",
            table_path=table.path,
            bucket=bucket,
        )


def next_buckets(plan: Plan, reached: Offsets) -> dict[BucketKey, TieredRange]:
    """The buckets of the new marker. Those of vanished partitions are gone, for `plan` has live buckets only."""
    return {bucket: TieredRange(plan.starts[bucket], reached.get(bucket, base)) for bucket, base in plan.bases.items()}
