"""Plans, grants and acks: what the coordinator takes, and when it asks the lake itself (DESIGN 6.5-6.8)."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from support.background import tick
from support.worlds.coordinator_world import HandTierer, World
from tiering import errors
from tiering.coordinator.decisions.records import CommitState, LakeCommitRecord
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey, TableInfo, TablePath
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.wire.model_codecs import OFFSETS

B0, B1 = BucketKey(None, 0), BucketKey(None, 1)


def ledger(world: World) -> dict[str, LakeCommitRecord]:
    return {row.round_id: row for row in world.store.commits()}


def test_a_plan_is_known_before_any_file_is_written(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.plan(assignment)
    world.restart()
    record = world.record()
    assert record.lake.table_uuid == "lake-1"
    assert record.round is not None
    assert record.round.planned_stops == {"0": 10, "1": 0}
    assert record.round.splits_total == 2


def test_a_plan_of_an_older_round_is_fenced(world: World) -> None:
    tierer, assignment = world.assigned()
    tierer.fail(assignment)
    with pytest.raises(errors.Fenced):
        tierer.plan(assignment)


def test_a_grant_is_in_the_ledger_with_its_base(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.run(assignment)
    tag = world.lake.tables[world.table.path].tag
    world.append()
    world.due()
    second = tierer.get()
    assert tierer.begin(second, tierer.prepare(second)).granted
    row = ledger(world)[second.round_id]
    assert (row.state, row.base_round_id, row.base_tag) == (CommitState.PREPARED, assignment.round_id, tag)
    assert row.offsets == {"0": 20, "1": 0}


def test_a_grant_asked_for_twice_is_given_twice_and_written_once(world: World) -> None:
    tierer, assignment = world.assigned()
    request = tierer.prepare(assignment)
    assert tierer.begin(assignment, request).granted
    before = ledger(world)
    world.clock.advance(3)
    assert tierer.begin(assignment, request).granted
    assert ledger(world) == before


@pytest.mark.parametrize("end", ["fail", "finish"])
def test_no_grant_for_a_round_that_is_over(world: World, end: str) -> None:
    tierer, assignment = world.assigned()
    getattr(tierer, end)(assignment)
    answer = tierer.begin(assignment, tierer.prepare(assignment))
    assert not answer.granted
    assert answer.error.error_class == "Fenced"


def test_no_grant_for_a_dropped_table(world: World) -> None:
    tierer, assignment = world.assigned()
    request = tierer.prepare(assignment)
    del world.cluster.by_path[world.table.path]
    tick(world.coordinator)
    assert tierer.begin(assignment, request).error.error_class == "UnknownTable"


def test_an_ack_reaches_store_and_cluster_before_it_is_answered(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.commit(assignment)
    tierer.ack(assignment)
    snapshot = world.lake.tables[world.table.path].tag
    assert world.cluster.recorded[1] == RecordedLakeSnapshot(snapshot or 0, {B0: 10, B1: 0})
    assert ledger(world)[assignment.round_id].state is CommitState.ACKED
    world.restart()
    assert world.record().lake.recorded == world.cluster.recorded[1]
    assert world.record().round.acked  # type: ignore[union-attr]


def test_an_ack_may_be_repeated(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.commit(assignment)
    tierer.ack(assignment)
    before = world.record(), ledger(world), len(world.store.events())
    tierer.ack(assignment)
    assert (world.record(), ledger(world), len(world.store.events())) == before


def test_an_ack_after_a_lost_cluster_write_tells_the_cluster(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.commit(assignment)

    def away(*_: object) -> None:
        raise errors.ClusterUnavailable("away")

    write, world.cluster.record_lake_snapshot = world.cluster.record_lake_snapshot, away  # type: ignore[method-assign]
    with pytest.raises(errors.ClusterUnavailable):
        tierer.ack(assignment)
    assert ledger(world)[assignment.round_id].state is CommitState.LAKE_COMMITTED
    world.cluster.record_lake_snapshot = write  # type: ignore[method-assign]
    world.restart()
    tierer.ack(assignment)
    assert ledger(world)[assignment.round_id].state is CommitState.ACKED
    assert world.cluster.recorded[1].offsets[B0] == 10


def test_a_late_ack_of_an_older_round_takes_what_the_lake_holds(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.commit(assignment)
    world.later(120)  # the tierer is silent: the round is over, its commit is not
    assert world.state() == "Failed"
    assert ledger(world)[assignment.round_id].state is CommitState.UNKNOWN
    tierer.ack(assignment)
    assert world.record().lake.offsets == {"0": 10, "1": 0}
    assert world.record().last_tiered_time == world.clock.now()
    assert world.cluster.recorded[1].offsets[B0] == 10
    assert ledger(world)[assignment.round_id].state.is_resolved


def test_a_late_ack_never_takes_back_a_newer_one(world: World) -> None:
    world.append()
    tierer, first = world.assigned()
    tierer.commit(first)
    late = tierer.ack_message(first)
    world.later(120)
    world.later(10)
    world.append()
    second = world.tierer("two")
    assignment = second.get()
    second.run(assignment)
    world.coordinator.commits.commit_lake_snapshot(late)
    assert world.record().lake.marker_round_id == assignment.round_id
    assert world.record().lake.offsets == {"0": 20, "1": 0}
    assert world.cluster.recorded[1].offsets[B0] == 20


def test_an_ack_from_the_running_round_that_goes_back_is_checked_against_the_lake(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.run(assignment)
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
    tierer, assignment = world.assigned()
    tierer.plan(assignment)
    message = pb.CommitLakeSnapshotRequest(round=tierer.ref(assignment), marker_round_id=assignment.round_id)
    message.marker.lake_snapshot_id = 99
    tierer.fail(assignment)
    with pytest.raises(errors.Fenced):
        world.coordinator.commits.commit_lake_snapshot(message)
    assert world.record().lake.snapshot_id is None
    assert world.cluster.recorded == {}


def forged_ack(tierer: HandTierer, assignment: pb.PbLakeTieringTableInfo) -> pb.CommitLakeSnapshotRequest:
    """Returns an ack that anyone can send who knows the names of the running round, which SQL shows."""
    message = pb.CommitLakeSnapshotRequest(round=tierer.ref(assignment), marker_round_id=assignment.round_id)
    message.marker.lake_snapshot_id = 99
    message.marker.offsets.extend(OFFSETS.to_pb({B0: 10, B1: 0}))
    return message


def test_an_ack_that_is_made_up_records_nothing_even_from_the_running_round(world: World) -> None:
    """Else the log would be cut up to offsets that the lake never got."""
    world.append()
    tierer, assignment = world.assigned()
    tierer.plan(assignment)
    with pytest.raises(errors.Fenced, match="has no marker"):
        world.coordinator.commits.commit_lake_snapshot(forged_ack(tierer, assignment))
    assert world.cluster.recorded == {}
    record = world.record()
    assert record.lake.recorded is None
    assert record.running is not None
    assert not record.running.acked
    tierer.run(assignment)
    assert world.cluster.recorded[1].offsets[B0] == 10


def test_an_ack_that_claims_more_than_the_lake_holds_is_refused_and_leaves_what_it_holds(world: World) -> None:
    world.append()
    tierer, first = world.assigned()
    tierer.run(first)
    before = world.cluster.recorded[1]
    world.append(90)
    world.due()
    second = tierer.get()
    message = forged_ack(tierer, second)
    message.marker.offsets[0].offset = 100
    with pytest.raises(errors.Fenced, match=f"it is at round {first.round_id}"):
        world.coordinator.commits.commit_lake_snapshot(message)
    assert world.cluster.recorded[1] == before
    assert world.record().lake.recorded == before


def test_an_ack_of_a_round_that_never_was_does_not_even_reach_the_lake(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    message = forged_ack(tierer, assignment)
    message.round.round_id = "made-up"
    world.lake.view = None  # type: ignore[method-assign, assignment]
    with pytest.raises(errors.Fenced, match="does not own"):
        world.coordinator.commits.commit_lake_snapshot(message)
    message.round.table_id = 4_711
    with pytest.raises(errors.UnknownTable):
        world.coordinator.commits.commit_lake_snapshot(message)


def test_an_ack_records_how_large_the_lake_table_is(world: World) -> None:
    """The round has just read the table, so the coordinator does not read it again."""
    world.append()
    tierer, assignment = world.assigned()
    tierer.commit(assignment)
    view = world.lake.view
    world.lake.view = lambda path: replace(view(path), records=10, size_bytes=80, files=1)  # type: ignore[method-assign, type-var]
    tierer.ack(assignment)
    lake = world.record().lake
    assert (lake.records, lake.size_bytes, lake.files) == (10, 80, 1)


def test_a_plan_for_a_lake_table_that_is_not_there_is_refused(world: World) -> None:
    """A recorded uuid of a missing table would stop the table permanently: the real table would count as replaced."""
    world.append()
    tierer, assignment = world.assigned()
    request = pb.RecordPlanRequest(round=tierer.ref(assignment), lake_table_uuid="made-up", splits=1)
    with pytest.raises(errors.Fenced, match="made-up"):
        world.coordinator.commits.record_plan(request)
    tierer.plan(assignment)
    with pytest.raises(errors.Fenced, match="made-up"):
        world.coordinator.commits.record_plan(request)
    assert world.record().lake.table_uuid == "lake-1"
    tierer.run(assignment)


def test_a_plan_on_the_recorded_lake_table_does_not_read_it_again(world: World) -> None:
    world.append()
    tierer, first = world.assigned()
    tierer.run(first)
    world.append()
    world.due()
    second = tierer.get()
    uuid = world.record().lake.table_uuid or ""
    world.lake.view = None  # type: ignore[method-assign, assignment]
    world.coordinator.commits.record_plan(pb.RecordPlanRequest(round=tierer.ref(second), lake_table_uuid=uuid, splits=1))
    assert world.record().running.splits_total == 1  # type: ignore[union-attr]


def test_a_head_that_a_round_passed_is_recorded_when_it_passes_here_too(world: World) -> None:
    world.append()
    tierer, first = world.assigned()
    tierer.run(first)
    world.lake.foreign_commit(world.table.path)
    head = world.lake.tables[world.table.path].head
    world.due()
    second = tierer.get()
    tierer.finish(second, empty=True, passed_head=head)
    assert world.record().lake.passed_head != head
    tick(world.coordinator)
    assert world.record().lake.passed_head == head
    assert world.store.load()[0].lake.passed_head == head


def test_a_head_that_is_made_up_stops_no_table(world: World) -> None:
    """A head on record of a table without a tag would count as a lost marker."""
    tierer, assignment = world.assigned()
    tierer.finish(assignment, empty=True, passed_head=7)
    tick(world.coordinator)
    assert world.record().lake.passed_head is None
    world.append()
    world.due()
    tierer.run(tierer.get())
    assert world.cluster.recorded[1].offsets[B0] == 10


def test_a_lake_that_is_away_while_a_head_is_looked_at_stops_nothing(world: World) -> None:
    world.append()
    tierer, first = world.assigned()
    tierer.run(first)
    world.due()
    tierer.finish(tierer.get(), empty=True, passed_head=7)
    view = world.lake.view

    def away(path: TablePath) -> None:
        raise errors.LakeUnavailable("away")

    world.lake.view = away  # type: ignore[method-assign, assignment]
    tick(world.coordinator)
    world.lake.view = view  # type: ignore[method-assign]
    assert world.state() == "Scheduled"


def test_a_round_is_granted_one_commit_and_no_other(world: World) -> None:
    """The sweep spares its files while the tag is the one of the grant: no caller may replace the grant."""
    world.append()
    tierer, assignment = world.assigned()
    tierer.plan(assignment)
    request = tierer.prepare(assignment)
    assert tierer.begin(assignment, request).granted
    forged = pb.BeginLakeCommitRequest(round=tierer.ref(assignment), base_tag=4_711)
    answer = world.coordinator.commits.begin_lake_commit(forged)
    assert not answer.granted
    assert answer.error.error_class == "Fenced"
    assert ledger(world)[assignment.round_id].base_tag is None
    assert tierer.begin(assignment, request).granted


def test_a_table_that_is_at_work_for_too_long_is_told_so(world: World) -> None:
    world.coordinator.commits.locks.wait_seconds = 0
    world.append()
    tierer, assignment = world.assigned()
    tierer.commit(assignment)
    with world.coordinator.commits.table_lock(1), pytest.raises(errors.TableBusy, match="table 1") as busy:
        tierer.ack(assignment)
    assert busy.value.retryable
    tierer.ack(assignment)


def test_locks_of_tables_are_removed_once_no_call_holds_them(world: World) -> None:
    locks = world.coordinator.commits.locks
    for table_id in range(100):
        with locks.locked(table_id):
            assert len(locks) == 1
    assert len(locks) == 0


def test_a_cluster_that_is_ahead_of_the_lake_is_never_set_back(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.commit(assignment)
    world.cluster.recorded[1] = RecordedLakeSnapshot(77, {B0: 10_000})
    with pytest.raises(errors.RecordAheadOfLake, match="10000"):
        tierer.ack(assignment)
    assert world.cluster.recorded[1].lake_snapshot_id == 77
    assert world.record().lake.recorded is None


def test_a_cluster_that_gets_ahead_during_an_ack_is_not_set_back_either(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.commit(assignment)
    read, reads = world.cluster.lake_snapshot, []

    def read_and_go_ahead(table: TableInfo) -> RecordedLakeSnapshot | None:
        reads.append(read(table))
        world.cluster.recorded[1] = RecordedLakeSnapshot(77, {B0: 10_000})
        return reads[-1]

    world.cluster.lake_snapshot = read_and_go_ahead  # type: ignore[method-assign]
    with pytest.raises(errors.RecordAheadOfLake, match="would go back"):
        tierer.ack(assignment)
    assert reads == [None], "for the base check; who writes looks anyway"
    assert world.cluster.recorded[1].lake_snapshot_id == 77


def test_an_adopting_round_settles_the_older_ones_grant(world: World) -> None:
    world.append()
    tierer, first = world.assigned()
    tierer.commit(first)
    world.later(120)
    world.later(10)
    second = world.tierer("two")
    assignment = second.get()
    second.ack(assignment)  # its base check found the lake ahead
    row = ledger(world)[first.round_id]
    assert (row.state, row.reconciled_by) == (CommitState.RECONCILED, assignment.round_id)
    record = world.record()
    assert record.lake.marker_round_id == first.round_id
    assert record.round is not None
    assert not record.round.acked
    second.finish(assignment, empty=True)
    assert world.state() == "Scheduled"


def test_a_grant_that_never_landed_is_aborted_once_another_round_is_in_the_lake(world: World) -> None:
    world.append()
    tierer, first = world.assigned()
    tierer.plan(first)
    assert tierer.begin(first, tierer.prepare(first)).granted
    world.later(120)
    world.later(10)
    second = world.tierer("two")
    assignment = second.get()
    second.run(assignment)
    rows = ledger(world)
    assert rows[first.round_id].state is CommitState.ABORTED
    assert rows[assignment.round_id].state is CommitState.ACKED


def test_a_chain_of_unacked_commits_is_settled_as_a_whole(world: World) -> None:
    names = []
    for number in range(3):
        world.append()
        world.due()
        tierer = world.tierer(f"t{number}")
        assignment = tierer.get()
        tierer.commit(assignment)
        names.append((tierer, assignment))
        if number < 2:
            world.later(120)
            world.later(10)
    tierer, assignment = names[-1]
    tierer.ack(assignment)
    rows = ledger(world)
    assert [rows[entry.round_id].state for _, entry in names] == [CommitState.RECONCILED, CommitState.RECONCILED, CommitState.ACKED]


def test_finished_without_an_ack_is_looked_at_again_at_once(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.commit(assignment)
    tierer.finish(assignment)
    record = world.record()
    assert (record.last_tiered_time, record.last_checked_time) == (None, None)
    tick(world.coordinator)
    assert world.state() == "Pending"


def test_acks_of_one_table_take_turns(world: World) -> None:
    """While one ack talks to the cluster, a second one of that table waits; heartbeats do not."""
    world.append()
    tierer, assignment = world.assigned()
    tierer.commit(assignment)
    inside, go_on = threading.Event(), threading.Event()
    write = world.cluster.record_lake_snapshot
    writing: list[object] = []

    def slow(*arguments: object) -> None:
        writing.append(arguments)
        assert len(writing) == 1
        inside.set()
        assert go_on.wait(10)
        write(*arguments)  # type: ignore[arg-type]
        writing.pop()

    world.cluster.record_lake_snapshot = slow  # type: ignore[method-assign]
    threads = [threading.Thread(target=tierer.ack, args=(assignment,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert inside.wait(10)
    assert not tierer.beat().tiering_table_resp[0].HasField("error")
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert world.cluster.recorded[1].offsets[B0] == 10


def test_progress_never_goes_back(world: World) -> None:
    tierer, assignment = world.assigned()
    tierer.plan(assignment)
    fractions = []
    for records in (20, 40, 30, 60, 0):
        report = pb.ReportProgressRequest(round=tierer.ref(assignment), splits_total=2, records_done=records, records_total=80)
        world.coordinator.progress.report(report)
        fractions.append(world.coordinator.view().table_statuses()[0].fraction_completed)
    assert fractions == [0.25, 0.5, 0.5, 0.75, 0.75]


def test_progress_shows_and_is_never_written(world: World) -> None:
    tierer, assignment = world.assigned()
    tierer.plan(assignment)
    events = len(world.store.events())
    world.coordinator.progress.report(pb.ReportProgressRequest(round=tierer.ref(assignment), splits_done=1, splits_total=2))
    [status] = world.coordinator.view().table_statuses()
    assert status.fraction_completed == 0.5
    assert len(world.store.events()) == events
    stored = world.store.round(assignment.round_id)
    assert stored is not None
    assert stored.splits_done == 0
