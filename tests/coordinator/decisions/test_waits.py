"""Where the time of a late round went, and by how much it missed its deadline, as the stored round says."""

from __future__ import annotations

from datetime import timedelta

from support.background import tick
from support.operators import cancel, pause, resume
from support.worlds.coordinator_world import START, World
from tiering.coordinator.decisions.records import RoundRecord
from tiering.model.rounds import RoundMode

DUE = START + timedelta(minutes=3)


def stored(world: World, state: str = "SUCCEEDED") -> RoundRecord:
    """The newest round in that state, as the store has it."""
    return next(row for row in world.store.rounds() if row.state == state)


def test_a_round_in_time_waited_for_nothing(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.run(assignment)
    row = stored(world)
    assert (row.deadline, row.waited_for_slot_ms, row.backoff_ms, row.paused_ms) == (DUE, 0, 0, 0)
    assert (row.missed_by_ms, row.mode) == (0, RoundMode.BACKLOG)
    assert row.started_time is not None
    assert row.completion_target == row.started_time + timedelta(minutes=30), "a backlog has more time"


def test_a_queued_round_waits_for_a_slot(world: World) -> None:
    world.append()
    world.due()
    queued = world.record().round
    assert queued is not None
    assert (queued.waited_for_slot_ms, queued.missed_by_ms, queued.mode) == (None, None, None)
    world.later(40)
    tierer = world.tierer()
    assignment = tierer.get()
    world.later(2)
    tierer.run(assignment)
    assert (stored(world).waited_for_slot_ms, stored(world).missed_by_ms) == (40_000, 42_000)


def test_back_offs_add_up_until_a_round_goes_well(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    waits = []
    for _ in range(2):
        tierer.fail(assignment)
        record = world.record()
        assert record.retry_deadline is not None
        waits.append((record.retry_deadline - record.status_time).total_seconds())
        world.later(waits[-1])
        assignment = tierer.get()
    tierer.run(assignment)
    row = stored(world)
    assert (row.attempt, row.deadline) == (3, DUE)
    assert row.backoff_ms == row.missed_by_ms == round(sum(waits) * 1_000)
    assert stored(world, "FAILED").missed_by_ms is None
    world.later(180)
    tierer.finish(tierer.get(), empty=True)
    assert (stored(world, "EMPTY").backoff_ms, stored(world, "EMPTY").missed_by_ms) == (0, 0)


def test_a_pause_counts_from_the_deadline_on(world: World) -> None:
    world.append()
    world.later(100)
    pause(world.coordinator, world.table.path, "ann")
    world.later(200)
    resume(world.coordinator, world.table.path, "ann")
    tick(world.coordinator)
    tierer = world.tierer()
    tierer.run(tierer.get())
    row = stored(world)
    assert (row.paused_ms, row.missed_by_ms, row.waited_for_slot_ms, row.backoff_ms) == (120_000, 120_000, 0, 0)


def test_a_pause_of_a_queued_table_is_no_wait_for_a_slot(world: World) -> None:
    world.append()
    world.due()
    world.later(5)
    pause(world.coordinator, world.table.path, "ann")
    world.later(60)
    resume(world.coordinator, world.table.path, "ann")
    world.later(7)
    tierer = world.tierer()
    tierer.run(tierer.get())
    assert (stored(world).paused_ms, stored(world).waited_for_slot_ms) == (60_000, 12_000)


def test_a_pause_during_a_back_off_counts_after_it(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.fail(assignment)
    record = world.record()
    assert record.retry_deadline is not None
    backoff = round((record.retry_deadline - record.status_time).total_seconds() * 1_000)
    pause(world.coordinator, world.table.path, "ann")
    world.later(100)
    resume(world.coordinator, world.table.path, "ann")
    tick(world.coordinator)
    tierer.run(tierer.get())
    assert (stored(world).backoff_ms, stored(world).paused_ms) == (backoff, 100_000 - backoff)


def test_what_did_not_catch_up_missed_nothing_yet(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.commit(assignment)
    tierer.ack(assignment)
    tierer.finish(assignment, forced=True)
    assert stored(world, "FORCE_FINISHED").missed_by_ms is None
    again = tierer.get()
    assert stored(world, "RUNNING").deadline == DUE, "the promise is still that of before"
    assert cancel(world.coordinator, again.round_id, "ann")
    tierer.fail(again)
    assert stored(world, "CANCELLED").missed_by_ms is None


def test_a_live_round_is_told_from_a_backlog(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.run(assignment)
    world.append()
    world.later(180)
    tierer.run(tierer.get())
    assert stored(world).mode is RoundMode.LIVE
