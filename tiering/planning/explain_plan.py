"""Explains in words what a round would read of each bucket, and why: one line per split, and one per bucket that has nothing to read.
Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tiering.counts import counted
from tiering.errors import BucketStopped
from tiering.lake.marker import TieredRange
from tiering.model.splits import TieringLogSplit, TieringSnapshotSplit
from tiering.model.tables import BucketKey, BucketOffsets, TableInfo
from tiering.planning.plan_splits import SPLIT_BYTES, UNSIZED_SPLIT_RECORDS, Plan
from tiering.procedures.explain_tiering import Decision, Explanation


@dataclass(frozen=True)
class PlannedBuckets:
    """A plan and its inputs. `splits`: the log splits as far as they can be read. `stopped`: why a bucket's splits end early."""

    table: TableInfo
    plan: Plan
    tiered: Mapping[BucketKey, TieredRange]
    ends: Mapping[BucketKey, BucketOffsets]
    partition_names: Mapping[int, str]
    splits: Sequence[TieringLogSplit]
    stopped: Mapping[BucketKey, BucketStopped] = field(default_factory=dict)

    def name(self, bucket: BucketKey) -> str | None:
        """Name of the bucket's partition; None if the table has no partitions."""
        return None if bucket.partition_id is None else self.partition_names.get(bucket.partition_id)


def explain_plan(planned: PlannedBuckets) -> list[Explanation]:
    """Returns the explanations by partition and bucket: the KV snapshot, the log splits in order and where the bucket stops, or why it is
    skipped."""
    snapshots = {split.bucket: split for split in planned.plan.snapshots}
    splits: dict[BucketKey, list[TieringLogSplit]] = {}
    for split in planned.splits:
        splits.setdefault(split.bucket, []).append(split)
    lines: list[Explanation] = []
    for bucket in sorted({*planned.plan.bases, *planned.tiered}, key=BucketKey.sort_key):
        of_bucket = [*_snapshot_line(snapshots.get(bucket)), *_log_lines(planned, bucket, splits.get(bucket, []))]
        if bucket in planned.stopped:
            of_bucket.append(_stop_line(planned, bucket, planned.stopped[bucket]))
        lines += of_bucket or [_skip_line(planned, bucket)]
    return lines


def _snapshot_line(split: TieringSnapshotSplit | None) -> Iterator[Explanation]:
    if split is not None:
        yield Explanation(
            decision=Decision.READ,
            reason=f"never tiered: begins with KV snapshot {split.snapshot_id} at offset {split.log_offset_of_snapshot:,}",
            split_type="SNAPSHOT",
            partition_name=split.partition_name,
            bucket_id=split.bucket.bucket_id,
            snapshot_id=split.snapshot_id,
            stopping_offset=split.log_offset_of_snapshot,
        )


def _log_lines(planned: PlannedBuckets, bucket: BucketKey, splits: Sequence[TieringLogSplit]) -> Iterator[Explanation]:
    for number, split in enumerate(splits, 1):
        yield Explanation(
            decision=Decision.READ,
            reason=_why_read(planned, bucket, split) + _piece(planned.ends[bucket], number, len(splits)),
            split_type="LOG",
            partition_name=split.partition_name,
            bucket_id=bucket.bucket_id,
            starting_offset=split.starting_offset,
            stopping_offset=split.stopping_offset,
            records=split.records,
        )


def _why_read(planned: PlannedBuckets, bucket: BucketKey, split: TieringLogSplit) -> str:
    log, base = planned.ends[bucket], planned.plan.bases[bucket]
    records = log.log_end - base
    waiting = f"{counted(records, 'record')} {'waits' if records == 1 else 'wait'}"
    if bucket in planned.plan.untiered:
        return "the log behind its KV snapshot" + ("" if split.records else ": nothing was written since")
    if bucket in planned.tiered:
        return f"{waiting}: the lake has those below offset {base:,}"
    if log.log_start > 0:
        return f"never tiered: {waiting}, from offset {log.log_start:,} on, where its log starts by now"
    return f"never tiered: {waiting}, from the log's start"


def _piece(log: BucketOffsets, number: int, pieces: int) -> str:
    """Returns which part of the bucket's work this split is, and how large the parts are; empty if it is the only one."""
    if pieces == 1:
        return ""
    size = f"{UNSIZED_SPLIT_RECORDS:,} records" if log.bytes_per_record is None else f"{SPLIT_BYTES / 2**20:,.0f} MiB of log"
    return f"; piece {number} of {pieces}, of about {size}"


def _stop_line(planned: PlannedBuckets, bucket: BucketKey, error: BucketStopped) -> Explanation:
    offset = int(error.ids["offset"])
    return Explanation(
        decision=Decision.REFUSE,
        reason=f"BucketStopped: {error.message}. {error.hint}",
        split_type="LOG",
        partition_name=planned.name(bucket),
        bucket_id=bucket.bucket_id,
        starting_offset=offset,
        stopping_offset=planned.ends[bucket].log_end,
        records=planned.ends[bucket].log_end - offset,
    )


def _skip_line(planned: PlannedBuckets, bucket: BucketKey) -> Explanation:
    log = planned.ends.get(bucket)
    if bucket not in planned.plan.bases or log is None:
        reason = f"its partition {bucket.partition_id} is gone: its rows stay in the lake"
    elif bucket in planned.tiered:
        reason = f"nothing new: the lake has all below offset {log.log_end:,}, where the log ends"
    else:
        reason = "never tiered, and its log holds no record"
    return Explanation(Decision.SKIP, reason, partition_name=planned.name(bucket), bucket_id=bucket.bucket_id, records=0)
