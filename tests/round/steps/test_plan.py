"""What a round reads."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiering.errors import LogBehindLake, LogTruncated
from tiering.lake.marker import Marker, TieredRange
from tiering.model.tables import BucketKey, BucketOffsets, Offsets, Partition, TableInfo, TablePath, TableType
from tiering.round.steps.contiguous_prefix import Prefix
from tiering.round.steps.plan import SPLIT_BYTES, Plan, next_buckets, plan_round

TABLE = TableInfo(7, TablePath("sales", "orders"), TableType.LOG, pa.schema([("id", pa.int64())]), 2, datetime(2026, 1, 1, tzinfo=UTC))


def bucket(number: int, partition: int | None = None) -> BucketKey:
    return BucketKey(partition, number)


def marker(**tiered: tuple[int, int]) -> Marker:
    buckets = {BucketKey.parse(name.removeprefix("b")): TieredRange(*pair) for name, pair in tiered.items()}
    return Marker("cluster", 7, "uuid", "round-0", 1, None, buckets)


def reached(plan: Plan, offsets: Offsets) -> Prefix:
    return Prefix((), {**plan.bases, **offsets}, ())


def test_a_first_round_reads_every_bucket_from_its_logs_start() -> None:
    plan = plan_round(TABLE, None, {bucket(0): BucketOffsets(0, 5), bucket(1): BucketOffsets(3, 3)}, [])
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


def test_a_log_shorter_than_the_lake_is_an_error() -> None:
    with pytest.raises(LogBehindLake, match=r"offset 5.*ends at 4"):
        plan_round(TABLE, marker(b0=(0, 5)), {bucket(0): BucketOffsets(0, 4)}, [])


def test_a_log_that_starts_above_zero_is_begun_there_and_remembered() -> None:
    plan = plan_round(TABLE, None, {bucket(0): BucketOffsets(40, 60)}, [])
    assert next_buckets(plan, reached(plan, {bucket(0): 60})) == {bucket(0): TieredRange(40, 60)}


def test_the_next_marker_keeps_idle_buckets_and_drops_vanished_partitions() -> None:
    old = Marker("cluster", 7, "uuid", "r", 1, None, {bucket(0, 1): TieredRange(0, 5), bucket(0, 2): TieredRange(0, 7)})
    plan = plan_round(
        TABLE, old, {bucket(0, 2): BucketOffsets(0, 7), bucket(0, 3): BucketOffsets(0, 2)}, [Partition(2, "b"), Partition(3, "c")]
    )
    assert [split.partition_name for split in plan.splits] == ["c"]
    assert next_buckets(plan, reached(plan, {bucket(0, 3): 2})) == {bucket(0, 2): TieredRange(0, 7), bucket(0, 3): TieredRange(0, 2)}


def test_a_partition_that_vanishes_between_the_two_looks_is_not_planned() -> None:
    ends = {bucket(0, 2): BucketOffsets(0, 7), bucket(0, 3): BucketOffsets(0, 2)}
    plan = plan_round(TABLE, None, ends, [Partition(3, "c")])
    assert [split.bucket for split in plan.splits] == [bucket(0, 3)]
    assert next_buckets(plan, reached(plan, {bucket(0, 3): 2})) == {bucket(0, 3): TieredRange(0, 2)}


def test_sizes_are_estimated_from_the_log() -> None:
    plan = plan_round(TABLE, None, {bucket(0): BucketOffsets(0, 100, bytes_per_record=8.5)}, [])
    assert plan.estimated_bytes == 850


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
