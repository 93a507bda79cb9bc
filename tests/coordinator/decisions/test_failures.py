"""How rounds end badly, and what follows: back-off, time-outs, cancellation, pauses (DESIGN 5)."""

from __future__ import annotations

from dataclasses import replace

from support.background import tick
from support.operators import cancel, pause
from support.worlds.coordinator_world import World
from tiering.model.rounds import RoundState


def test_a_permanent_error_stays_until_the_table_changes(world: World) -> None:
    tierer, assignment = world.assigned()
    tierer.fail(assignment, error_class="SchemaDrift", error_retryable=False)
    world.later(86_400)
    assert world.state() == "Failed"
    changed = replace(world.table, properties={"note": "mended"})
    world.cluster.by_path[changed.path] = changed
    tick(world.coordinator)
    assert world.state() == "Pending"


def test_a_failure_for_good_of_a_table_that_changed_meanwhile_is_tried_again(world: World) -> None:
    tierer, assignment = world.assigned()
    changed = replace(world.table, properties={"note": "mended"})
    world.cluster.by_path[changed.path] = changed
    tick(world.coordinator)
    tierer.fail(assignment, error_class="UnsupportedType", error_retryable=False)
    assert world.state() == "Failed"
    world.later(86_400)
    assert world.state() == "Pending"


def test_a_round_that_heard_of_no_such_table_is_tried_again(world: World) -> None:
    """A coordinator says so whose store another one took over."""
    tierer, assignment = world.assigned()
    tierer.fail(assignment, error_class="UnknownTable", error_retryable=False)
    error = world.record().error
    assert error is not None
    assert (world.state(), error.retryable) == ("Failed", True)
    world.later(86_400)
    assert world.state() == "Pending"


def test_the_last_heartbeat_of_a_tierer_frees_what_it_had(world: World) -> None:
    tierer, _ = world.assigned()
    tierer.running.clear()
    tierer.beat(stopping=True)
    assert world.record().error is not None
    tick(world.coordinator)
    assert world.tierer("two").get().tiering_epoch == 2
    assert world.coordinator.heartbeats.tierers()[0].stopped


def test_a_silent_tierer_loses_its_table_after_the_service_timeout(world: World) -> None:
    tierer, assignment = world.assigned()
    world.later(119)
    tierer.beat()
    world.later(119)
    assert world.state() == "Tiering"
    world.later(1)
    error = world.record().error
    assert world.state() == "Failed"
    assert error is not None
    assert error.error_class == "TiererLost"
    answer = tierer.beat().tiering_table_resp[0]
    assert answer.cancel
    assert answer.error.error_class == "Fenced"
    assert assignment.round_id in answer.error.message


def test_a_silent_tierer_whose_ack_came_leaves_the_table_tiered(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.commit(assignment)
    tierer.ack(assignment)
    world.later(120)
    record = world.record()
    assert record.error is None
    assert record.round is not None
    assert record.round.state is RoundState.SUCCEEDED


def test_a_clock_that_is_set_ends_no_lease(world: World) -> None:
    world.assigned()
    world.clock.wall = world.clock.wall.replace(year=2030)
    tick(world.coordinator)
    assert world.state() == "Tiering"


def test_a_restart_gives_running_tables_a_fresh_timeout(world: World) -> None:
    tierer, _ = world.assigned()
    world.later(100)
    world.restart()
    world.later(100)
    assert world.state() == "Tiering"
    tierer.beat()
    world.later(119)
    assert world.state() == "Tiering"


def test_a_dropped_table_cancels_its_round(world: World) -> None:
    tierer, _ = world.assigned()
    del world.cluster.by_path[world.table.path]
    tick(world.coordinator)
    answer = tierer.beat().tiering_table_resp[0]
    assert answer.cancel
    assert answer.error.error_class == "UnknownTable"


def test_a_cancelled_round_is_told_and_leaves_no_failure(world: World) -> None:
    tierer, assignment = world.assigned()
    assert cancel(world.coordinator, assignment.round_id, "alice")
    assert tierer.beat().tiering_table_resp[0].cancel
    assert not tierer.begin(assignment, tierer.prepare(assignment)).granted
    tierer.fail(assignment, error_class="Cancelled")
    record = world.record()
    assert world.state() == "Scheduled"
    assert record.error is None
    assert record.round is not None
    assert record.round.state is RoundState.CANCELLED


def test_after_the_grant_a_cancel_comes_too_late(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.begin(assignment, tierer.prepare(assignment))
    assert not cancel(world.coordinator, assignment.round_id, "alice")


def test_a_paused_table_is_not_assigned_until_the_pause_ends(world: World) -> None:
    world.due()
    pause(world.coordinator, world.table.path, "alice", "moving house", until=world.clock.now().replace(hour=1))
    tierer = world.tierer()
    assert not tierer.beat(request=True).HasField("tiering_table")
    world.later(3_600)
    assert tierer.get().table_id == 1


def test_fenced_rounds_in_a_row_wait_for_each_other(world: World) -> None:
    tierer, assignment = world.assigned()
    tierer.fail(assignment, fenced=True)
    assert world.state() == "Pending"
    assert world.record().error is None
    second = tierer.get()
    tierer.fail(second, fenced=True)
    assert world.state() == "Failed"
    world.later(1)
    assert world.state() == "Pending"
    assert world.record().tiering_epoch == 3
