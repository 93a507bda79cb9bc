"""Which files an upkeep round rewrites together: neighbours in order, to about the target size, and nothing twice for nothing."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tiering.lake.rules.upkeep.rewrite_runs import (
    FULL_SHARE,
    BucketWork,
    LiveDataFile,
    RewriteRun,
    runs_to_rewrite,
    worst_first,
)
from tiering.lake.rules.upkeep.small_files import SMALL_SHARE

MB = 1 << 20
TARGET = 100 * MB
NO_LIMIT = 1 << 60


def files(*sizes_mb: int, dirty: tuple[int, ...] = (), fixed: tuple[int, ...] = ()) -> list[LiveDataFile]:
    return [LiveDataFile(size * MB, place in dirty, place in fixed) for place, size in enumerate(sizes_mb)]


def planned(standing: list[LiveDataFile], *, full: bool = False, limit: int = NO_LIMIT) -> list[tuple[int, int, int]]:
    return [(run.first, run.stop, run.outputs) for run in runs_to_rewrite(standing, TARGET, limit, full=full)]


def test_small_neighbours_become_one_file_and_large_ones_stay() -> None:
    assert planned(files(100, 10, 20, 30, 90, 5)) == [(1, 4, 1)]


def test_a_single_small_file_between_large_ones_is_not_worth_it() -> None:
    assert planned(files(100, 10, 100)) == []


def test_a_long_run_is_cut_to_pieces_of_about_the_target() -> None:
    runs = planned(files(*[30] * 10))
    assert [stop - first for first, stop, _ in runs] == [4, 4, 2]
    assert [outputs for _, _, outputs in runs] == [1, 1, 1]


def test_deleted_rows_bring_a_large_file_among_the_work() -> None:
    assert planned(files(100, 100, 100, dirty=(1,))) == [(1, 2, 1)]


def test_a_file_that_no_rewrite_may_replace_separates_its_neighbours() -> None:
    assert planned(files(10, 10, 10, 10, 10, fixed=(2,))) == [(0, 2, 1), (3, 5, 1)]


def test_with_full_a_bucket_gets_as_many_files_as_it_needs() -> None:
    assert planned(files(80, 10, 80, 10), full=True) == [(0, 2, 1), (2, 4, 1)]
    assert planned(files(90, 95), full=True) == []


def test_with_full_a_file_that_is_too_large_is_cut() -> None:
    assert planned(files(400), full=True) == [(0, 1, 4)]
    assert planned(files(400)) == []


def test_a_piece_reads_no_more_than_the_limit() -> None:
    assert planned(files(*[10] * 6), limit=25 * MB) == [(0, 2, 1), (2, 4, 1), (4, 6, 1)]


def test_readers_win_most_from_the_bucket_that_comes_first() -> None:
    few, many = BucketWork([RewriteRun(0, 2, 10, 1)]), BucketWork([RewriteRun(0, 9, 10, 1)])
    assert [name for name, _ in worst_first([("few", few), ("none", BucketWork([])), ("many", many)])] == ["many", "few"]


@given(st.lists(st.integers(1, 300), max_size=60), st.booleans())
def test_rewrites_come_to_an_end_and_leave_few_small_files(sizes_mb: list[int], full: bool) -> None:
    """Each rewrite makes files of equal size, as the rewriter does."""
    sizes = [size * MB for size in sizes_mb]
    for _ in range(20):
        runs = runs_to_rewrite([LiveDataFile(size) for size in sizes], TARGET, NO_LIMIT, full=full)
        if not runs:
            break
        for run in reversed(runs):
            assert sum(sizes[run.first : run.stop]) == run.size_bytes
            sizes[run.first : run.stop] = [run.size_bytes // run.outputs] * run.outputs
    assert not runs, "a rewrite that never ends"
    small = [size < SMALL_SHARE * TARGET for size in sizes]
    assert not any(before and after for before, after in pairwise(small)), "two small neighbours are left"
    if full and len(sizes) > 1:
        assert all(size <= 2 * FULL_SHARE * TARGET for size in sizes)


def test_files_as_large_as_what_a_round_can_rewrite_are_no_work() -> None:
    assert planned(files(*[80] * 10), limit=40 * MB) == []
    assert planned(files(80, 10, 10, 80), limit=40 * MB) == [(1, 3, 1)]


@given(st.lists(st.integers(1, 200), max_size=40), st.integers(8, 200))
def test_what_health_calls_too_many_small_files_is_work_for_a_round(sizes: list[int], budget_mb: int) -> None:
    """Whatever a round's budget is, as long as it is twice what health takes for the size that can be reached."""
    standing = files(*sizes)
    small = [size for size in sizes if size * MB < SMALL_SHARE * min(TARGET, budget_mb * MB // 2)]
    neighbours = any(max(pair) * MB < SMALL_SHARE * min(TARGET, budget_mb * MB // 2) for pair in pairwise(sizes))
    if neighbours:
        assert small
        assert planned(standing, limit=budget_mb * MB)
