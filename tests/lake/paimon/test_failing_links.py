"""The link that makes a snapshot fails, before or after it is there: the round looks, and each row is in the lake once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.lake_kinds.kinds import PAIMON, PAIMON_CLEAN, LakeKind
from support.worlds.lake_world import LakeWorld
from support.worlds.stories.failing_files import FailingFiles
from tiering.model.rounds import RoundState
from tiering.round.steps import actions as act


@pytest.fixture(params=[PAIMON, PAIMON_CLEAN], ids=lambda kind: kind.name)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LakeWorld]:
    kind: LakeKind = request.param
    world = LakeWorld(tmp_path, kind=kind)
    yield world
    world.close()


@pytest.mark.parametrize("after", [False, True], ids=["link fails", "answer lost"])
def test_a_snapshot_whose_link_failed_is_looked_for_and_made_once(world: LakeWorld, tmp_path: Path, after: bool) -> None:
    table = world.table("orders", 1)
    world.append(table, 0, 10)
    assert world.tier(table).state is RoundState.SUCCEEDED  # from here on snapshots are kept from expiry: the next link is the commit's
    world.append(table, 10, 10)
    world.due()
    begun = world.begin(table).advance_to(act.CommitLake)
    with FailingFiles(tmp_path / "lake", "link", after=after) as files:
        outcome = begun.end()
    assert files.failed is not None
    assert "/snapshot/" in files.failed
    assert outcome.state is RoundState.SUCCEEDED
    assert sorted(world.assert_exact(table)["id"].to_pylist()) == list(range(20))
