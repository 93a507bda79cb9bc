"""A store that was put back to an older copy assigns a round again that is in the lake: it commits nothing, and the next one goes on.

First met by the stories (`python -m faults.stories`), seed 2010 of iceberg-clean: two snapshots had one round id.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from support.background import tick
from support.lake_kinds.kinds import LAKE_KINDS, LakeKind
from support.worlds.lake_world import FRESHNESS_S
from support.worlds.stories.story import Story


@pytest.mark.parametrize("kind", LAKE_KINDS, ids=lambda kind: kind.name)
def test_a_round_that_a_restored_store_assigns_again_is_not_committed_twice(tmp_path: Path, kind: LakeKind) -> None:
    story = Story(tmp_path, 0, kind)
    story.create()
    [model] = story.models.values()
    story.world.storage.alter_table(model.info.path, {"table.datalake.enabled": "true"})
    story.write(model)
    story.world.clock.advance(FRESHNESS_S + 1)
    tick(story.world.coordinator)
    story.back_up_store()
    first = story.begin()
    assert first is not None
    assert "SUCCEEDED" in story.end(first)
    story.write(model)
    story.restore_store()
    tick(story.world.coordinator)
    again = story.begin()
    assert again is not None
    assert again.assignment.round_id == first.assignment.round_id
    error = again.end().error
    assert error is not None
    assert error.error_class == "RoundRepeated"
    story.heal()
    story.prove()
    view = story.world.lake.view(model.info.path)
    assert view is not None
    assert max(Counter(row.round_id for row in view.snapshots.values() if row.round_id).values()) == 1
    story.close()
