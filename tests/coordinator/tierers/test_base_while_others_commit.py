"""The base check reads several places one after the other; a round that lands between two of the looks is no error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.background import tick
from support.worlds.lake_world import LakeWorld, SteppedRound
from tiering.coordinator.observing.lake_reader import Lakes
from tiering.lake.base import LakeView
from tiering.model.rounds import RoundState
from tiering.model.tables import TableInfo, TablePath
from tiering.round.steps import actions as act


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LakeWorld]:
    lake_world = LakeWorld(tmp_path)
    yield lake_world
    lake_world.close()


def asleep_before_its_commit(world: LakeWorld) -> tuple[TableInfo, SteppedRound]:
    """The second round of a table was granted its commit, and its tierer is not heard of any more."""
    table = world.table("orders")
    world.append(table, 0, 20)
    assert world.tier(table).state is RoundState.SUCCEEDED
    world.append(table, 20, 20)
    world.due()
    asleep = world.begin(table).advance_to(act.CommitLake)
    world.clock.advance(200)
    tick(world.coordinator)
    world.due()
    return table, asleep


def wake_after_the_look(world: LakeWorld, asleep: SteppedRound, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the sleeping round commit and ack right after the next read of the lake."""
    look = world.lake.view

    def view(path: TablePath) -> LakeView | None:
        monkeypatch.undo()
        view = look(path)
        assert asleep.runner.run().state is RoundState.SUCCEEDED
        return view

    monkeypatch.setattr(world.lake, "view", view)


def test_a_round_is_fenced_by_one_that_lands_during_its_base_check(world: LakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    table, asleep = asleep_before_its_commit(world)
    late = world.begin(table)
    wake_after_the_look(world, asleep, monkeypatch)
    assert late.end().state in (RoundState.FENCED, RoundState.EMPTY)
    world.assert_exact(table)


def test_the_coordinators_own_look_sees_the_lake_as_it_was(world: LakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    table, asleep = asleep_before_its_commit(world)
    record = world.record(table)
    wake_after_the_look(world, asleep, monkeypatch)
    base = Lakes(world.storage, lambda _: world.lake).base(record, table)
    assert base.view is not None
    assert base.view.tiered == record.lake.snapshot_id
    world.assert_exact(table)
