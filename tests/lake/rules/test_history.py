"""Rolled back, expired, or written by another service: what the base check makes of the head's ancestors, over views built by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.lakes.lake_views import B0, KNOWN, MARKER, OURS, PATH, RECORDED, refused, snapshot, view
from tiering import errors
from tiering.lake.base import FLUSS_COMMIT_USER, LakeView
from tiering.lake.marker import TieredRange
from tiering.lake.rules.base_check import check_base
from tiering.lake.rules.history import is_undecided

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
    error = refused(errors.LakeRolledBack, view(tiered=1, marker=older))
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


def test_what_is_known_of_expired_snapshots_decides() -> None:
    lake = view(snapshot(2, 1, round_id="r2"), snapshot(4, 3), snapshot(5, 4), head=5)
    assert check_base(replace(lake, expired={3: snapshot(3, 2)}), KNOWN).marker == MARKER
    rolled_back = replace(lake, expired={3: snapshot(3, 1), 1: snapshot(1, None, round_id="r1")})
    refused(errors.LakeRolledBack, rolled_back)
    refused(errors.LakeRolledBack, rolled_back, replace(KNOWN, passed_head=1))
    refused(errors.HistoryExpired, replace(lake, expired={3: snapshot(3, 1)}))
    refused(errors.ForeignTiering, replace(lake, expired={3: snapshot(3, 2, commit_user=FLUSS_COMMIT_USER)}))


def test_expired_history_below_the_tag_does_not_matter() -> None:
    assert check_base(view(snapshot(2, 1, round_id="r2"), snapshot(3, 2), head=3), KNOWN).marker == MARKER


def test_a_head_that_the_metadata_lacks_is_undecided() -> None:
    refused(errors.HistoryExpired, view(head=99))


def test_parents_in_a_circle_are_undecided_and_end() -> None:
    refused(errors.HistoryExpired, view(*OURS, snapshot(3, 4), snapshot(4, 3), head=4))


# --- another tiering service


def test_foreign_tiering_without_a_tag_is_refused() -> None:
    theirs = snapshot(1, None, commit_user=FLUSS_COMMIT_USER)
    refused(errors.ForeignTiering, view(theirs, head=1, tiered=None, marker=None))
    refused(errors.ForeignTiering, view(theirs, head=1, tiered=None, marker=None), replace(KNOWN, recorded=(RECORDED,)))


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
    still_known=st.sets(st.integers(0, 7)),
)
def test_a_verdict_is_never_wrong_whatever_expired(
    parents: list[int], head: int, tag: int, expired: set[int], still_known: set[int]
) -> None:
    """Snapshot n has a parent below n. The truth is read from the whole history, the check sees what expiry left, and what is still known
    of expired snapshots."""
    numbers = range(1, len(parents) + 1)
    whole = {n: snapshot(n, min(parents[n - 1], n - 1) or None) for n in numbers}
    head, tag = head % len(parents) + 1, tag % len(parents) + 1
    descends, current = False, head
    while current:
        descends = descends or current == tag
        current = whole[current].parent_id or 0
    left = {n: version for n, version in whole.items() if n in (head, tag) or n not in expired}
    remembered = {n: version for n, version in whole.items() if n not in left and n in still_known}
    lake = LakeView(PATH, "uuid", head, tag, MARKER, left, expired=remembered)
    try:
        check_base(lake, KNOWN)
    except errors.LakeRolledBack:
        assert not descends
        assert not is_undecided(lake)
    except errors.HistoryExpired:
        assert left | remembered != whole or not descends
        assert is_undecided(lake)
    else:
        assert descends
        assert not is_undecided(lake)
