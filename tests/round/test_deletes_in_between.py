"""A user deletes rows of the lake table during a round: they stay deleted, and the round adds its own rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.lake_kinds.kinds import LAKE_KINDS, LakeKind
from support.worlds.lake_world import LakeWorld
from tiering.model.rounds import RoundState
from tiering.round.steps import actions as act

pytestmark = pytest.mark.in_turn("world")


@pytest.fixture(params=LAKE_KINDS, ids=lambda kind: kind.name)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LakeWorld]:
    kind: LakeKind = request.param
    world = LakeWorld(tmp_path, kind=kind)
    yield world
    world.close()


@pytest.mark.filterwarnings("ignore:Merge on read is not yet supported")  # of the delete with pyiceberg
@pytest.mark.parametrize("before", [act.RunSplits, act.BeginCommit, act.CommitLake])
def test_rows_that_a_user_deletes_in_a_round_stay_deleted(world: LakeWorld, before: type[act.Action]) -> None:
    table = world.table("orders", 1)
    world.append(table, 0, 10)
    assert world.tier(table).state is RoundState.SUCCEEDED
    world.append(table, 10, 10)
    world.due()
    begun = world.begin(table).advance_to(before)
    world.by_hand.delete(table.path, "id", 3)
    assert begun.end().state is RoundState.SUCCEEDED
    assert sorted(world.by_hand.rows(table.path)["id"].to_pylist()) == [*range(3), *range(4, 20)]
