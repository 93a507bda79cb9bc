"""Identity of tierers: incarnations instead of clocks, late heartbeats, two processes under one id, and a bounded number of records."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from support.clusters.memory_cluster import log_table
from support.operators import cancel
from support.services.served import Served, over_grpc
from support.worlds.coordinator_world import BEGINS, HandTierer, World
from tiering import errors
from tiering.coordinator.memory import tierer_registry
from tiering.coordinator.tierers import heartbeats
from tiering.coordinator.tierers.heartbeats import HeldRequest
from tiering.model.rounds import RoundState
from tiering.model.tables import TablePath
from tiering.redaction.redact import NAME_TEXT_LIMIT
from tiering.rpc.v1 import coordinator_pb2 as pb

LAST_SEQUENCE = 2**63 - 1


def two_tables() -> World:
    return World((log_table(1), log_table(2, TablePath("sales", "returns"))))


def hold_of(world: World, tierer: HandTierer) -> HeldRequest:
    """A request of it that the coordinator holds."""
    response, hold = world.coordinator.heartbeats.handle(tierer.message(request=True, max_wait_ms=30_000))
    assert not response.HasField("tiering_table")
    assert hold is not None
    return hold


def test_a_process_that_starts_anew_with_its_clock_set_back_is_heard_at_once(world: World) -> None:
    """The process has a fixed id, and its clock was a year ahead when it ran before."""
    world.due()
    former = world.process("first")
    former.started_at_ms, former.sequence = 32_000_000_000, 500
    lost = former.lose_answer()
    again = world.process("second")
    assignment = again.get()
    assert assignment.table_id == lost.table_id
    assert assignment.tiering_epoch > lost.tiering_epoch  # a new round: should the former one live, it is fenced


def test_a_heartbeat_with_the_largest_sequence_locks_no_tierer_out(world: World) -> None:
    tierer = world.process("honest")
    tierer.beat()
    rogue = world.process("made-up")
    rogue.started_at_ms, rogue.sequence = LAST_SEQUENCE, LAST_SEQUENCE - 1
    rogue.beat()
    world.due()
    tierer.beat()  # it is there: whatever claimed to come after it
    assert tierer.get().table_id == 1


def test_even_under_the_right_incarnation_a_tierer_is_locked_out_no_longer_than_the_service_timeout() -> None:
    world = World((replace(log_table(), freshness_ms=3_600_000),))
    tierer, rogue = world.process("honest"), world.process("honest")
    tierer.beat()
    rogue.sequence = LAST_SEQUENCE - 1
    rogue.beat()
    for _ in range(12):
        world.later(10)
        tierer.beat(request=True)
    world.later(3_600)
    assert tierer.get().table_id == 1


def test_an_old_heartbeat_of_a_former_process_changes_nothing_of_the_new_one(world: World) -> None:
    world.later(BEGINS - 1)
    former, now = world.process("first"), world.process("second")
    former.beat()
    late, later_still = former.message(request=True), former.message(request=True)
    hold = hold_of(world, now)
    for message in (late, later_still):
        response, _ = world.coordinator.heartbeats.handle(message)
        assert not response.HasField("tiering_table")
        assert not world.coordinator.heartbeats.worth_trying(hold)
    world.later(1)
    answer = world.coordinator.heartbeats.try_again(hold)
    assert answer is not None
    assert answer.tiering_table.table_id == 1


def test_a_late_request_of_a_former_process_hands_nothing_over_and_gets_no_table() -> None:
    world = two_tables()
    world.due()
    former = world.process("first")
    former.beat()
    late = [former.message(request=True), former.message(request=True)]  # they list nothing
    now = world.process("second")
    assignment = now.get()
    for message in late:
        response, _ = world.coordinator.heartbeats.handle(message)
        assert not response.HasField("tiering_table")
    answer = now.beat().tiering_table_resp[0]
    assert not answer.HasField("error")
    assert world.record().running.round_id == assignment.round_id  # type: ignore[union-attr]
    world.coordinator.close()


def test_a_lost_answer_is_still_repeated_to_the_process_that_missed_it(world: World) -> None:
    world.due()
    tierer = world.process("first")
    lost = tierer.lose_answer()
    assignment = tierer.get()
    assert (assignment.round_id, assignment.tiering_epoch) == (lost.round_id, lost.tiering_epoch)


def test_two_processes_with_one_id_both_work_and_are_warned_of_once() -> None:
    world = two_tables()
    world.due()
    first, second = world.process("first"), world.process("second")
    round_of_first = first.get()
    with capture_logs() as logs:
        two = second.get()  # its first request: it takes over what the other had, under a new epoch
        assert (two.table_id, two.tiering_epoch) == (round_of_first.table_id, 2)
        assert first.beat().tiering_table_resp[0].cancel
        first.running.clear()
        first.beat()
        other = first.get()
        assert other.table_id != two.table_id
        for _ in range(5):
            for tierer in (first, second):
                answers = tierer.beat(request=True).tiering_table_resp
                assert not any(answer.HasField("error") or answer.cancel for answer in answers)
    assert [entry["event"] for entry in logs] == ["two processes use the same tierer id: give each an id of its own, or none"]
    world.coordinator.close()


def test_a_round_of_the_former_process_cannot_commit_once_the_new_one_has_the_table(world: World) -> None:
    world.append()
    world.due()
    former = world.process("first")
    assignment = former.get()
    former.plan(assignment)
    request = former.prepare(assignment)
    world.process("second").get()
    answer = former.begin(assignment, request)
    assert answer.error.error_class == "Fenced"


def test_a_former_processes_commit_that_is_in_the_lake_and_acked_counts(world: World) -> None:
    world.append()
    world.due()
    former = world.process("first")
    assignment = former.get()
    former.commit(assignment)
    former.ack(assignment)
    world.process("second").beat(request=True)
    stored = world.store.round(assignment.round_id)
    assert stored is not None
    assert stored.state is RoundState.SUCCEEDED
    assert world.state() == "Scheduled"


def test_a_cancelled_round_of_a_former_process_stays_cancelled(world: World) -> None:
    world.due()
    former = world.process("first")
    assignment = former.get()
    assert cancel(world.coordinator, assignment.round_id, "alice")
    world.process("second").beat(request=True)
    stored = world.store.round(assignment.round_id)
    assert stored is not None
    assert stored.state is RoundState.CANCELLED


def test_after_a_restart_of_the_coordinator_a_tierer_keeps_its_rounds(world: World) -> None:
    world.due()
    tierer = world.process("first")
    assignment = tierer.get()
    world.restart()
    assert not tierer.beat(request=True).HasField("tiering_table")
    assert world.record().running.round_id == assignment.round_id  # type: ignore[union-attr]


@pytest.mark.parametrize("report", ["finish", "fail"])
def test_only_the_process_that_has_a_round_reports_for_it(world: World, report: str) -> None:
    """Ids of rounds and tierers are shown in SQL; the incarnation is not."""
    world.due()
    tierer = world.process("first")
    assignment = tierer.get()
    rogue = world.tierer("tierer-1")
    rogue.sequence = 50
    response = getattr(rogue, report)(assignment)
    [answer] = [*response.finished_table_resp, *response.failed_table_resp]
    assert answer.error.error_class == "Fenced"
    assert world.state() == "Tiering"
    rogue.running[assignment.round_id] = assignment
    assert rogue.beat().tiering_table_resp[0].error.error_class == "Fenced"
    assert not rogue.begin(assignment, tierer.prepare(assignment)).granted
    assert rogue.beat(stopping=True).coordinator_epoch
    assert world.state() == "Tiering"


def test_a_tierer_without_an_incarnation_works_as_ever(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.run(assignment)
    assert world.state() == "Scheduled"


def test_a_tierer_that_was_silent_for_the_service_timeout_is_forgotten(world: World) -> None:
    for number in range(50):
        world.process("x", f"tierer-{number}").beat()
    world.later(60)
    world.process("y").beat()
    assert len(world.coordinator.heartbeats.tierers.all()) == 51
    world.later(60)
    assert [tierer.incarnation for tierer in world.coordinator.heartbeats.tierers.all()] == ["y"]


def test_a_held_request_of_a_forgotten_tierer_ends_without_a_table(world: World) -> None:
    hold = hold_of(world, world.process("first"))
    world.later(120)
    assert world.coordinator.heartbeats.tierers.all() == []
    assert world.coordinator.heartbeats.worth_trying(hold)
    answer = world.coordinator.heartbeats.try_again(hold)
    assert answer is not None
    assert not answer.HasField("tiering_table")


def test_no_more_tierers_are_kept_than_there_is_room_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Invented tierers push out the tierers that were silent for longest, and lock out no real one."""
    monkeypatch.setattr(tierer_registry, "KEPT_TIERERS", 10)
    tierer = world.process("honest")
    world.due()
    assignment = tierer.get()
    for number in range(100):
        world.process("made-up", f"made-up-{number}").beat(request=True)
    assert len(world.coordinator.heartbeats.tierers.all()) == 10
    assert not tierer.beat().tiering_table_resp[0].HasField("error")
    tierer.run(assignment)
    assert world.state() == "Scheduled"


