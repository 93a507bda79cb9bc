"""The view of tables that the cluster assigns: the service that has the turn, and the work of another service."""

from __future__ import annotations

from support.assigned_world import assigner, begun, pause, resume
from support.worlds.coordinator_world import World
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey


def test_what_another_service_tiered_is_shown_as_derived(shared: World) -> None:
    shared.append()
    shared.cluster.recorded[shared.table.table_id] = RecordedLakeSnapshot(77, {BucketKey(None, 0): 10, BucketKey(None, 1): 0})
    shared.coordinator.other_services.observe()
    [status] = shared.coordinator.view().table_statuses()
    assert (status.status_source, status.lake_snapshot_id, status.pending_records) == ("derived", 77, 0)
    assert status.status_reason == "waits for the cluster to assign it"
    assert status.last_tiered_time == shared.clock.wall
    begun(shared)
    shared.coordinator.other_services.observe()
    [status] = shared.coordinator.view().table_statuses()
    assert (status.status_source, status.lake_snapshot_id) == ("coordinator", None)


def test_reasons_say_whose_turn_it_is(shared: World) -> None:
    def reason() -> str | None:
        [status] = shared.coordinator.view().table_statuses()
        [from_columns] = shared.coordinator.view().status_columns().column("status_reason").to_pylist()
        assert status.status_reason == from_columns
        return status.status_reason

    pause(shared, shared.table)
    assert reason() == "paused by alice; another service may get it meanwhile"
    tierer = shared.tierer()
    tierer.beat()
    assigner(shared).due(shared.table)
    shared.later(1)
    assert reason() == "held, so that no other service gets it: paused by alice"
    resume(shared, shared.table)
    shared.later(1)
    assert reason() == "waits for a tierer to have room"
    info = tierer.get()
    assert reason() == "runs on the tierer tierer-1"
    tierer.fail(info)
    assert reason() == "held, so that no other service gets it: back-off: next attempt in 1.0 s"
