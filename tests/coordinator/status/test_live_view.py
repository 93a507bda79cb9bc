"""A view of the coordinator shows lag, pending records, totals and reasons."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from support.clusters.memory_cluster import log_table
from support.operators import pause
from support.worlds.coordinator_world import START, World
from tiering.coordinator.interface import CoordinatorHandle, HistoryRange
from tiering.errors import ClusterUnavailable, UnknownTable
from tiering.model.status import TableStatus
from tiering.model.tables import BucketKey, TableInfo, TablePath
from tiering.rpc.v1 import coordinator_pb2 as pb


def look(world: World) -> TableStatus:
    [status] = world.coordinator.view().table_statuses()
    return status


def test_the_coordinator_is_a_handle(world: World) -> None:
    handle: CoordinatorHandle = world.coordinator
    view = handle.view()
    assert view.now == START
    assert list(view.databases()) == ["sales"]
    assert view.tables("sales")[0] is view.table(world.table.path)
    with pytest.raises(UnknownTable):
        view.table(TablePath("sales", "none"))


def test_a_table_never_tiered(world: World) -> None:
    status = look(world)
    assert (status.database_name, status.table_name, status.status, status.status_source) == ("sales", "orders", "Scheduled", "coordinator")
    assert (status.last_tiered_time, status.lag_ms, status.pending_records) == (None, 0, 0)
    assert (status.freshness_ms, status.freshness_deadline) == (180_000, START + timedelta(minutes=3))
    assert status.offsets_observed_time == status.observed_time == START
    assert status.status_reason == "next check in 2 min 0 s"
    world.clock.advance(119.96)
    assert look(world).status_reason == "next check is due now"


def test_lag_is_the_age_of_the_oldest_row_that_the_lake_lacks_and_grows_while_tiering_fails(world: World) -> None:
    world.append(10)
    tierer, assignment = world.assigned()
    assert look(world).lag_ms == 180_000
    tierer.fail(assignment)
    world.clock.advance(20)
    status = look(world)
    assert (status.lag_ms, status.pending_records, status.oldest_pending_time) == (200_000, 10, START)
    assert status.pending_bytes == 80


def test_the_size_of_what_is_pending_is_none_where_the_cluster_does_not_tell_it(world: World) -> None:
    world.append(10)
    world.cluster.bytes_per_record = None
    assert (look(world).pending_records, look(world).pending_bytes) == (10, None)


def test_an_ack_takes_the_lag_away_at_once(world: World) -> None:
    world.append(10)
    tierer, assignment = world.assigned()
    assert look(world).lag_ms
    tierer.commit(assignment)
    tierer.ack(assignment)
    status = look(world)
    assert (status.lag_ms, status.pending_records, status.oldest_pending_time) == (0, 0, None)


def test_rows_that_a_log_has_dropped_are_not_pending(world: World) -> None:
    world.cluster.logs[1][BucketKey(None, 0)] = (7, 10)
    assert look(world).pending_records == 3


def test_unknown_is_none(world: World) -> None:
    def away(table: TableInfo) -> None:
        raise ClusterUnavailable("away")

    world.cluster.offsets = away  # type: ignore[assignment, method-assign]
    status = look(world)
    assert (status.lag_ms, status.pending_records, status.pending_bytes, status.offsets_observed_time) == (None, None, None, None)


def test_what_was_seen_stays_with_its_time_while_the_cluster_is_away(world: World) -> None:
    world.append(10)
    look(world)

    def away(table: TableInfo) -> None:
        raise ClusterUnavailable("away")

    world.cluster.offsets = away  # type: ignore[assignment, method-assign]
    world.clock.advance(60)
    status = look(world)
    assert (status.pending_records, status.lag_ms, status.offsets_observed_time) == (10, 60_000, START)


def test_a_look_from_an_event_loop_never_asks_the_cluster(world: World) -> None:
    def refuse(table: TableInfo) -> None:
        raise AssertionError("the loop was blocked")

    world.cluster.offsets = refuse  # type: ignore[assignment, method-assign]

    async def from_loop() -> TableStatus:
        return look(world)

    assert asyncio.run(from_loop()).pending_records is None


def test_more_tables_than_a_look_may_observe_show_what_the_background_saw() -> None:
    world = World(tuple(log_table(number, TablePath("many", f"t{number:03}"), buckets=1) for number in range(1, 251)))
    statuses = world.coordinator.view().table_statuses()
    assert [status.table_name for status in statuses] == sorted(status.table_name for status in statuses)
    assert {status.pending_records for status in statuses} == {None}
    [status] = world.coordinator.view().table_statuses("many", "t007")
    assert status.pending_records == 0
    world.coordinator.observer.observe_all()
    assert {status.pending_records for status in world.coordinator.view().table_statuses()} == {0}
    world.coordinator.close()


def test_names_narrow_a_look_and_unknown_ones_give_none(world: World) -> None:
    view = world.coordinator.view()
    assert len(view.table_statuses("sales")) == len(view.table_statuses("sales", "orders")) == 1
    assert view.table_statuses("hr") == view.table_statuses("sales", "none") == []


def test_a_view_stays_at_its_moment(world: World) -> None:
    view = world.coordinator.view()
    world.due()
    assert [status.status for status in view.table_statuses()] == ["Scheduled"]
    assert look(world).status == "Pending"


def test_the_size_of_the_lake_table_is_observed_and_kept(world: World) -> None:
    world.append(10)
    tierer, assignment = world.assigned()
    tierer.commit(assignment)
    measured = world.lake.view(world.table.path)
    assert measured is not None
    world.lake.view = lambda path: replace(measured, records=10, size_bytes=800, files=1)  # type: ignore[method-assign]
    tierer.ack(assignment)
    world.coordinator.observer.observe_all()
    world.restart()
    status = look(world)
    assert status.lake_snapshot_id == measured.tiered
    assert (status.lake_records, status.lake_bytes, status.lake_files) == (10, 800, 1)


def test_a_running_round_shows_who_runs_it(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    world.clock.advance(40)
    status = look(world)
    assert (status.status, status.tierer_id, status.round_id) == ("Tiering", "tierer-1", assignment.round_id)
    assert status.status_reason == "runs on the tierer tierer-1; last heartbeat 40 s ago"
    tierer.run(assignment)
    after = look(world)
    assert (after.tierer_id, after.round_id, after.heartbeat_time, after.last_round_duration_ms) == (None, None, None, 40_000)


def test_reasons_for_waiting(world: World) -> None:
    world.due()
    assert look(world).status_reason == "waits for a tierer: no connected tierer gets tables"
    tierer = world.tierer()
    tierer.beat()
    assert look(world).status_reason == "waits for a tierer to have room"
    assignment = tierer.get()
    tierer.fail(assignment)
    assert look(world).status_reason == "back-off: next attempt in 1.0 s"
    assert look(world).next_retry_time == world.clock.now() + timedelta(seconds=1)
    world.later(1)
    tierer.fail(tierer.get(), error_class="SchemaDrift", error_retryable=False, error_hint="mend it")
    status = look(world)
    assert status.status_reason == "permanent error: SchemaDrift; not retried before the steps in next_action or error_hint"
    assert (status.error_class, status.error_phase, status.error_hint, status.error_retryable) == ("SchemaDrift", "WRITE", "mend it", False)
    assert (status.error_count, status.consecutive_failures, status.next_retry_time) == (2, 2, None)
    pause(world.coordinator, world.table.path, "alice", "moving house", until=START.replace(year=2027))
    status = look(world)
    assert status.status_reason == "paused by alice until 2027-01-01 00:00:00 UTC: moving house"
    assert (status.paused, status.paused_by, status.paused_until) == (True, "alice", START.replace(year=2027))


def test_deadlines_are_shown_in_the_time_of_the_wall_clock(world: World) -> None:
    world.clock.wall += timedelta(hours=1)
    assert look(world).freshness_deadline == START + timedelta(hours=1, minutes=3)


def test_a_running_round_is_shown_with_its_progress(world: World) -> None:
    """Which is in memory only; an ended one is shown as it is stored."""
    world.append()
    tierer, assignment = world.assigned()
    tierer.plan(assignment)
    progress = pb.ReportProgressRequest(round=tierer.ref(assignment), splits_done=1, splits_total=2, records_done=5, records_total=10)
    world.coordinator.progress.report(progress)
    (running,) = world.coordinator.view().history.read_rounds(HistoryRange(table_name=world.table.path.table_name))
    assert (running.state, running.splits_done, running.records_done) == ("RUNNING", 1, 5)
    assert world.store.rounds()[0].splits_done == 0
    tierer.fail(assignment)
    (failed,) = world.coordinator.view().history.read_rounds(HistoryRange(fields={"state": "FAILED"}))
    assert failed == world.store.round(assignment.round_id)