def test_what_a_tierer_says_of_itself_is_cut_and_its_names_are_bounded(world: World) -> None:
    handle = world.coordinator.heartbeats.handle
    long = "x" * 1_000_000
    handle(pb.LakeTieringHeartbeatRequest(tierer=pb.PbTierer(tierer_id="t", host=long, application_id=long, version=long)))
    [tierer] = world.coordinator.heartbeats.tierers.all()
    assert {len(tierer.host), len(tierer.application_id), len(tierer.version)} == {NAME_TEXT_LIMIT}
    for tierer_message in (pb.PbTierer(tierer_id=long), pb.PbTierer(tierer_id="t", incarnation=long)):
        with pytest.raises(errors.InvalidArgument, match="1000000"):
            handle(pb.LakeTieringHeartbeatRequest(tierer=tierer_message))


def test_a_heartbeat_with_too_many_reports_is_refused_before_any_is_looked_at(world: World) -> None:
    tierer, assignment = world.assigned()
    reports = tuple(tierer.about(assignment) for _ in range(heartbeats.MAX_REPORTS + 1))
    with pytest.raises(errors.InvalidArgument, match=f"at most {heartbeats.MAX_REPORTS} reports"):
        world.coordinator.heartbeats.handle(tierer.message(finished=reports))
    assert world.state() == "Tiering"


