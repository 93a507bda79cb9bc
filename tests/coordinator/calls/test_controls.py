"""Pause, resume, cancel, reset: what people ask of one table or one round."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from support.background import tick
from support.worlds.coordinator_world import World
from tiering import errors
from tiering.model.rounds import RoundState
from tiering.procedures.cancel_tiering import CancelTiering
from tiering.procedures.pause_tiering import PauseTiering
from tiering.procedures.reset_errors import ResetErrors
from tiering.procedures.resume_tiering import ResumeTiering


def pause(world: World, **more: Any) -> tuple[bool, bool, str]:
    result = asyncio.run(world.coordinator.control.perform(PauseTiering(world.table.path, caller="ann", **more)))
    return result.previous_paused, result.paused, result.status


def resume(world: World) -> tuple[bool, bool, str]:
    result = asyncio.run(world.coordinator.control.perform(ResumeTiering(world.table.path, caller="bob")))
    return result.previous_paused, result.paused, result.status


def cancel(world: World, round_id: str, **more: Any) -> tuple[str | None, str]:
    result = asyncio.run(world.coordinator.control.perform(CancelTiering(round_id, caller="ann", **more)))
    return result.state, result.outcome.value


def events_of(world: World) -> list[tuple[str, str | None, str]]:
    """The newest first."""
    return [(event.event_type, event.principal, event.message) for event in world.store.events()]


def test_a_paused_table_is_not_assigned_until_it_is_resumed(world: World) -> None:
    world.append()
    assert pause(world, reason="moving house") == (False, True, "Scheduled")
    assert events_of(world)[0] == ("TABLE_PAUSED", "ann", "moving house")
    world.due()
    tierer = world.tierer()
    assert not tierer.beat(request=True).HasField("tiering_table")
    assert resume(world) == (True, False, "Scheduled")
    assert events_of(world)[0] == ("TABLE_RESUMED", "bob", "resumed")
    tick(world.coordinator)
    tierer.get()


def test_a_running_round_of_a_paused_table_ends_normally(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    assert pause(world) == (False, True, "Tiering")
    tierer.run(assignment)
    assert world.state() == "Scheduled"
    assert world.record().lake.snapshot_id is not None


def test_a_pause_ends_by_itself(world: World) -> None:
    pause(world, until=world.clock.now() + timedelta(minutes=5))
    assert pause(world, reason="longer", until=world.clock.now() + timedelta(minutes=10)) == (True, True, "Scheduled")
    world.later(301)
    assert world.record().pause is not None
    world.later(300)
    assert world.record().pause is None
    with pytest.raises(errors.InvalidArgument, match="would have ended already"):
        pause(world, until=world.clock.now())


def test_resuming_a_table_that_is_not_paused_leaves_no_event(world: World) -> None:
    before = events_of(world)
    assert resume(world) == (False, False, "Scheduled")
    assert events_of(world) == before


def test_a_cancelled_round_ends_without_a_commit(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.plan(assignment)
    assert cancel(world, assignment.round_id, dry_run=True) == ("RUNNING", "cancelled")
    assert not tierer.beat().tiering_table_resp[0].cancel
    assert cancel(world, assignment.round_id, message="too big") == ("RUNNING", "cancelled")
    assert events_of(world)[0] == ("ROUND_CANCELLED", "ann", "too big")
    assert tierer.beat().tiering_table_resp[0].cancel
    before = events_of(world)
    assert cancel(world, assignment.round_id) == ("RUNNING", "cancelled")
    assert events_of(world) == before
    assert not tierer.begin(assignment, tierer.prepare(assignment)).granted
    tierer.fail(assignment)
    assert cancel(world, assignment.round_id) == (RoundState.CANCELLED, "too_late")


def test_a_split_that_hangs_keeps_its_table_until_the_round_is_cancelled_and_the_service_timeout_is_over(world: World) -> None:
    """The split reads from a mount that does not answer, in a tierer whose heartbeats continue."""
    world.append()
    hanging, assignment = world.assigned()
    hanging.plan(assignment)
    late = hanging.prepare(assignment)
    for _ in range(20):
        world.later(10)
        assert not hanging.beat().tiering_table_resp[0].cancel
    assert world.state() == "Tiering"
    cancel(world, assignment.round_id)
    for _ in range(12):
        world.later(10)
        hanging.beat()
    assert world.state() == "Pending", "its freshness was over meanwhile"
    other = world.process("b", "tierer-2")
    other.run(other.get())
    assert not hanging.begin(assignment, late).granted
    assert world.record().lake.offsets == {"0": 10, "1": 0}


def test_a_round_is_too_late_to_cancel_after_the_grant_and_after_its_end(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.commit(assignment)
    assert cancel(world, assignment.round_id) == ("RUNNING", "too_late")
    tierer.ack(assignment)
    tierer.finish(assignment)
    assert cancel(world, assignment.round_id) == ("SUCCEEDED", "too_late")
    world.due()
    assert cancel(world, assignment.round_id) == ("SUCCEEDED", "too_late")
    assert "ROUND_CANCELLED" not in {event for event, _, _ in events_of(world)}


def test_a_round_that_is_unknown_or_has_not_begun_is_not_cancelled(world: World) -> None:
    assert cancel(world, "nobody's") == (None, "unknown")
    world.due()
    queued = world.record().round
    assert queued is not None
    with pytest.raises(errors.InvalidArgument, match="has not begun") as caught:
        cancel(world, queued.round_id)
    assert "pause_tiering" in caught.value.hint


def test_errors_are_counted_anew_and_what_a_failing_table_says_stays(world: World) -> None:
    tierer, assignment = world.assigned()
    tierer.fail(assignment, error_class="SchemaDrift", error_retryable=False)
    call = ResetErrors(world.table.path, caller="ann")
    assert asyncio.run(world.coordinator.control.perform(call)).cleared == 1
    record = world.record()
    assert (record.error_count, record.state) == (0, "Failed")
    assert record.error is not None
    assert events_of(world)[0][:2] == ("ERRORS_RESET", "ann")
    assert asyncio.run(world.coordinator.control.perform(call)).cleared == 0


def test_a_text_that_would_be_kept_is_bounded(world: World) -> None:
    with pytest.raises(errors.InvalidArgument, match="reason has at most 2048 characters; this one has 3000000"):
        PauseTiering(path=world.table.path, reason="x" * 3_000_000, caller="alice")
    with pytest.raises(errors.InvalidArgument, match="message has at most 2048"):
        CancelTiering(round_id="r1", message="x" * 3_000, caller="alice")
