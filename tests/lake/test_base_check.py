"""The rules of the base check, one by one, over views built by hand. tests/lake/test_base_on_iceberg.py has them on real tables."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sys_tables.registry import default_registry
from tiering import errors
from tiering.lake.base import FLUSS_COMMIT_USER, LakeSnapshot, LakeView
from tiering.lake.base_check import Base, KnownLake, check_base, needs_living
from tiering.lake.marker import Marker, TieredRange
from tiering.model import BucketKey, RecordedLakeSnapshot, TablePath

PATH = TablePath("sales", "orders")
B0, B1 = BucketKey(None, 0), BucketKey(None, 1)
MARKER = Marker("cluster", 7, "uuid", "r2", 2, "r1", {B0: TieredRange(0, 20), B1: TieredRange(5, 9)})
KNOWN = KnownLake("cluster", 7, "uuid", None, ())
RECORDED = RecordedLakeSnapshot(2, {B0: 20, B1: 9})


def snapshot(number: int, parent: int | None, sequence: int | None = None, **more: str) -> LakeSnapshot:
    return LakeSnapshot(number, parent, number if sequence is None else sequence, datetime(2024, 1, 1, tzinfo=UTC), "append", **more)


def view(*snapshots: LakeSnapshot, head: int | None = 2, tag: int | None = 2, marker: Marker | None = MARKER) -> LakeView:
    """By default: r1 made snapshot 1, r2 made 2, which is the head and has the tag."""
    ones = snapshots or (snapshot(1, None, round_id="r1"), snapshot(2, 1, round_id="r2"))
    return LakeView(PATH, "uuid", head, tag, marker, {one.snapshot_id: one for one in ones})


OURS = (snapshot(1, None, round_id="r1"), snapshot(2, 1, round_id="r2"))
EMPTY = LakeView(PATH, "uuid", None, None, None, {})


def refused(kind: type[errors.LakewardError], lake: LakeView | None, known: KnownLake = KNOWN) -> errors.LakewardError:
    with pytest.raises(kind) as caught:
        check_base(lake, known)
    error = caught.value
    assert type(error) is kind
    assert isinstance(error, errors.PermanentTieringError)
    assert error.hint
    named = set(re.findall(r"CALL sys\.(\w+)", error.hint))
    assert named <= {procedure.name for procedure in default_registry().procedures}
    assert error.ids
    return error


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
    refused(errors.LakeTableReplaced, None)


def test_recorded_offsets_without_a_lake_table_are_refused() -> None:
    refused(errors.MarkerLost, None, replace(KNOWN, lake_table_uuid=None, recorded=(RECORDED,)))


# --- no tag


def test_rows_without_a_tag_are_refused() -> None:
    refused(errors.UntrackedLakeTable, view(snapshot(1, None), head=1, tag=None, marker=None))


def test_snapshots_that_are_on_no_branch_are_refused_too() -> None:
    refused(errors.UntrackedLakeTable, view(snapshot(1, None), head=None, tag=None, marker=None))


def test_a_dropped_tag_is_refused_and_its_snapshot_named() -> None:
    error = refused(errors.MarkerLost, view(tag=None, marker=None))
    assert "snapshot 2" in error.hint


def test_recorded_offsets_without_a_tag_are_refused() -> None:
    refused(errors.MarkerLost, EMPTY, replace(KNOWN, recorded=(RECORDED,)))
    refused(errors.MarkerLost, view(snapshot(9, None), head=9, tag=None, marker=None), replace(KNOWN, recorded=(RECORDED,)))


def test_a_head_that_passed_before_without_a_tag_now_is_refused() -> None:
    refused(errors.MarkerLost, EMPTY, replace(KNOWN, passed_head=2))


def test_a_tag_on_a_snapshot_without_marker_is_refused() -> None:
    refused(errors.MarkerCorrupt, view(marker=None))


def test_a_tag_on_an_unknown_snapshot_is_refused() -> None:
    refused(errors.MarkerCorrupt, view(tag=77, marker=None))


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


# --- rolled back, or not


def test_a_head_older_than_the_tag_is_rolled_back() -> None:
    refused(errors.LakeRolledBack, view(head=1))


def test_a_table_without_a_main_branch_is_rolled_back() -> None:
    refused(errors.LakeRolledBack, view(head=None))


def test_new_commits_on_top_of_an_older_snapshot_are_a_rollback() -> None:
    lake = view(*OURS, snapshot(3, 1), snapshot(4, 3), head=4)
    error = refused(errors.LakeRolledBack, lake)
    assert "snapshot 2" in error.hint


def test_a_head_that_passed_once_does_not_excuse_a_rollback_to_it() -> None:
    lake = view(*OURS, snapshot(3, 1), head=3)
    refused(errors.LakeRolledBack, lake, replace(KNOWN, passed_head=1))


def test_a_tag_moved_back_to_an_older_marker_is_refused() -> None:
    older = replace(MARKER, round_id="r1", base_round_id=None, buckets={B0: TieredRange(0, 3)})
    error = refused(errors.LakeRolledBack, view(tag=1, marker=older))
    assert "round r2" in error.message


@pytest.mark.parametrize("cut_parent", [3, None])
def test_expired_history_between_head_and_tag_is_undecided_never_rolled_back(cut_parent: int | None) -> None:
    """Java keeps the parent's id when the parent expires, pyiceberg clears it."""
    lake = view(snapshot(2, 1, round_id="r2"), snapshot(4, cut_parent), snapshot(5, 4), head=5)
    refused(errors.HistoryExpired, lake)


