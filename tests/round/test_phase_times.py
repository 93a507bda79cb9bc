"""How long the parts of a round took: by its actions, and for work on splits by how its tasks spent their time."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.worlds.lake_world import LakeWorld
from tiering.errors import LakeUnavailable
from tiering.model.rounds import PhaseTimes, RoundStats
from tiering.round.phase_times import PhaseTimer
from tiering.round.ports import CombinedOutcome, TaskOutcome
from tiering.round.runner import combined
from tiering.round.steps import actions as act


def split_work(world: LakeWorld) -> act.RunSplits:
    table = world.log_table()
    return act.RunSplits(table, None, "uuid", None)  # type: ignore[arg-type]


@pytest.fixture
def work(tmp_path: Path) -> act.RunSplits:
    return act.RunSplits(None, None, "uuid", None)  # type: ignore[arg-type]


def test_work_on_splits_is_shared_out_as_its_tasks_spent_their_time(work: act.RunSplits) -> None:
    outcomes = [TaskOutcome(None, read_ms=30.0, work_ms=40.0), TaskOutcome(None, read_ms=10.0, work_ms=40.0)]
    done = combined(outcomes)
    assert done.read_share == 0.5
    timer = PhaseTimer()
    timer.add(work, act.SplitsRun(done), 100, sent=False)
    timer.add(work, act.SplitsRun(CombinedOutcome((), RoundStats())), 7, sent=False)
    assert timer.times() == PhaseTimes(read_ms=50, write_ms=57)


def test_work_that_failed_as_a_whole_is_writing(work: act.RunSplits) -> None:
    timer = PhaseTimer()
    timer.add(work, act.ActionFailed(work, LakeUnavailable("no disk left")), 9, sent=False)
    assert timer.times() == PhaseTimes(read_ms=0, write_ms=9)


def test_a_look_at_the_lake_is_part_of_the_commit_once_that_was_sent() -> None:
    look = act.ReadLake(None)  # type: ignore[arg-type]
    timer = PhaseTimer()
    timer.add(act.ReadTable(), act.Acked(), 1, sent=False)
    timer.add(look, act.LakeRead(None, None), 2, sent=False)
    timer.add(look, act.LakeRead(None, None), 4, sent=True)
    assert timer.times() == PhaseTimes(plan_ms=3, commit_ms=4)


def test_every_action_of_a_round_is_counted(tmp_path: Path) -> None:
    """A whole round leaves its times with the coordinator."""
    world = LakeWorld(tmp_path)
    table = world.table("orders")
    world.append(table, 0, 20)
    world.due()
    world.begin(table).end()
    (row,) = [row for row in world.store.rounds() if row.state == "SUCCEEDED"]
    assert row.stats is not None
    times = vars(row.stats.times)
    assert times.pop("lease_ms") is None
    assert all(value is not None and value >= 0 for value in times.values()), times
    world.close()
