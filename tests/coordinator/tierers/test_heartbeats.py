"""Heartbeats: who gets which table, lost answers, repeats, time-outs (DESIGN 4-5)."""

from __future__ import annotations

import pytest

from support.background import tick
from support.clusters.memory_cluster import log_table
from support.operators import cancel
from support.worlds.coordinator_world import BEGINS, FRESHNESS, World
from tiering.coordinator.decisions.records import CommitState
from tiering.coordinator.tierers.messages import UNEXPLAINED
from tiering.model.rounds import RoundState
from tiering.model.tables import TablePath
from tiering.rpc.v1 import coordinator_pb2 as pb


def test_a_due_table_goes_to_the_tierer_that_asks(world: World) -> None:
    tierer = world.tierer()
    assert not tierer.beat(request=True).HasField("tiering_table")
    world.due()
    assignment = tierer.get()
    assert (assignment.table_id, assignment.tiering_epoch) == (1, 1)
    assert assignment.max_duration_ms == 10 * FRESHNESS * 1_000, "of a backlog"
    assert world.state() == "Tiering"


def test_a_round_that_goes_well_brings_the_table_back_to_scheduled(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.run(assignment)
    record = world.record()
    assert world.state() == "Scheduled"
    assert record.last_tiered_time == record.last_checked_time == world.clock.now()
    assert record.round is not None
    assert record.round.state is RoundState.SUCCEEDED
    assert record.round.stats is not None
    assert record.round.stats.records_written == 10


def test_an_empty_round_sets_only_the_checked_time(world: World) -> None:
    tierer, assignment = world.assigned()
    tierer.finish(assignment, empty=True)
    record = world.record()
    assert world.state() == "Scheduled"
    assert (record.last_tiered_time, record.last_checked_time) == (None, world.clock.now())
    assert record.round is not None
    assert record.round.state is RoundState.EMPTY


def test_freshness_counts_from_when_the_round_looked_at_the_log(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.plan(assignment)
    world.later(40)
    tierer.beat()
    tierer.run(assignment)
    world.later(BEGINS - 41)
    assert world.state() == "Scheduled"
    world.later(1)
    assert world.state() == "Pending"


def test_a_round_that_stopped_early_goes_on_at_once_under_a_new_epoch(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.commit(assignment)
    tierer.ack(assignment)
    tierer.running.clear()
    response = tierer.beat(finished=(tierer.about(assignment, forced=True),), request=True)
    assert response.tiering_table.tiering_epoch == assignment.tiering_epoch + 1
    assert response.tiering_table.round_id != assignment.round_id
    stored = world.store.round(assignment.round_id)
    assert stored is not None
    assert stored.state is RoundState.FORCE_FINISHED


def test_a_lost_answer_is_repeated_under_the_same_epoch_and_round(world: World) -> None:
    world.due()
    tierer = world.tierer()
    lost = tierer.lose_answer()
    assignment = tierer.get()
    assert (assignment.round_id, assignment.tiering_epoch) == (lost.round_id, lost.tiering_epoch)


def test_a_heartbeat_that_requests_nothing_never_hands_over(world: World) -> None:
    world.due()
    tierer = world.tierer()
    tierer.lose_answer()
    response = tierer.beat()
    assert not response.HasField("tiering_table")
    assert world.state() == "Tiering"


def test_a_listed_table_is_not_handed_over_again(world: World) -> None:
    tierer, _ = world.assigned()
    assert not tierer.beat(request=True).HasField("tiering_table")


def test_a_lost_table_never_goes_to_another_tierer_before_the_timeout(world: World) -> None:
    world.due()
    world.tierer("one").lose_answer()
    assert not world.tierer("two").beat(request=True).HasField("tiering_table")


def test_a_granted_round_is_never_handed_over(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    assert tierer.begin(assignment, tierer.prepare(assignment)).granted
    tierer.running.clear()  # its process forgot the round
    again = tierer.get()
    assert again.round_id != assignment.round_id
    assert again.tiering_epoch == assignment.tiering_epoch + 1
    ended = world.store.round(assignment.round_id)
    assert ended is not None
    assert ended.state is RoundState.FENCED
    [grant] = world.store.commits()
    assert grant.state is CommitState.UNKNOWN


def test_a_granted_round_whose_ack_came_is_finished_when_its_tierer_forgets_it(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.commit(assignment)
    tierer.ack(assignment)
    tierer.running.clear()
    assert not tierer.beat(request=True).HasField("tiering_table")
    assert world.state() == "Scheduled"


@pytest.mark.parametrize("report", ["finish", "fail"])
def test_repeating_a_report_is_harmless(world: World, report: str) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.commit(assignment)
    tierer.ack(assignment)
    getattr(tierer, report)(assignment)
    before, events = world.record(), len(world.store.events())
    response = getattr(tierer, report)(assignment)
    [answer] = [*response.finished_table_resp, *response.failed_table_resp]
    assert not answer.HasField("error")
    assert (world.record(), len(world.store.events())) == (before, events)


def test_a_report_of_an_older_round_is_harmless_after_newer_ones(world: World) -> None:
    tierer, first = world.assigned()
    tierer.finish(first, empty=True)
    world.due()
    second = tierer.get()
    response = tierer.finish(first, empty=True)
    assert not response.finished_table_resp[0].HasField("error")
    assert world.record().running is not None
    assert world.record().round.round_id == second.round_id  # type: ignore[union-attr]


def test_a_contradicting_report_is_fenced(world: World) -> None:
    tierer, assignment = world.assigned()
    tierer.fail(assignment)
    response = tierer.finish(assignment)
    assert response.finished_table_resp[0].error.error_class == "Fenced"
    assert world.state() == "Failed"


def test_reports_are_taken_before_the_request(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.running.clear()
    response = tierer.beat(failed=(tierer.about(assignment, tierer_stopped=True, error_message="stopping"),), request=True)
    # The failure counted first: with no back-off the table is given out again only after the next tick.
    assert not response.HasField("tiering_table")
    tick(world.coordinator)
    assert tierer.get().tiering_epoch == 2


def test_an_overtaken_heartbeat_still_reports_but_gets_no_table(world: World) -> None:
    world.due()
    tierer = world.tierer()
    late = tierer.message(request=True)
    tierer.beat()
    response, hold = world.coordinator.heartbeats.handle(late)
    assert not response.HasField("tiering_table")
    assert hold is None


def test_a_tierer_that_started_anew_under_its_name_counts_from_one_again(world: World) -> None:
    world.due()
    old = world.tierer()
    old.sequence = 500
    lost = old.lose_answer()
    new = world.tierer()
    new.started_at_ms = 2
    assert new.get().round_id == lost.round_id


def test_an_older_peer_needs_neither_message_nor_round_id_nor_sequence(world: World) -> None:
    world.due()
    handle = world.coordinator.heartbeats.handle
    assignment, _ = handle(pb.LakeTieringHeartbeatRequest(request_table=True))
    table = pb.PbHeartbeatReqForTable(
        table_id=assignment.tiering_table.table_id,
        coordinator_epoch=assignment.coordinator_epoch,
        tiering_epoch=assignment.tiering_table.tiering_epoch,
    )
    response, _ = handle(pb.LakeTieringHeartbeatRequest(failed_tables=[table]))
    assert not response.failed_table_resp[0].HasField("error")
    error = world.record().error
    assert error is not None
    assert (error.error_class, error.message, error.retryable) == ("RoundFailed", UNEXPLAINED, True)


def test_secrets_and_length_are_taken_out_of_what_a_tierer_says(world: World) -> None:
    tierer, assignment = world.assigned()
    tierer.fail(assignment, error_message="s3.secret-access-key=abc " + "ü" * 3_000)
    error = world.record().error
    assert error is not None
    assert "abc" not in error.message
    assert len(error.message) == 2_048


def test_a_renewal_from_before_the_restart_is_accepted(world: World) -> None:
    tierer, assignment = world.assigned()
    world.restart()
    answer = tierer.beat().tiering_table_resp[0]
    assert not answer.HasField("error")
    assert not answer.cancel
    assert tierer.epoch == 2
    assert world.record().tiering_epoch == assignment.tiering_epoch


def test_a_called_table_goes_first_then_the_overdue_then_the_one_that_waits_longest() -> None:
    paths = [TablePath("sales", name) for name in ("a", "b", "c")]
    tables = tuple(log_table(number, path) for number, path in enumerate(paths, 1))
    world = World(tables)
    world.due()
    world.append(table=tables[2])
    world.call(paths[2], wait=False)
    tierer = world.tierer()
    assert [tierer.get().table_id for _ in tables] == [3, 1, 2]
    world.coordinator.close()


def test_answers_name_the_round_that_they_are_about(world: World) -> None:
    world.append()
    tierer, old = world.assigned()
    cancel(world.coordinator, old.round_id, "alice")
    tierer.fail(old)
    world.due()
    new = tierer.get()
    tierer.running = {info.round_id: info for info in (old, new)}
    answers = {answer.round_id: answer for answer in tierer.beat().tiering_table_resp}
    assert answers.keys() == {old.round_id, new.round_id}
    assert (answers[old.round_id].HasField("error"), answers[old.round_id].cancel) == (True, True)
    assert (answers[new.round_id].HasField("error"), answers[new.round_id].cancel) == (False, False)


@pytest.mark.parametrize("forced", [True, False])
def test_a_report_says_itself_whether_its_round_stopped_early(world: World, forced: bool) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.commit(assignment)
    tierer.ack(assignment)
    tierer.running.clear()
    tierer.beat(finished=(tierer.about(assignment, forced=forced),))
    ended = world.store.round(assignment.round_id)
    assert ended is not None
    assert ended.state is (RoundState.FORCE_FINISHED if forced else RoundState.SUCCEEDED)