def test_the_walk_need_only_reach_the_head_that_passed_before() -> None:
    lake = view(snapshot(2, 1, round_id="r2"), snapshot(4, 3), snapshot(5, 4), head=5)
    assert check_base(lake, replace(KNOWN, passed_head=4)).marker == MARKER
    assert check_base(lake, replace(KNOWN, passed_head=5)).marker == MARKER
    refused(errors.HistoryExpired, lake, replace(KNOWN, passed_head=3))


def test_expired_history_below_the_tag_does_not_matter() -> None:
    assert check_base(view(snapshot(2, 1, round_id="r2"), snapshot(3, 2), head=3), KNOWN).marker == MARKER


def test_a_head_that_the_metadata_lacks_is_undecided() -> None:
    refused(errors.HistoryExpired, view(head=99))


def test_parents_in_a_circle_are_undecided_and_end() -> None:
    refused(errors.HistoryExpired, view(*OURS, snapshot(3, 4), snapshot(4, 3), head=4))


# --- another tiering service


def test_foreign_tiering_without_a_tag_is_refused() -> None:
    theirs = snapshot(1, None, commit_user=FLUSS_COMMIT_USER)
    refused(errors.ForeignTiering, view(theirs, head=1, tag=None, marker=None))
    refused(errors.ForeignTiering, view(theirs, head=1, tag=None, marker=None), replace(KNOWN, recorded=(RECORDED,)))


def test_foreign_tiering_newer_than_the_tag_is_refused() -> None:
    refused(errors.ForeignTiering, view(*OURS, snapshot(3, 2, commit_user=FLUSS_COMMIT_USER), snapshot(4, 3), head=4))


def test_foreign_tiering_below_the_tag_was_adopted() -> None:
    lake = view(snapshot(1, None, commit_user=FLUSS_COMMIT_USER), snapshot(2, 1, round_id="r2"))
    assert check_base(lake, KNOWN).marker == MARKER


def test_foreign_tiering_that_was_rolled_back_is_gone() -> None:
    lake = view(*OURS, snapshot(3, 2, commit_user=FLUSS_COMMIT_USER))
    assert check_base(lake, KNOWN).marker == MARKER


def test_our_own_round_under_flusss_commit_user_is_ours() -> None:
    lake = view(OURS[0], snapshot(2, 1, round_id="r2", commit_user=FLUSS_COMMIT_USER))
    assert check_base(lake, KNOWN).marker == MARKER


# --- over random histories


@given(
    parents=st.lists(st.integers(min_value=0, max_value=8), min_size=1, max_size=8),
    head=st.integers(0, 7),
    tag=st.integers(0, 7),
    expired=st.sets(st.integers(0, 7)),
)
def test_a_verdict_is_never_wrong_whatever_expired(parents: list[int], head: int, tag: int, expired: set[int]) -> None:
    """Snapshot n has a parent below n. The truth is read from the whole history, the check sees what expiry left."""
    numbers = range(1, len(parents) + 1)
    whole = {n: snapshot(n, min(parents[n - 1], n - 1) or None) for n in numbers}
    head, tag = head % len(parents) + 1, tag % len(parents) + 1
    descends, current = False, head
    while current:
        descends = descends or current == tag
        current = whole[current].parent_id or 0
    left = {n: one for n, one in whole.items() if n in (head, tag) or n not in expired}
    lake = LakeView(PATH, "uuid", head, tag, MARKER, left)
    try:
        check_base(lake, KNOWN)
    except errors.LakeRolledBack:
        assert not descends
    except errors.HistoryExpired:
        assert left != whole or not descends
    else:
        assert descends
