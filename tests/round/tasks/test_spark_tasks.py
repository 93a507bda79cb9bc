"""Which splits share a Spark task."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tiering.round.tasks.spark_runner import SMALL_TASK_RECORDS, group_splits


def test_large_splits_have_a_task_each() -> None:
    assert group_splits([SMALL_TASK_RECORDS * 100] * 4, cores=2) == [range(0, 1), range(1, 2), range(2, 3), range(3, 4)]


def test_small_splits_share_tasks_that_keep_every_core_busy() -> None:
    assert [len(group) for group in group_splits([10] * 64, cores=2)] == [32, 32]
    assert [len(group) for group in group_splits([10] * 64, cores=16)] == [4] * 16


def test_small_splits_behind_large_ones_share_a_task() -> None:
    large = SMALL_TASK_RECORDS * 3
    assert group_splits([large, large, 5, 5, 5], cores=2) == [range(0, 1), range(1, 2), range(2, 5)]


@given(
    st.lists(st.integers(min_value=0, max_value=3 * SMALL_TASK_RECORDS), min_size=1, max_size=200), st.integers(min_value=1, max_value=64)
)
def test_each_split_is_in_one_task_and_their_order_is_kept(records: list[int], cores: int) -> None:
    groups = group_splits(records, cores)
    assert [place for group in groups for place in group] == list(range(len(records)))
    assert all(len(group) > 0 for group in groups)
    share = -(-sum(records) // cores)
    assert all(len(group) == 1 or sum(records[place] for place in group) <= min(SMALL_TASK_RECORDS, share) for group in groups)
