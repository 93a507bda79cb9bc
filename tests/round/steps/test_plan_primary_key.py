"""What a round reads of a primary-key table: KV snapshots first, one log split a bucket, nothing recorded that was not read."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from tiering.errors import KvSnapshotGone, LogTruncated
from tiering.lake.base import WriteResult
from tiering.lake.marker import Marker, TieredRange
from tiering.model.leases import KvSnapshot
from tiering.model.tables import BucketKey, BucketOffsets, TableInfo, TablePath, TableType
from tiering.round.steps.contiguous_prefix import contiguous_prefix
from tiering.round.steps.plan import SPLIT_BYTES, Plan, next_buckets, plan_again, plan_round

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])
TABLE = TableInfo(7, TablePath("sales", "planes"), TableType.PRIMARY_KEY, SCHEMA, 2, datetime(2026, 1, 1, tzinfo=UTC), primary_key=("id",))
B0, B1 = BucketKey(None, 0), BucketKey(None, 1)


def tiered(*ranges: tuple[BucketKey, int, int]) -> Marker:
    return Marker("cluster", 7, "uuid", "round-0", 1, None, {bucket: TieredRange(start, end) for bucket, start, end in ranges})


def result(bucket: BucketKey, start: int, end: int) -> WriteResult:
    return WriteResult(bucket, start, end, 1, 1, 1, b"")


def shape(plan: Plan) -> list[tuple[BucketKey, int, int]]:
    return [(split.bucket, split.starting_offset, split.stopping_offset) for split in plan.splits]


def test_a_bucket_never_tiered_begins_with_its_snapshot_and_goes_on_from_there_in_the_log() -> None:
    plan = plan_round(TABLE, None, {B0: BucketOffsets(0, 50), B1: BucketOffsets(0, 9)}, [], {B0: KvSnapshot(3, 40)})
    assert [(split.bucket, split.snapshot_id, split.log_offset_of_snapshot) for split in plan.snapshots] == [(B0, 3, 40)]
    assert shape(plan) == [(B0, 40, 50), (B1, 0, 9)]


def test_a_snapshot_with_nothing_behind_it_still_has_to_be_read() -> None:
    plan = plan_round(TABLE, None, {B0: BucketOffsets(40, 40)}, [], {B0: KvSnapshot(3, 40)})
    assert shape(plan) == [(B0, 40, 40)]
    assert plan.untiered == {B0}


def test_a_bucket_that_was_tiered_before_needs_no_snapshot() -> None:
    plan = plan_round(TABLE, tiered((B0, 0, 30)), {B0: BucketOffsets(20, 50)}, [], {B0: KvSnapshot(3, 40)})
    assert (plan.snapshots, shape(plan)) == ((), [(B0, 30, 50)])
    with pytest.raises(LogTruncated):
        plan_round(TABLE, tiered((B0, 0, 10)), {B0: BucketOffsets(20, 50)}, [], {B0: KvSnapshot(3, 40)})


def test_a_cut_log_without_a_snapshot_that_reaches_it_waits_for_one() -> None:
    with pytest.raises(KvSnapshotGone, match="starts at 20, and it has no KV snapshot"):
        plan_round(TABLE, None, {B0: BucketOffsets(20, 50)}, [])
    with pytest.raises(KvSnapshotGone, match="at offset 10 only"):
        plan_round(TABLE, None, {B0: BucketOffsets(20, 50)}, [], {B0: KvSnapshot(1, 10)})


def test_the_changes_of_a_bucket_are_never_cut_into_several_splits() -> None:
    plan = plan_round(TABLE, None, {B0: BucketOffsets(0, 1_000, SPLIT_BYTES)}, [])
    assert len(plan.splits) == 1


def test_a_snapshot_that_was_not_read_leaves_its_bucket_out_of_the_marker() -> None:
    ends = {B0: BucketOffsets(0, 50), B1: BucketOffsets(0, 60)}
    plan = plan_round(TABLE, None, ends, [], {B0: KvSnapshot(3, 40), B1: KvSnapshot(4, 60)})
    assert next_buckets(plan, contiguous_prefix([], plan.bases)) == {}
    only_one = contiguous_prefix([result(B1, 60, 60)], plan.bases)
    assert next_buckets(plan, only_one) == {B1: TieredRange(60, 60)}


def test_work_done_again_reaches_the_very_same_offsets() -> None:
    ends = {B0: BucketOffsets(0, 50), B1: BucketOffsets(0, 60)}
    plan = plan_round(TABLE, tiered((B0, 0, 10), (B1, 0, 20)), ends, [])
    buckets = next_buckets(plan, contiguous_prefix([result(B0, 10, 33)], plan.bases))
    assert shape(plan_again(plan, buckets)) == [(B0, 10, 33)]
    plan = plan_round(TABLE, None, ends, [], {B0: KvSnapshot(3, 40), B1: KvSnapshot(4, 60)})
    again = plan_again(plan, next_buckets(plan, contiguous_prefix([result(B1, 60, 60)], plan.bases)))
    assert (shape(again), [split.bucket for split in again.snapshots]) == ([(B1, 60, 60)], [B1])
