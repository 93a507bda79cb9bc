"""A part that handles a named fault is taken out, and the story in which the fault happens fails, or the test that holds the part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from faults.stories.test_faults import meet_alone, meet_in_story
from faults.stories.weakened import check_that_it_fails_without
from faults.stories.weakenings import WEAKENINGS, Weakening

from support.depth import soaked
from support.lake_kinds.kinds import ICEBERG
from support.worlds.story_faults import FAULTS, HERE

NUMBERS = {fault.name: number for number, fault in enumerate(FAULTS)}
IN_STORIES = [weakening for weakening in WEAKENINGS if weakening.times]
IN_TESTS = [weakening for weakening in WEAKENINGS if not weakening.times]
SHARE_OF_CI = 4
"""CI takes out one part of so many, a soak all: they try the tests that hold the parts, and CI runs all of those as they are."""


def in_ci(weakenings: list[Weakening]) -> list[Any]:
    return [soaked(weakening, of_ci=number % SHARE_OF_CI == 0) for number, weakening in enumerate(weakenings)]


@pytest.mark.parametrize("weakening", in_ci(IN_STORIES), ids=lambda weakening: weakening.fault)
def test_a_part_that_is_taken_out_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weakening: Weakening) -> None:
    weakening.weaken(monkeypatch)
    with pytest.raises(weakening.fails_with):
        meet_alone(tmp_path, NUMBERS[weakening.fault], weakening.times, weakening.skipped_seeds)


@pytest.mark.parametrize("weakening", in_ci(IN_TESTS), ids=lambda weakening: weakening.fault)
def test_the_test_that_holds_a_part_fails_without_it(tmp_path: Path, weakening: Weakening) -> None:
    """With the part the test passes, in the run that this test belongs to."""
    test = FAULTS[NUMBERS[weakening.fault]].held_by
    check_that_it_fails_without(weakening.weaken, test, tmp_path / "weakened", weakening.fails_with, weakening.variant)


def test_a_seed_finds_rows_that_a_new_lake_table_would_lack_for_no_marker_records_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the story of seed 16 a partition is recreated and tiered, and later a user drops a column of the lake table."""
    fault = FAULTS[NUMBERS["archive-in-drifted-table"]]
    assert meet_in_story(tmp_path / "whole", 16, ICEBERG, fault, times=1)
    monkeypatch.setattr("tiering.round.steps.steps_to_commit.next_archives", lambda *_: frozenset())
    with pytest.raises(AssertionError, match="led to a lake table without"):
        meet_in_story(tmp_path / "weakened", 16, ICEBERG, fault, times=1)


def test_the_handling_of_each_fault_is_taken_out_once() -> None:
    assert [weakening.fault for weakening in WEAKENINGS] == [fault.name for fault in FAULTS]
    assert {weakening.fault for weakening in IN_STORIES} == {fault.name for fault in FAULTS if fault.held_by == HERE}
