"""Plans, grants and acks: what the coordinator takes, and when it asks the lake itself (DESIGN 6.5-6.8)."""

from __future__ import annotations

import threading

import pytest

from support.coordinator_world import World
from tiering import errors
from tiering.coordinator.records import CommitState, LakeCommitRecord
from tiering.model import BucketKey, RecordedLakeSnapshot
from tiering.rpc.v1 import coordinator_pb2 as pb

B0, B1 = BucketKey(None, 0), BucketKey(None, 1)


def ledger(world: World) -> dict[str, LakeCommitRecord]:
    return {row.round_id: row for row in world.store.commits()}


def test_a_plan_is_known_before_any_file_is_written(world: World) -> None:
    world.append()
    tierer, given = world.assigned()
    tierer.plan(given)
    world.restart()
    record = world.record()
    assert record.lake.table_uuid == "lake-1"
    assert record.round is not None
    assert record.round.planned_stops == {"0": 10, "1": 0}
    assert record.round.splits_total == 2


def test_a_plan_of_an_older_round_is_fenced(world: World) -> None:
    tierer, given = world.assigned()
    tierer.fail(given)
    with pytest.raises(errors.Fenced):
        tierer.plan(given)


def test_a_grant_is_in_the_ledger_with_its_base(world: World) -> None:
    world.append()
    tierer, given = world.assigned()
    tierer.run(given)
    tag = world.lake.tables[world.table.path].tag
    world.append()
    world.due()
    second = tierer.get()
    assert tierer.begin(second, tierer.prepare(second)).granted
    row = ledger(world)[second.round_id]
    assert (row.state, row.base_round_id, row.base_tag) == (CommitState.PREPARED, given.round_id, tag)
    assert row.offsets == {"0": 20, "1": 0}


def test_a_grant_asked_for_twice_is_given_twice_and_written_once(world: World) -> None:
    tierer, given = world.assigned()
    request = tierer.prepare(given)
    assert tierer.begin(given, request).granted
    before = ledger(world)
    world.clock.advance(3)
    assert tierer.begin(given, request).granted
    assert ledger(world) == before


@pytest.mark.parametrize("end", ["fail", "finish"])
def test_no_grant_for_a_round_that_is_over(world: World, end: str) -> None:
    tierer, given = world.assigned()
    getattr(tierer, end)(given)
    answer = tierer.begin(given, tierer.prepare(given))
    assert not answer.granted
    assert answer.error.error_class == "Fenced"


def test_no_grant_for_a_dropped_table(world: World) -> None:
    tierer, given = world.assigned()
    request = tierer.prepare(given)
    del world.cluster.by_path[world.table.path]
    world.coordinator.tick()
    assert tierer.begin(given, request).error.error_class == "UnknownTable"


def test_an_ack_reaches_store_and_cluster_before_it_is_answered(world: World) -> None:
    world.append()
    tierer, given = world.assigned()
    tierer.commit(given)
    tierer.ack(given)
    snapshot = world.lake.tables[world.table.path].tag
    assert world.cluster.recorded[1] == RecordedLakeSnapshot(snapshot or 0, {B0: 10, B1: 0})
    assert ledger(world)[given.round_id].state is CommitState.ACKED
    world.restart()
    assert world.record().lake.recorded == world.cluster.recorded[1]
    assert world.record().round.acked  # type: ignore[union-attr]


def test_an_ack_may_be_repeated(world: World) -> None:
    world.append()
    tierer, given = world.assigned()
    tierer.commit(given)
    tierer.ack(given)
    before = world.record(), ledger(world), len(world.store.events())
    tierer.ack(given)
    assert (world.record(), ledger(world), len(world.store.events())) == before


def test_an_ack_after_a_lost_cluster_write_tells_the_cluster(world: World) -> None:
    world.append()
    tierer, given = world.assigned()
    tierer.commit(given)

    def away(*_: object) -> None:
        raise errors.ClusterUnavailable("away")

    write, world.cluster.record_lake_snapshot = world.cluster.record_lake_snapshot, away  # type: ignore[method-assign]
    with pytest.raises(errors.ClusterUnavailable):
        tierer.ack(given)
    assert ledger(world)[given.round_id].state is CommitState.LAKE_COMMITTED
    world.cluster.record_lake_snapshot = write  # type: ignore[method-assign]
    world.restart()
    tierer.ack(given)
    assert ledger(world)[given.round_id].state is CommitState.ACKED
    assert world.cluster.recorded[1].offsets[B0] == 10


def test_a_late_ack_of_an_older_round_takes_what_the_lake_holds(world: World) -> None:
    world.append()
    tierer, given = world.assigned()
    tierer.commit(given)
    world.later(120)  # the tierer is silent: the round is over, its commit is not
    assert world.state() == "Failed"
    assert ledger(world)[given.round_id].state is CommitState.UNKNOWN
    tierer.ack(given)
    assert world.record().lake.offsets == {"0": 10, "1": 0}
    assert world.record().last_tiered_time == world.clock.now()
    assert world.cluster.recorded[1].offsets[B0] == 10
    assert ledger(world)[given.round_id].state.is_resolved