def test_a_round_id_that_cannot_be_is_refused(world: World) -> None:
    tierer, assignment = world.assigned()
    long = pb.PbHeartbeatReqForTable(table_id=1, tiering_epoch=assignment.tiering_epoch, round_id="x" * 1_000)
    with pytest.raises(errors.InvalidArgument, match="1000"):
        world.coordinator.heartbeats.handle(tierer.message(finished=(long,)))
    with pytest.raises(errors.InvalidArgument, match="1000"):
        world.coordinator.commits.commit_lake_snapshot(pb.CommitLakeSnapshotRequest(round=pb.PbRound(table_id=1, round_id="x" * 1_000)))


def test_negative_numbers_of_a_tierer_count_as_zero(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.commit(assignment)
    world.coordinator.progress.report(pb.ReportProgressRequest(round=tierer.ref(assignment), splits_done=-5, splits_total=2))
    [status] = world.coordinator.view().table_statuses()
    assert status.fraction_completed == 0
    tierer.ack(assignment)
    tierer.beat(finished=(tierer.about(assignment, stats=pb.PbRoundStats(splits=-1, records_written=-(2**63))),))
    stats = world.record().round.stats  # type: ignore[union-attr]
    assert stats is not None
    assert (stats.splits, stats.records_written) == (0, 0)


def test_requests_beyond_those_that_may_be_held_are_answered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiering.coordinator.server.services.MAX_HELD_PER_CALLER", 2)

    async def test(served: Served) -> None:
        held = await served.held(served.world.process("a", "one"), served.world.process("b", "two"))
        third = served.world.process("c", "three")
        answer = await served.heartbeat(third, request=True, max_wait_ms=30_000)
        assert not answer.HasField("tiering_table")
        assert not any(request.done() for request in held)
        held[0].cancel()
        served.world.clock.advance(31)
        await held[1]
        [again] = await served.held(third)  # there is room again
        assert not again.done()
        served.world.clock.advance(31)
        await again

    over_grpc(test)


def test_requests_of_all_peers_together_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiering.coordinator.server.services.MAX_HELD", 1)

    async def test(served: Served) -> None:
        [held] = await served.held(served.world.process("a", "one"))
        await asyncio.wait_for(served.heartbeat(served.world.process("b", "two"), request=True, max_wait_ms=30_000), 60)
        assert not held.done()
        served.world.clock.advance(31)
        await held

    over_grpc(test)
