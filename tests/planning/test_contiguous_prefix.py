"""Which results of a round may be committed."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from tiering.lake.base import WriteResult
from tiering.model.tables import BucketKey
from tiering.planning.plan_splits import contiguous_prefix

B0, B1 = BucketKey(None, 0), BucketKey(None, 1)


def result(bucket: BucketKey, start: int, reached: int) -> WriteResult:
    return WriteResult(bucket, start, reached, reached - start, 1, 10, b"")


def test_results_past_a_gap_are_left_out() -> None:
    prefix = contiguous_prefix([result(B0, 5, 8), result(B0, 0, 3)], {B0: 0, B1: 4})
    assert prefix.reached == {B0: 3, B1: 4}
    assert [kept.starting_offset for kept in prefix.kept] == [0]
    assert [late.starting_offset for late in prefix.left_out] == [5]


def test_a_bucket_without_results_stays_where_it_was() -> None:
    assert contiguous_prefix([], {B0: 7}).reached == {B0: 7}


def test_the_same_range_twice_is_taken_once() -> None:
    prefix = contiguous_prefix([result(B0, 0, 3), result(B0, 0, 3)], {B0: 0})
    assert (len(prefix.kept), prefix.reached) == (1, {B0: 3})


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_whatever_order_splits_end_in_no_gap_and_no_doubling(splits: list[tuple[int, int]], shuffle: random.Random) -> None:
    results, position, contiguous, open_so_far = [], 10, 10, True
    for planned, reached in splits:
        done = min(planned, reached)
        if done:
            results.append(result(B0, position, position + done))
        if open_so_far:
            contiguous = position + done
        open_so_far = open_so_far and done == planned
        position += planned
    shuffle.shuffle(results)
    prefix = contiguous_prefix(results, {B0: 10})
    covered = sorted((kept.starting_offset, kept.reached_offset) for kept in prefix.kept)
    assert prefix.reached[B0] == contiguous
    assert [end for _, end in covered[:-1]] == [start for start, _ in covered[1:]]
    assert len(prefix.kept) + len(prefix.left_out) == len(results)