def test_a_late_ack_never_takes_back_a_newer_one(world: World) -> None:
    world.append()
    tierer, first = world.assigned()
    tierer.commit(first)
    late = tierer.ack_message(first)
    world.later(120)
    world.later(10)
    world.append()
    second = world.tierer("two")
    given = second.get()
    second.run(given)
    world.coordinator.commits.commit_lake_snapshot(late)
    assert world.record().lake.marker_round_id == given.round_id
    assert world.record().lake.offsets == {"0": 20, "1": 0}
    assert world.cluster.recorded[1].offsets[B0] == 20


def test_an_ack_from_the_running_round_that_goes_back_is_checked_against_the_lake(world: World) -> None:
    world.append()
    tierer, given = world.assigned()
    tierer.run(given)
    world.append()
    world.due()
    second = tierer.get()
    late = tierer.ack_message(second)
    tierer.run(second)
    world.due()
    third = tierer.get()
    late.round.CopyFrom(tierer.ref(third))
    world.coordinator.commits.commit_lake_snapshot(late)
    assert world.record().lake.offsets == {"0": 20, "1": 0}


def test_an_ack_that_the_lake_does_not_bear_out_is_refused(world: World) -> None:
    world.append()
    tierer, given = world.assigned()
    tierer.plan(given)
    message = pb.CommitLakeSnapshotRequest(round=tierer.ref(given), marker_round_id=given.round_id)
    message.marker.lake_snapshot_id = 99
    tierer.fail(given)
    with pytest.raises(errors.Fenced):
        world.coordinator.commits.commit_lake_snapshot(message)
    assert world.record().lake.snapshot_id is None
    assert world.cluster.recorded == {}


def test_a_cluster_that_is_ahead_of_the_lake_is_never_set_back(world: World) -> None:
    world.append()
    tierer, given = world.assigned()
    tierer.commit(given)
    world.cluster.recorded[1] = RecordedLakeSnapshot(77, {B0: 10_000})
    with pytest.raises(errors.RecordAheadOfLake, match="77"):
        tierer.ack(given)
    assert world.cluster.recorded[1].lake_snapshot_id == 77


def test_an_adopting_round_settles_the_older_ones_grant(world: World) -> None:
    world.append()
    tierer, first = world.assigned()
    tierer.commit(first)
    world.later(120)
    world.later(10)
    second = world.tierer("two")
    given = second.get()
    second.ack(given)  # its base check found the lake ahead
    row = ledger(world)[first.round_id]
    assert (row.state, row.reconciled_by) == (CommitState.RECONCILED, given.round_id)
    record = world.record()
    assert record.lake.marker_round_id == first.round_id
    assert record.round is not None
    assert not record.round.acked
    second.finish(given, empty=True)
    assert world.state() == "Scheduled"


def test_a_grant_that_never_landed_is_aborted_once_another_round_is_in_the_lake(world: World) -> None:
    world.append()
    tierer, first = world.assigned()
    tierer.plan(first)
    assert tierer.begin(first, tierer.prepare(first)).granted
    world.later(120)
    world.later(10)
    second = world.tierer("two")
    given = second.get()
    second.run(given)
    rows = ledger(world)
    assert rows[first.round_id].state is CommitState.ABORTED
    assert rows[given.round_id].state is CommitState.ACKED


def test_a_chain_of_unacked_commits_is_settled_as_a_whole(world: World) -> None:
    names = []
    for number in range(3):
        world.append()
        world.due()
        tierer = world.tierer(f"t{number}")
        given = tierer.get()
        tierer.commit(given)
        names.append((tierer, given))
        if number < 2:
            world.later(120)
            world.later(10)
    tierer, given = names[-1]
    tierer.ack(given)
    rows = ledger(world)
    assert [rows[each.round_id].state for _, each in names] == [CommitState.RECONCILED, CommitState.RECONCILED, CommitState.ACKED]


def test_finished_without_an_ack_is_looked_at_again_at_once(world: World) -> None:
    world.append()
    tierer, given = world.assigned()
    tierer.commit(given)
    tierer.finish(given)
    record = world.record()
    assert (record.last_tiered_time, record.last_checked_time) == (None, None)
    world.coordinator.tick()
    assert world.state() == "Pending"


def test_acks_of_one_table_take_turns(world: World) -> None:
    """While one ack talks to the cluster, a second one of that table waits; heartbeats do not."""
    world.append()
    tierer, given = world.assigned()
    tierer.commit(given)
    inside, go_on = threading.Event(), threading.Event()
    write = world.cluster.record_lake_snapshot
    writes = []

    def slow(*arguments: object) -> None:
        writes.append(arguments)
        inside.set()
        assert go_on.wait(10)
        write(*arguments)  # type: ignore[arg-type]

    world.cluster.record_lake_snapshot = slow  # type: ignore[method-assign]
    threads = [threading.Thread(target=tierer.ack, args=(given,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert inside.wait(10)
    assert not tierer.beat().tiering_table_resp[0].HasField("error")
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert len(writes) == 1


def test_progress_shows_and_is_never_written(world: World) -> None:
    tierer, given = world.assigned()
    tierer.plan(given)
    events = len(world.store.events())
    world.coordinator.commits.report_progress(pb.ReportProgressRequest(round=tierer.ref(given), splits_done=1, splits_total=2))
    [status] = world.coordinator.view().table_statuses()
    assert status.fraction_completed == 0.5
    assert len(world.store.events()) == events
    stored = world.store.round(given.round_id)
    assert stored is not None
    assert stored.splits_done == 0
