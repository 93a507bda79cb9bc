"""Drawn stories of a whole deployment: afterwards hints heal every table, and lake, log and model agree.

`LAKEWARD_FUZZ_EXAMPLES` tells more stories than the suite does, `LAKEWARD_FUZZ_SEED` others: the first one's number.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.depth import examples
from support.lake_kinds.kinds import LAKE_KINDS, LakeKind
from support.worlds.stories.story import Story
from support.worlds.stories.upkeep import upkeep_often
from support.worlds.story_faults import FAULTS

STORIES = examples(3)
"""Stories of each kind of lake; a second or two each."""
FIRST = int(os.environ.get("LAKEWARD_FUZZ_SEED", "1"))
STEPS = 25


@pytest.mark.filterwarnings("ignore:Merge on read is not yet supported")  # from a user's compaction with pyiceberg
@pytest.mark.parametrize("kind", LAKE_KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + STORIES))
def test_whatever_happens_hints_heal_and_no_row_is_lost(tmp_path: Path, seed: int, kind: LakeKind) -> None:
    with upkeep_often():
        tell_story(tmp_path, seed, kind)


def tell_story(folder: Path, seed: int, kind: LakeKind) -> None:
    story = Story(folder, seed, kind, FAULTS)
    try:
        story.tell(STEPS)
        story.heal()
        story.prove()
        story.end_of_all()
    except BaseException as failure:
        failure.add_note("\n".join([f"story {seed} of {kind.name}:", *story.log]))
        raise
    finally:
        story.close()
