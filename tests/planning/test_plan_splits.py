"""The work of a round: from marker and log ends to splits. A primary-key table begins with KV snapshots, and has one log split per
bucket."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiering.errors import KvSnapshotGone, LogBehindLake, LogTruncated, SourceChanged
from tiering.lake.base import WriteResult
from tiering.lake.marker import TieredRange
from tiering.model.leases import KvSnapshot
from tiering.model.tables import BucketKey, BucketOffsets, Offsets, Partition, TableInfo, TablePath, TableType
from tiering.planning.check_log import NAMED_GAPS
from tiering.planning.plan_splits import (
    SPLIT_BYTES,
    UNSIZED_SPLIT_RECORDS,
    Plan,
    Prefix,
    contiguous_prefix,
    next_buckets,
    plan_again,
    plan_round,
)

TABLE = TableInfo(7, TablePath("sales", "orders"), TableType.LOG, pa.schema([("id", pa.int64())]), 2, datetime(2026, 1, 1, tzinfo=UTC))
KEY_SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])
KEY_TABLE = TableInfo(
    7, TablePath("sales", "planes"), TableType.PRIMARY_KEY, KEY_SCHEMA, 2, datetime(2026, 1, 1, tzinfo=UTC), primary_key=("id",)
)
B0, B1 = BucketKey(None, 0), BucketKey(None, 1)


def bucket(number: int, partition: int | None = None) -> BucketKey:
    return BucketKey(partition, number)


def marker(**tiered: tuple[int, int]) -> dict[BucketKey, TieredRange]:
    return {BucketKey.parse(name.removeprefix("b")): TieredRange(*pair) for name, pair in tiered.items()}


def reached(plan: Plan, offsets: Offsets) -> Prefix:
    return Prefix((), {**plan.bases, **offsets}, ())


def test_a_first_round_reads_every_bucket_from_its_logs_start() -> None:
    plan = plan_round(TABLE, {}, {bucket(0): BucketOffsets(0, 5), bucket(1): BucketOffsets(3, 3)}, [])
    assert [(split.bucket, split.starting_offset, split.stopping_offset) for split in plan.splits] == [(bucket(0), 0, 5)]
    assert plan.stops == {bucket(0): 5, bucket(1): 3}


def test_a_later_round_goes_on_from_the_marker() -> None:
    plan = plan_round(TABLE, marker(b0=(0, 5), b1=(3, 9)), {bucket(0): BucketOffsets(0, 8), bucket(1): BucketOffsets(3, 9)}, [])
    assert [(split.bucket, split.starting_offset, split.stopping_offset) for split in plan.splits] == [(bucket(0), 5, 8)]


def test_nothing_new_plans_no_split() -> None:
    assert not plan_round(TABLE, marker(b0=(0, 5)), {bucket(0): BucketOffsets(0, 5)}, []).splits


def test_a_log_that_lost_the_next_record_is_named_with_both_offsets() -> None:
    with pytest.raises(LogTruncated, match=r"bucket 0 .*offset 5.*starts at 8"):
        plan_round(TABLE, marker(b0=(0, 5)), {bucket(0): BucketOffsets(8, 12)}, [])


def test_the_gap_of_every_bucket_is_named_with_its_partition() -> None:
    partitioned = replace(TABLE, partition_keys=("region",), bucket_count=2)
    tiered = {BucketKey(7, 0): TieredRange(0, 5), BucketKey(7, 1): TieredRange(0, 9), BucketKey(8, 0): TieredRange(0, 1)}
    ends = {BucketKey(7, 0): BucketOffsets(8, 12), BucketKey(7, 1): BucketOffsets(9, 9), BucketKey(8, 0): BucketOffsets(4, 4)}
    named = r"6 records are in neither: bucket 7/0 \(partition 'eu'\): records 5 to 7; bucket 8/0 \(partition 'us'\): records 1 to 3$"
    with pytest.raises(LogTruncated, match=named):
        plan_round(partitioned, tiered, ends, [Partition(7, "eu"), Partition(8, "us")])


def test_an_error_names_some_of_many_gaps_and_counts_the_others() -> None:
    tiered = {bucket(number): TieredRange(0, 5) for number in range(NAMED_GAPS + 3)}
    with pytest.raises(LogTruncated, match=rf"39 records are in neither: .*bucket {NAMED_GAPS - 1}: records 5 to 7; and 3 buckets more$"):
        plan_round(TABLE, tiered, dict.fromkeys(tiered, BucketOffsets(8, 12)), [])


def test_a_log_shorter_than_the_lake_is_an_error() -> None:
    with pytest.raises(LogBehindLake, match=r"offset 5.*ends at 4"):
        plan_round(TABLE, marker(b0=(0, 5)), {bucket(0): BucketOffsets(0, 4)}, [])


def test_a_log_that_starts_above_zero_is_begun_there_and_remembered() -> None:
    plan = plan_round(TABLE, {}, {bucket(0): BucketOffsets(40, 60)}, [])
    assert next_buckets(plan, reached(plan, {bucket(0): 60})) == {bucket(0): TieredRange(40, 60)}


def test_the_next_marker_keeps_idle_buckets_and_drops_vanished_partitions() -> None:
    old = {bucket(0, 1): TieredRange(0, 5), bucket(0, 2): TieredRange(0, 7)}
    plan = plan_round(
        TABLE, old, {bucket(0, 2): BucketOffsets(0, 7), bucket(0, 3): BucketOffsets(0, 2)}, [Partition(2, "b"), Partition(3, "c")]
    )
    assert [split.partition_name for split in plan.splits] == ["c"]
    assert next_buckets(plan, reached(plan, {bucket(0, 3): 2})) == {bucket(0, 2): TieredRange(0, 7), bucket(0, 3): TieredRange(0, 2)}


def test_a_partition_that_vanishes_between_the_two_looks_is_not_planned() -> None:
    ends = {bucket(0, 2): BucketOffsets(0, 7), bucket(0, 3): BucketOffsets(0, 2)}
    plan = plan_round(TABLE, {}, ends, [Partition(3, "c")])
    assert [split.bucket for split in plan.splits] == [bucket(0, 3)]
    assert next_buckets(plan, reached(plan, {bucket(0, 3): 2})) == {bucket(0, 3): TieredRange(0, 2)}


@pytest.mark.parametrize("left_out", [bucket(1), bucket(0, 2)])
def test_a_bucket_that_is_there_and_of_which_nothing_is_said_is_not_forgotten(left_out: BucketKey) -> None:
    """The next marker would lack it, and the round after that would tier it from its start once more."""
    tiered = {bucket(0): TieredRange(0, 5), left_out: TieredRange(0, 5)}
    with pytest.raises(SourceChanged, match=f"bucket {left_out} "):
        plan_round(TABLE, tiered, {bucket(0): BucketOffsets(0, 7)}, [Partition(2, "b")])


def test_sizes_are_estimated_from_the_log() -> None:
    plan = plan_round(TABLE, {}, {bucket(0): BucketOffsets(0, 100, bytes_per_record=8.5)}, [])
    assert plan.estimated_bytes == 850


def test_of_records_of_unknown_size_nothing_is_estimated_and_splits_are_cut_by_records() -> None:
    records = 5 * UNSIZED_SPLIT_RECORDS + 3
    ends = {bucket(0): BucketOffsets(0, 10, bytes_per_record=8.5), bucket(1): BucketOffsets(0, records)}
    plan = plan_round(TABLE, {}, ends, [])
    assert plan.estimated_bytes is None
    assert len(plan.splits) == 1 + 5
    assert max(split.records for split in plan.splits) == UNSIZED_SPLIT_RECORDS + 1


def test_an_empty_log_of_unknown_size_leaves_the_estimate_known() -> None:
    ends = {bucket(0): BucketOffsets(0, 100, bytes_per_record=8.5), bucket(1): BucketOffsets(40, 40)}
    assert plan_round(TABLE, {}, ends, []).estimated_bytes == 850


@given(start=st.integers(0, 1_000), records=st.integers(1, 10_000), megabytes=st.integers(0, 4_000))
def test_a_bucket_far_behind_is_cut_into_even_splits_without_gap_or_overlap(start: int, records: int, megabytes: int) -> None:
    per_record = megabytes * 1024 * 1024 / records
    plan = plan_round(TABLE, marker(b0=(0, start)), {bucket(0): BucketOffsets(0, start + records, per_record)}, [])
    assert plan.splits[0].starting_offset == start
    assert plan.splits[-1].stopping_offset == start + records == plan.stops[bucket(0)]
    for before, after in pairwise(plan.splits):
        assert before.stopping_offset == after.starting_offset
    sizes = [split.records for split in plan.splits]
    assert max(sizes) - min(sizes) <= 1
    assert len(sizes) == 1 or max(sizes) * per_record < 2 * SPLIT_BYTES + per_record


def tiered(*ranges: tuple[BucketKey, int, int]) -> dict[BucketKey, TieredRange]:
    return {bucket: TieredRange(start, end) for bucket, start, end in ranges}


def result(bucket: BucketKey, start: int, end: int) -> WriteResult:
    return WriteResult(bucket, start, end, 1, 1, 1, b"")


def shape(plan: Plan) -> list[tuple[BucketKey, int, int]]:
    return [(split.bucket, split.starting_offset, split.stopping_offset) for split in plan.splits]


def test_a_bucket_never_tiered_begins_with_its_snapshot_and_goes_on_from_there_in_the_log() -> None:
    plan = plan_round(KEY_TABLE, {}, {B0: BucketOffsets(0, 50), B1: BucketOffsets(0, 9)}, [], {B0: KvSnapshot(3, 40)})
    assert [(split.bucket, split.snapshot_id, split.log_offset_of_snapshot) for split in plan.snapshots] == [(B0, 3, 40)]
    assert shape(plan) == [(B0, 40, 50), (B1, 0, 9)]


def test_a_snapshot_with_nothing_behind_it_still_has_to_be_read() -> None:
    plan = plan_round(KEY_TABLE, {}, {B0: BucketOffsets(40, 40)}, [], {B0: KvSnapshot(3, 40)})
    assert shape(plan) == [(B0, 40, 40)]
    assert plan.untiered == {B0}


def test_a_bucket_that_was_tiered_before_needs_no_snapshot() -> None:
    plan = plan_round(KEY_TABLE, tiered((B0, 0, 30)), {B0: BucketOffsets(20, 50)}, [], {B0: KvSnapshot(3, 40)})
    assert (plan.snapshots, shape(plan)) == ((), [(B0, 30, 50)])
    with pytest.raises(LogTruncated):
        plan_round(KEY_TABLE, tiered((B0, 0, 10)), {B0: BucketOffsets(20, 50)}, [], {B0: KvSnapshot(3, 40)})


def test_a_cut_log_without_a_snapshot_that_reaches_it_waits_for_one() -> None:
    with pytest.raises(KvSnapshotGone, match="starts at 20, and it has no KV snapshot"):
        plan_round(KEY_TABLE, {}, {B0: BucketOffsets(20, 50)}, [])
    with pytest.raises(KvSnapshotGone, match="at offset 10 only"):
        plan_round(KEY_TABLE, {}, {B0: BucketOffsets(20, 50)}, [], {B0: KvSnapshot(1, 10)})


def test_the_changes_of_a_bucket_are_never_cut_into_several_splits() -> None:
    plan = plan_round(KEY_TABLE, {}, {B0: BucketOffsets(0, 1_000, SPLIT_BYTES)}, [])
    assert len(plan.splits) == 1


def test_a_snapshot_that_was_not_read_leaves_its_bucket_out_of_the_marker() -> None:
    ends = {B0: BucketOffsets(0, 50), B1: BucketOffsets(0, 60)}
    plan = plan_round(KEY_TABLE, {}, ends, [], {B0: KvSnapshot(3, 40), B1: KvSnapshot(4, 60)})
    assert next_buckets(plan, contiguous_prefix([], plan.bases)) == {}
    only_one = contiguous_prefix([result(B1, 60, 60)], plan.bases)
    assert next_buckets(plan, only_one) == {B1: TieredRange(60, 60)}


def test_work_done_again_reaches_the_very_same_offsets() -> None:
    ends = {B0: BucketOffsets(0, 50), B1: BucketOffsets(0, 60)}
    plan = plan_round(KEY_TABLE, tiered((B0, 0, 10), (B1, 0, 20)), ends, [])
    buckets = next_buckets(plan, contiguous_prefix([result(B0, 10, 33)], plan.bases))
    assert shape(plan_again(plan, buckets)) == [(B0, 10, 33)]
    plan = plan_round(KEY_TABLE, {}, ends, [], {B0: KvSnapshot(3, 40), B1: KvSnapshot(4, 60)})
    prefix = contiguous_prefix([result(B1, 60, 60)], plan.bases)
    again = plan_again(plan, next_buckets(plan, prefix))
    assert (shape(again), [split.bucket for split in again.snapshots]) == ([(B1, 60, 60)], [B1])
    assert next_buckets(again, prefix) == next_buckets(plan, prefix), "a bucket whose KV snapshot was not read is in neither marker"
