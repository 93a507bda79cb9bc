"""Which small files of a bucket are merged: few are left, and each byte is rewritten seldom."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiering.lake.rules.upkeep.small_files import MERGED_FILES, SMALL_FILES, first_to_merge, is_small

TARGET = 128 << 20
UNBOUNDED = 1 << 60

sizes = st.lists(st.integers(0, 2 * TARGET), max_size=60)


@given(sizes, st.integers(1, 2 * TARGET), st.integers(0, 1 << 40))
def test_only_small_neighbours_at_the_end_are_merged_within_the_budget(files: list[int], target: int, budget: int) -> None:
    first = first_to_merge(files, target, budget)
    if first is None:
        return
    merged = files[first:]
    assert len(merged) >= 2
    assert all(is_small(size, target) for size in merged)
    assert sum(merged) <= budget


@given(st.lists(st.integers(0, TARGET // 100), min_size=SMALL_FILES + 1, max_size=60))
def test_more_small_files_than_a_bucket_may_have_are_merged(files: list[int]) -> None:
    first = first_to_merge(files, TARGET, UNBOUNDED)
    assert first is not None


@given(st.lists(st.integers(0, TARGET // 100), max_size=SMALL_FILES))
def test_as_many_small_files_as_a_bucket_may_have_stay(files: list[int]) -> None:
    assert first_to_merge(files, TARGET, UNBOUNDED) is None


def test_files_behind_a_large_one_are_merged_without_it() -> None:
    assert first_to_merge([10, 10, TARGET, *[10] * (SMALL_FILES + 1)], TARGET, UNBOUNDED) == 3


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("draw", "at_most"),
    [
        (lambda source: 1_000, 8.0),
        (lambda source: source.randint(1, 2_000), 8.0),
        (lambda source: int(1_000 * source.lognormvariate(0, 2)) + 1, 8.0),
        (lambda source: int(1_000 * source.paretovariate(1.2)), 8.0),
    ],
    ids=["equal", "uniform", "lognormal", "pareto"],
)
def test_a_day_of_rounds_rewrites_each_byte_a_few_times(seed: int, draw: Callable[[random.Random], int], at_most: float) -> None:
    source, files, written, rewritten, most = random.Random(seed), list[int](), 0, 0, 0
    for _ in range(8_640):
        size = draw(source)
        files.append(size)
        written += size
        first = first_to_merge(files, UNBOUNDED, UNBOUNDED)
        if first is not None:
            rewritten += sum(files[first:])
            files[first:] = [sum(files[first:])]
        most = max(most, len(files))
    assert most <= SMALL_FILES
    assert rewritten <= at_most * written


def test_a_merge_takes_a_bounded_number_of_files_from_a_pile_that_an_earlier_version_left() -> None:
    assert first_to_merge([2_000] * 50_000, TARGET, UNBOUNDED) == 50_000 - MERGED_FILES
    assert first_to_merge([2_000] * 50_000, TARGET, 20_000) == 50_000 - 10


def test_a_pile_does_not_grow_and_no_round_rewrites_its_former_merge_with_a_few_files_of_the_pile() -> None:
    files, rounds, rewritten = [2_000] * 50_000, 2_000, 0
    for _ in range(rounds):
        files.append(2_000)
        first = first_to_merge(files, TARGET, UNBOUNDED)
        if first is not None:
            rewritten += sum(files[first:])
            files[first:] = [sum(files[first:])]
    assert len(files) < 50_000
    assert rewritten <= 12 * 2_000 * rounds


def test_files_that_a_round_cannot_merge_are_not_rewritten_round_after_round() -> None:
    """Such files wait for upkeep rounds. Newer files are merged as in a bucket without them."""
    budget, row_bytes = 20 << 20, 100_000
    sizes = [19 << 20] * 30
    rewritten = 0
    for _ in range(1_000):
        sizes.append(row_bytes)
        first = first_to_merge(sizes, 512 << 20, budget)
        if first is not None:
            rewritten += sum(sizes[first:])
            sizes = [*sizes[:first], sum(sizes[first:])]
    assert rewritten < 8 * 1_000 * row_bytes
    assert sum(size < 15 << 20 for size in sizes) <= SMALL_FILES + 1
