"""After a commit request: whose the lake's newest marker is, whether the base still is the base, and how far the lake reaches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.lakes.lake_views import B0, B1, EMPTY, KNOWN, MARKER, OURS, snapshot, view
from tiering import errors
from tiering.lake.base import LakeView
from tiering.lake.rules.base_check import Base, CommitOutcome, check_base, check_same_base, reaches, resolve_commit, tiered_offsets
from tiering.model.tables import BucketKey

# --- after a commit that did not land


def test_the_same_marker_below_a_foreign_commit_is_the_same_base() -> None:
    base = check_base(view(), KNOWN)
    again = view(*OURS, snapshot(3, 2), head=3)
    checked = check_same_base(base, again, KNOWN)
    assert checked.view == again
    assert checked.marker == MARKER


def test_another_rounds_marker_is_fenced() -> None:
    base = check_base(view(), KNOWN)
    newer = replace(MARKER, round_id="r3", base_round_id="r2")
    with pytest.raises(errors.Fenced, match="r3"):
        check_same_base(base, view(*OURS, snapshot(3, 2, round_id="r3"), head=3, tiered=3, marker=newer), KNOWN)


def test_a_first_round_of_another_tierer_is_fenced() -> None:
    for nothing in (Base(None, None, False), Base(EMPTY, None, False)):
        with pytest.raises(errors.Fenced):
            check_same_base(nothing, view(), replace(KNOWN, lake_table_uuid=None))


def test_the_table_of_the_base_must_still_be_there() -> None:
    base = check_base(EMPTY, replace(KNOWN, lake_table_uuid=None))
    for again in (None, replace(EMPTY, table_uuid="new")):
        with pytest.raises(errors.LakeTableReplaced):
            check_same_base(base, again, replace(KNOWN, lake_table_uuid=None))


def test_the_head_of_the_base_counts_as_passed() -> None:
    base = check_base(view(*OURS, snapshot(3, 2), head=3), KNOWN)
    expired = view(snapshot(2, 1, round_id="r2"), snapshot(3, None), snapshot(4, 3), head=4)
    assert check_same_base(base, expired, KNOWN).marker == MARKER


def test_a_rollback_between_the_attempts_is_refused() -> None:
    with pytest.raises(errors.LakeRolledBack):
        check_same_base(check_base(view(), KNOWN), view(head=1), KNOWN)


# --- what became of a commit


def test_our_round_in_any_snapshot_is_ours() -> None:
    base = check_base(view(), KNOWN)
    tagged = replace(MARKER, round_id="r4")
    lake = view(*OURS, snapshot(3, 2, round_id="r3"), snapshot(4, 3, round_id="r4"), head=4, tiered=4, marker=tagged)
    resolved = resolve_commit(lake, "r3", base)
    assert (resolved.outcome, resolved.snapshot_id) == (CommitOutcome.OURS, 3)


def test_the_tag_on_another_round_is_the_other_rounds() -> None:
    newer = replace(MARKER, round_id="r3", base_round_id="r2")
    lake = view(*OURS, snapshot(3, 2, round_id="r3"), head=3, tiered=3, marker=newer)
    assert resolve_commit(lake, "mine", check_base(view(), KNOWN)).outcome is CommitOutcome.OTHER_ROUND
    assert resolve_commit(lake, "mine", Base(EMPTY, None, False)).outcome is CommitOutcome.OTHER_ROUND


@pytest.mark.parametrize(
    "lake",
    [None, EMPTY, view(), view(*OURS, snapshot(3, 2), head=3), replace(view(marker=replace(MARKER, round_id="x")), table_uuid="new")],
    ids=["gone", "emptied", "nothing happened", "foreign commit", "replaced"],
)
def test_anything_else_is_not_found(lake: LakeView | None) -> None:
    assert resolve_commit(lake, "mine", check_base(view(), KNOWN)).outcome is CommitOutcome.NOT_FOUND


# --- how far


def test_tiered_offsets_are_the_next_to_tier() -> None:
    assert tiered_offsets(MARKER) == {B0: 20, B1: 9}
    assert tiered_offsets(None) == {}


@pytest.mark.parametrize(
    ("targets", "starts", "reached"),
    [
        ({}, {}, True),
        ({B0: 20, B1: 9}, {B0: 0, B1: 5}, True),
        ({B0: 21}, {B0: 0}, False),
        ({BucketKey(None, 2): 0}, {BucketKey(None, 2): 0}, True),
        ({BucketKey(None, 2): 4}, {BucketKey(None, 2): 4}, True),
        ({BucketKey(None, 2): 5}, {BucketKey(None, 2): 4}, False),
        ({B1: 12}, {B1: 12}, False),
    ],
    ids=["no bucket", "all", "one short", "empty bucket", "empty above 0", "never tiered", "truncated before it was tiered"],
)
def test_whether_the_lake_reaches_a_target(targets: dict[BucketKey, int], starts: dict[BucketKey, int], reached: bool) -> None:
    assert reaches(MARKER.buckets, targets, starts) is reached


def test_a_target_in_a_partition_that_was_dropped_is_waited_for_no_more() -> None:
    targets = {BucketKey(7, 0): 10, BucketKey(8, 0): 0, B0: 20}
    assert not reaches(MARKER.buckets, targets, {}, living=[7, 8])
    assert reaches(MARKER.buckets, targets, {}, living=[8])
    assert reaches(MARKER.buckets, targets, {}, living=[])


def test_without_a_marker_only_an_empty_log_is_reached() -> None:
    assert reaches({}, {B0: 0}, {B0: 0})
    assert not reaches({}, {B0: 1}, {B0: 0})
