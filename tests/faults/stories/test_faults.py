"""Each named fault happens to a deployment by itself: it is said, what is printed heals it, and no row is lost or doubled."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from faults.many_seeds import printed_trace
from faults.reliability.soak import ENOUGH, HARNESSES

from support.lake_kinds.kinds import LAKE_KINDS, LakeKind
from support.worlds.stories.story import Story, StoryFault, wanted_of
from support.worlds.story_faults import FAULTS

TRIES = 8
"""Rounds, after each of which the fault is tried again until it can happen."""
SNAPSHOTS_AT = 2
SEEDS = 6


def meet_alone(folder: Path, fault_number: int, times: int = 1, skipped_seeds: int = 0) -> None:
    """A story of rows and rounds in which the fault happens. Kinds of lakes take turns."""
    fault = FAULTS[fault_number]
    kinds = [kind for kind in LAKE_KINDS if kind.format in fault.formats]
    first_seed = fault_number + skipped_seeds
    for seed in itertools.count(first_seed):
        assert seed < first_seed + SEEDS, f"{fault.name} cannot happen"
        if meet_in_story(folder / str(seed), seed, kinds[fault_number % len(kinds)], fault, times):
            return


def meet_in_story(folder: Path, seed: int, kind: LakeKind, fault: StoryFault, times: int) -> bool:
    """Tells the story of a seed; whether the fault happened in it."""
    story = Story(folder, seed, kind)
    try:
        story.create()
        story.create()
        for number in range(TRIES):
            story.attempt("tier", story.tier)
            if number == SNAPSHOTS_AT:
                story.attempt("snapshot", story.snapshot)
            if number >= SNAPSHOTS_AT and story.injected[fault.name] < times:
                story.inject(fault)
            if story.injected[fault.name] >= times:
                break
        if not story.injected[fault.name]:
            return False
        story.heal()
        story.prove()
        return True
    except BaseException as failure:
        failure.add_note("\n".join([f"{fault.name} in story {seed} of {story.world.lake_format}:", *story.log]))
        raise
    finally:
        story.close()


@pytest.mark.filterwarnings("ignore:Merge on read is not yet supported")  # from a user's compaction with pyiceberg
@pytest.mark.parametrize("fault_number", range(len(FAULTS)), ids=lambda number: FAULTS[number].name)
def test_it_is_said_and_healed_and_no_row_is_lost(tmp_path: Path, fault_number: int) -> None:
    meet_alone(tmp_path, fault_number)


@pytest.mark.soak
def test_a_seed_reproduces_a_story_exactly() -> None:
    """The second run is in another process, whose sets have another order."""
    arguments = ("--kind", "paimon-clean", "--seeds", "1", "--steps", "4", "--first")
    traces = {
        seed: {printed_trace("faults.stories", *arguments, seed, hash_seed=hash_seed) for hash_seed in (1, 2)} for seed in ("9", "11")
    }
    assert [len(traces[seed]) for seed in traces] == [1, 1]
    assert traces["9"] != traces["11"]


def test_each_fault_has_a_name_of_its_own() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 30


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_soak_wants_each_fault_often_enough(fault: StoryFault) -> None:
    kinds = {kind.name: kind for kind in LAKE_KINDS}
    wanted = 0
    for harness in HARNESSES:
        if harness.module == "faults.stories" and kinds[harness.arguments[-1]].format in fault.formats:
            wanted += sum(fault in wanted_of(seed, FAULTS) for seed in range(harness.seeds or 0))
    assert wanted >= ENOUGH * 1.5, "some of them cannot happen in their story"
