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
    assert world.coordinator.heartbeats.tierers.all()[0].stopped


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


FENCED = {"error_class": "Fenced", "error_message": "another round tiered first", "error_phase": "LAKE_COMMIT", "fenced": True}


def fenced_rounds(world: World) -> list[tuple[RoundState, str, str]]:
    rounds = [row for row in world.store.rounds(limit=100) if row.state is RoundState.FENCED]
    return [(row.state, row.error.error_class, row.error.message) for row in rounds if row.error is not None]


def test_one_fence_is_no_failure_but_its_round_says_why(world: World) -> None:
    tierer, assignment = world.assigned()
    tierer.fail(assignment, **FENCED)
    record = world.record()
    assert (world.state(), record.error, record.error_count, record.consecutive_failures) == ("Pending", None, 0, 0)
    assert record.errors == ()
    assert fenced_rounds(world) == [(RoundState.FENCED, "Fenced", "the round was fenced: another round tiered first")]


def test_fences_that_repeat_are_failures_with_error_counts_and_a_longer_back_off_each_time(world: World) -> None:
    tierer, assignment = world.assigned()
    tierer.fail(assignment, **FENCED)
    for fences in (2, 3, 4):
        tierer.fail(tierer.get(), **FENCED)
        record, failures = world.record(), fences - 1
        assert world.state() == "Failed"
        assert record.error is not None
        assert (record.error.error_class, record.error.phase, record.error.retryable) == ("Fenced", "LAKE_COMMIT", True)
        assert record.error.message == (
            f"{fences} rounds were fenced, with no successful round between them; "
            "the latest: the round was fenced: another round tiered first"
        )
        assert "sys.tierers" in record.error.hint
        assert (record.error_count, record.consecutive_failures) == (failures, failures)
        [kind] = record.errors
        assert (kind.error_class, kind.count) == ("Fenced", failures)
        world.later(2 ** (failures - 1))
        assert world.state() == "Pending"
    assert world.record().tiering_epoch == 5


def test_success_ends_a_row_of_fences(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.fail(assignment, **FENCED)
    tierer.fail(tierer.get(), **FENCED)
    world.later(1)
    tierer.run(tierer.get())
    record = world.record()
    assert (world.state(), record.error, record.consecutive_failures, record.error_count) == ("Scheduled", None, 0, 1)
    world.append()
    world.due()
    tierer.fail(tierer.get(), **FENCED)
    assert (world.state(), world.record().error) == ("Pending", None)


def test_a_fence_after_a_lost_tierer_is_not_counted_as_one_more_failure(world: World) -> None:
    world.assigned()
    world.later(121)
    assert world.record().consecutive_failures == 1
    world.later(2)
    second = world.tierer("second")
    second.fail(second.get(), **FENCED)
    record = world.record()
    assert record.error is not None
    assert (world.state(), record.consecutive_failures, record.error.error_class) == ("Pending", 1, "TiererLost")


def test_a_tierer_that_restarts_before_each_end_of_its_round_fails_visibly(world: World) -> None:
    world.due()
    for number in range(3):
        world.process(f"start-{number}").beat(request=True)
    record = world.record()
    assert record.error is not None
    assert "another process started as the tierer tierer-1" in record.error.message
    assert "read its log" in record.error.hint
    assert record.consecutive_failures == 1


def test_a_cancelled_round_that_is_refused_its_commit_is_cancelled_and_not_fenced(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    assert cancel(world.coordinator, assignment.round_id, "alice")
    assert not tierer.begin(assignment, tierer.prepare(assignment)).granted
    tierer.fail(assignment, **FENCED)
    record = world.record()
    assert record.round is not None
    assert (world.state(), record.round.state, record.consecutive_fences) == ("Scheduled", RoundState.CANCELLED, 0)


def test_a_paused_table_whose_round_was_fenced_shows_why_it_is_failed(world: World) -> None:
    tierer, assignment = world.assigned()
    pause(world.coordinator, world.table.path, "alice", None)
    tierer.fail(assignment, **FENCED)
    record = world.record()
    assert record.error is not None
    assert (world.state(), record.error.error_class, record.error_count) == ("Failed", "Fenced", 0)


STOPPED = {
    "error_class": "BucketStopped",
    "error_message": "bucket 1 of sales.orders stands at offset 4: no",
    "error_phase": "WRITE",
    "error_ids": {"bucket": "1", "offset": "4"},
}


def stopped_round(world: World, *, forced: bool = False) -> None:
    """A round that ends well, and reports that bucket 1 stops at the offset 4; the lake has nothing of that bucket."""
    world.append(10)
    world.append(10, bucket=1)
    tierer, assignment = world.assigned()
    tierer.commit(assignment, buckets=[0])
    tierer.ack(assignment)
    tierer.finish(assignment, forced=forced, **STOPPED)
    tierer.beat(finished=(tierer.about(assignment, **STOPPED),))  # its answer was lost
    record = world.record()
    assert record.error is not None
    assert (record.error.error_class, record.error_count, record.consecutive_failures) == ("BucketStopped", 1, 0)


def test_a_bucket_that_stops_is_shown_by_a_table_that_rests(world: World) -> None:
    stopped_round(world)
    assert (world.state(), world.record().last_checked_time) == ("Scheduled", None)
    assert [row.resolved_at for row in world.record().errors] == [None]


def test_a_round_that_came_to_no_record_leaves_the_error_of_a_bucket_that_stops(world: World) -> None:
    stopped_round(world, forced=True)
    assert world.state() == "Pending"
    tierer = world.tierer("two")
    assignment = tierer.get()
    tierer.commit(assignment, buckets=[0])
    tierer.ack(assignment)
    tierer.finish(assignment, forced=True)
    assert world.record().error is not None
    assert [row.resolved_at for row in world.record().errors] == [None]
    assignment = tierer.get()
    tierer.run(assignment)
    assert world.record().error is None, "the lake has passed the record"
    assert all(row.resolved_at is not None for row in world.record().errors)
