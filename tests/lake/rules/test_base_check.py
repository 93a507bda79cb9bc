"""The rules of the base check, one by one, over views built by hand. tests/lake/iceberg/test_base_on_iceberg.py has them on real tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.lakes.lake_views import B0, B1, EMPTY, KNOWN, MARKER, OURS, RECORDED, refused, snapshot, view
from tiering import errors
from tiering.lake.base import LakeView
from tiering.lake.marker import TieredRange
from tiering.lake.rules.base_check import Base, check_base, needs_living
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey, TablePath

# --- what may be built upon


def test_no_lake_table_yet_is_a_base() -> None:
    assert check_base(None, replace(KNOWN, lake_table_uuid=None)) == Base(None, None, False)


def test_an_empty_lake_table_made_by_hand_is_a_base() -> None:
    assert check_base(EMPTY, replace(KNOWN, lake_table_uuid=None)) == Base(EMPTY, None, False)


def test_an_empty_lake_table_that_a_round_made_before_it_died_is_a_base() -> None:
    assert check_base(EMPTY, KNOWN) == Base(EMPTY, None, False)


def test_a_tagged_head_as_recorded_is_a_base() -> None:
    lake = view()
    assert check_base(lake, replace(KNOWN, recorded=(RECORDED,))) == Base(lake, MARKER, False)


@pytest.mark.parametrize("operation", ["replace", "append", "overwrite", "delete"])
def test_commits_of_users_after_the_tag_are_fine(operation: str) -> None:
    lake = view(*OURS, replace(snapshot(3, 2), operation=operation), snapshot(4, 3), head=4)
    assert check_base(lake, KNOWN).marker == MARKER


# --- lake ahead of what is recorded


@pytest.mark.parametrize(
    ("recorded", "ahead"),
    [
        ((), True),
        ((RecordedLakeSnapshot(1, {B0: 12, B1: 9}),), True),
        ((RecordedLakeSnapshot(1, {B0: 20, B1: 9}),), True),
        ((RecordedLakeSnapshot(2, {B0: 20}),), True),
        ((RECORDED,), False),
        ((RECORDED, RECORDED), False),
        ((RECORDED, RecordedLakeSnapshot(1, {B0: 12, B1: 9})), True),
        ((RecordedLakeSnapshot(2, {B0: 20, B1: 9, BucketKey(None, 5): 0}),), False),
    ],
)
def test_a_lake_with_more_than_is_recorded_has_to_be_adopted(recorded: tuple[RecordedLakeSnapshot, ...], ahead: bool) -> None:
    assert check_base(view(), replace(KNOWN, recorded=recorded)).ahead is ahead


# --- identity


def test_another_cluster_is_refused() -> None:
    error = refused(errors.ClusterMismatch, view(marker=replace(MARKER, cluster_id="theirs")))
    assert "theirs" in error.message
    assert "cluster" in error.ids["cluster_id"] or error.ids["cluster_id"] == "theirs"


def test_another_table_of_that_name_is_refused() -> None:
    error = refused(errors.TableMismatch, view(marker=replace(MARKER, table_id=3)), replace(KNOWN, lake_table_uuid=None))
    assert "3" in error.message
    assert "7" in error.message


def test_another_lake_table_in_that_place_is_refused() -> None:
    refused(errors.LakeTableReplaced, replace(view(), table_uuid="new"))
    refused(errors.LakeTableReplaced, replace(EMPTY, table_uuid="new"))


def test_a_copy_of_a_lake_table_is_refused() -> None:
    refused(errors.LakeTableReplaced, view(marker=replace(MARKER, lake_table_uuid="original")), replace(KNOWN, lake_table_uuid=None))


def test_a_lake_table_that_vanished_is_refused() -> None:
    assert "lake table of table 7 is gone" in refused(errors.LakeTableReplaced, None).message
    named = refused(errors.LakeTableReplaced, None, replace(KNOWN, path=TablePath("sales", "orders")))
    assert "lake table of sales.orders is gone" in named.message


def test_recorded_offsets_without_a_lake_table_are_refused() -> None:
    refused(errors.MarkerLost, None, replace(KNOWN, lake_table_uuid=None, recorded=(RECORDED,)))


# --- no tag


def test_rows_without_a_tag_are_refused() -> None:
    refused(errors.UntrackedLakeTable, view(snapshot(1, None), head=1, tiered=None, marker=None))


def test_snapshots_that_are_on_no_branch_are_refused_too() -> None:
    refused(errors.UntrackedLakeTable, view(snapshot(1, None), head=None, tiered=None, marker=None))


def test_a_dropped_tag_is_refused_and_its_snapshot_named() -> None:
    error = refused(errors.MarkerLost, view(tiered=None, marker=None))
    assert "snapshot 2" in error.hint


def test_recorded_offsets_without_a_tag_are_refused() -> None:
    refused(errors.MarkerLost, EMPTY, replace(KNOWN, recorded=(RECORDED,)))
    refused(errors.MarkerLost, view(snapshot(9, None), head=9, tiered=None, marker=None), replace(KNOWN, recorded=(RECORDED,)))


def test_a_head_that_passed_before_without_a_tag_now_is_refused() -> None:
    refused(errors.MarkerLost, EMPTY, replace(KNOWN, passed_head=2))


def test_a_tag_on_a_snapshot_without_marker_is_refused() -> None:
    refused(errors.MarkerCorrupt, view(marker=None))


def test_a_tag_on_an_unknown_snapshot_is_refused() -> None:
    refused(errors.MarkerCorrupt, view(tiered=77, marker=None))


@pytest.mark.parametrize(
    "lake",
    [
        view(head=1, reference=None),
        view(snapshot(2, 1, round_id="r2"), snapshot(4, 3), head=4, reference=None),
        view(marker=None, reference=None),
        view(tiered=None, marker=None, reference=None),
        view(tiered=1, reference=None),
    ],
    ids=["rolled back", "history expired", "marker lost", "nothing tiered", "older than a round"],
)
def test_no_error_names_a_tag_to_a_format_that_finds_its_newest_tiering_commit_without(lake: LakeView) -> None:
    with pytest.raises(errors.PermanentTieringError) as refusal:
        check_base(lake, KNOWN)
    assert "tag " not in f"{refusal.value.message} {refusal.value.hint}"
    assert "None" not in f"{refusal.value.message} {refusal.value.hint}"


# --- recorded more than the lake has


@pytest.mark.parametrize("copies", [lambda ahead: (ahead,), lambda ahead: (RECORDED, ahead), lambda ahead: (ahead, RECORDED)])
def test_either_copy_ahead_of_the_marker_is_refused(copies: object) -> None:
    ahead = RecordedLakeSnapshot(5, {B0: 20, B1: 10})
    error = refused(errors.RecordAheadOfLake, view(), replace(KNOWN, recorded=copies(ahead)))  # type: ignore[operator]
    assert "10" in error.message
    assert "9" in error.message


def test_a_recorded_bucket_that_the_marker_lacks_is_ahead() -> None:
    refused(errors.RecordAheadOfLake, view(), replace(KNOWN, recorded=(RecordedLakeSnapshot(2, {BucketKey(None, 5): 1}),)))


def test_a_record_of_a_newer_snapshot_is_ahead() -> None:
    lake = view(*OURS, snapshot(3, 2), head=3)
    refused(errors.RecordAheadOfLake, lake, replace(KNOWN, recorded=(RecordedLakeSnapshot(3, {}),)))


def test_a_recorded_partition_that_vanished_since_is_not_ahead() -> None:
    marker = replace(MARKER, buckets={BucketKey(4, 0): TieredRange(0, 6)})
    record = RecordedLakeSnapshot(1, {BucketKey(3, 0): 100, BucketKey(4, 0): 5})
    assert check_base(view(marker=marker), replace(KNOWN, recorded=(record,))).ahead
    refused(errors.RecordAheadOfLake, view(marker=marker), replace(KNOWN, recorded=(RecordedLakeSnapshot(1, {BucketKey(4, 1): 5}),)))


def test_a_recorded_partition_that_lives_and_that_the_marker_lacks_is_ahead() -> None:
    """A marker only ever drops what vanished: this lake was put back to an older state, and the rows are not in it."""
    lake = view(marker=replace(MARKER, buckets={BucketKey(4, 0): TieredRange(0, 6)}))
    record = RecordedLakeSnapshot(1, {BucketKey(3, 0): 100, BucketKey(4, 0): 5})
    assert needs_living(lake, [record])
    error = refused(errors.RecordAheadOfLake, lake, replace(KNOWN, recorded=(record,), living={3, 4}))
    assert "100" in error.message
    assert check_base(lake, replace(KNOWN, recorded=(record,), living={4})).ahead


def test_a_partition_that_was_made_after_the_last_round_is_in_no_record_and_no_marker() -> None:
    lake = view(marker=replace(MARKER, buckets={BucketKey(4, 0): TieredRange(0, 6)}))
    record = RecordedLakeSnapshot(2, {BucketKey(4, 0): 6})
    assert not needs_living(lake, [record])
    assert not check_base(lake, replace(KNOWN, recorded=(record,), living={4, 5})).ahead
