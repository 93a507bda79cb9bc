"""Thousands of random steps beside Flink: nothing is lost or doubled for good, and no error is false. A seed reproduces a failure."""

from __future__ import annotations

import pytest
from faults.beside_flink.faults import FAULTS, KINDS, StoryKind, run_seed
from faults.many_seeds import printed_trace

from support.flink.random_story import RandomStory
from support.flink.reused_ids_lake import ReusedIdsLake
from support.lakes.clean_memory_lake import CleanMemoryLake
from support.lakes.shared_memory_lake import SharedMemoryLake

STEPS = 150
SEEDS_OF_KIND = 10


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


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.partitioned or not kind.before_images], ids=str)
def test_partitions_and_changelogs_without_before_images(kind: StoryKind) -> None:
    outcomes: set[str] = set()
    for seed in range(SEEDS_OF_KIND):
        story = kind.story(seed)
        for _ in range(STEPS):
            story.step()
        story.heal()
        outcomes |= set(story.outcomes) | set(story.happened) | set(story.chance.injected)
    assert {"SUCCEEDED", "EMPTY", "flink"} <= outcomes
    assert "recreated" in outcomes if kind.partitioned else "flink-leaves-keys-twice" in outcomes


def test_a_roll_back_of_a_snapshot_of_ours_is_not_said_of_the_other_service() -> None:
    """Seed 422: one of the other service's is newer than what is left, and was said to be where no other service may be."""
    assert run_seed(422).injected["lake-rolled-back"]


def test_what_stories_inject_has_a_name_on_the_list() -> None:
    injected = {name for seed in range(2 * len(KINDS)) for name in run_seed(seed).injected}
    assert injected <= {fault.name for fault in FAULTS}
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


def test_a_seed_reproduces_a_story_exactly() -> None:
    """One of each kind of tables; also in another process, whose sets have another order."""
    seeds = ("--seeds", str(len(KINDS)), "--first", "600")
    assert len({printed_trace("faults.beside_flink", *seeds, hash_seed=hash_seed) for hash_seed in (1, 2)}) == 1
