"""Thousands of random steps beside Flink: nothing is lost or doubled for good, and no error is false. A seed reproduces a failure."""

from __future__ import annotations

import pytest

from support.flink.random_story import RandomStory
from support.flink.reused_ids_lake import ReusedIdsLake
from support.lakes.clean_memory_lake import CleanMemoryLake
from support.lakes.shared_memory_lake import SharedMemoryLake

STEPS = 150


@pytest.mark.in_turn("block")
@pytest.mark.parametrize("block", range(2))
@pytest.mark.parametrize("keyed", [False, True], ids=["log", "primary-key"])
@pytest.mark.parametrize("lake", [SharedMemoryLake, ReusedIdsLake], ids=["ids of Iceberg's", "ids of Paimon's"])
def test_whatever_comes_between_every_row_is_there_once_in_the_end(block: int, keyed: bool, lake: type[SharedMemoryLake]) -> None:
    outcomes: set[str] = set()
    for seed in range(block * 40, block * 40 + 40):
        story = RandomStory(seed, keyed=keyed, lake=lake)
        for _ in range(STEPS):
            story.step()
        story.heal()
        outcomes |= set(story.outcomes) | set(story.happened)
    assert {"SUCCEEDED", "EMPTY", "FAILED", "flink", "flink failed", "killed", "expired", "cut", "rolled back"} <= outcomes
    if not keyed:
        assert {"ForeignTieringOverlap", "deduplicate"} <= outcomes  # else the other service was no danger


@pytest.mark.parametrize("keyed", [False, True], ids=["log", "primary-key"])
def test_clean_tables_are_never_adopted_wrongly(keyed: bool) -> None:
    outcomes: set[str] = set()
    for seed in range(40):
        story = RandomStory(seed, keyed=keyed, lake=CleanMemoryLake)
        for _ in range(STEPS):
            story.step()
        story.heal()
        outcomes |= set(story.outcomes) | set(story.happened)
    assert {"SUCCEEDED", "EMPTY", "FAILED", "flink", "flink failed", "killed", "ForeignTieringUnproved"} <= outcomes
    assert ("retier" if keyed else "went back") in outcomes
