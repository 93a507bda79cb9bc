"""A cluster that assigns its tables: what the coordinator asks for, keeps, hands back and says, whatever restarts."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from support.assigned_world import assigner, begun, lose_session, pause, resume, tables
from support.clusters.assigner import OURS, Assigner
from support.clusters.memory_cluster import log_table
from support.operators import fence
from support.worlds.calling import connect, during
from support.worlds.coordinator_world import World
from tiering.coordinator.options import CoordinatorOptions
from tiering.errors import ClusterUnavailable
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey, TablePath
from tiering.rpc.v1 import coordinator_pb2 as pb

LONG = 130
"""Seconds: more than the service timeout."""


def test_a_table_that_is_not_assigned_never_begins_a_round(shared: World) -> None:
    tierer = shared.tierer()
    shared.append()
    shared.later(10_000)
    assert not tierer.beat(request=True).HasField("tiering_table")
    assert shared.state() == "Scheduled"


def test_an_assigned_table_is_due_at_once_and_told_finished_after_its_ack(shared: World) -> None:
    shared.append()
    tierer, info = begun(shared)
    tierer.commit(info)
    shared.later(1)
    assert assigner(shared).ever_told("finished") == []
    tierer.ack(info)
    shared.later(1)
    assert assigner(shared).ever_told("finished") == []
    tierer.finish(info)
    shared.later(1)
    assert assigner(shared).ever_told("finished") == [shared.table.table_id]
    assert shared.record().assignment is None
    assert assigner(shared).tiering == {}
    shared.later(1)
    assert assigner(shared).ever_told("finished") == [shared.table.table_id]  # once it was answered


def test_a_table_stays_while_the_cluster_is_being_told_of_its_lake(shared: World) -> None:
    """Else another service plans from before, and passes its check since the cluster knows the newest snapshot by then."""
    shared.append()
    tierer, info = begun(shared)
    tierer.commit(info)
    tierer.ack(info)
    notifications, table_id = shared.coordinator.call_parts.notifications, shared.table.table_id
    with notifications.turn(table_id) as in_turn:
        assert in_turn
        tierer.finish(info)
        shared.later(1)
        assert assigner(shared).ever_told("finished") == []
    shared.later(1)
    assert assigner(shared).ever_told("finished") == [table_id]
    with notifications.turn(table_id) as in_turn:
        assert not in_turn


def test_tables_are_asked_for_only_while_a_tierer_has_room() -> None:
    some = tables(3)
    world = World(some, assigner=Assigner())
    for table in some:
        assigner(world).due(table)
    world.later(1)
    assert not any(report.wants_table for report in assigner(world).reports)
    first = world.tierer("first")
    first.beat(request=True)
    world.later(1)
    assert list(assigner(world).tiering) == [1]
    world.tierer("second").beat()
    world.later(1)
    assert list(assigner(world).tiering) == [1, 2]
    info = first.get()
    first.run(info)
    world.later(1)
    assert list(assigner(world).tiering) == [2, 3]
    world.coordinator.close()


def test_a_long_service_timeout_does_not_stretch_the_renewals() -> None:
    """The cluster's own time-out stays what it is: 120 s in Fluss."""
    world = World(tables(1), CoordinatorOptions(service_timeout_ms=3_600_000), assigner=Assigner())
    tierer, _ = begun(world)
    before = len(assigner(world).ever_told("renewed"))
    for _ in range(60):
        world.later(1)
        tierer.beat()
    assert len(assigner(world).ever_told("renewed")) - before >= 4
    world.coordinator.close()


def test_a_paused_table_that_is_assigned_is_held_and_takes_no_room() -> None:
    world = World(tables(2), assigner=Assigner())
    held, other = world.tables
    tierer = world.tierer()
    tierer.beat(request=True)
    pause(world, held)
    assigner(world).due(held)
    assigner(world).due(other)
    world.later(1)
    assert tierer.get().table_id == other.table_id
    for _ in range(10):
        world.later(LONG / 10)
        tierer.beat()
    assert assigner(world).another_asks() is None  # no other tierer gets it
    assert set(assigner(world).ever_told("renewed")) >= {held.table_id}
    assert assigner(world).ever_told("failed") == []
    resume(world, held)
    world.later(1)
    tierer.run(next(iter(tierer.running.values())))
    assert tierer.get().table_id == held.table_id
    world.coordinator.close()


def test_a_table_in_back_off_is_held_and_goes_on_under_the_same_assignment(shared: World) -> None:
    tierer, info = begun(shared)
    tierer.fail(info)
    shared.later(0.5)
    assert shared.state() == "Failed"
    assert assigner(shared).ever_told("failed") == []
    assert assigner(shared).another_asks() is None
    shared.later(1)
    again = tierer.get()
    assert again.tiering_epoch > info.tiering_epoch
    assert assigner(shared).epochs == {shared.table.table_id: 1}
    tierer.run(again)
    shared.later(1)
    assert assigner(shared).ever_told("finished") == [shared.table.table_id]


def test_held_tables_beyond_the_limit_are_handed_back_the_latest_first() -> None:
    some = tables(3)
    world = World(some, CoordinatorOptions(held_tables=1), assigner=Assigner())
    world.tierer().beat(request=True)
    for table in some:
        pause(world, table)
        assigner(world).due(table)
    for _ in range(3):
        world.later(1)
    assert {table_id for table_id, turn in assigner(world).tiering.items() if turn.owner == OURS} >= {1}
    assert 1 not in assigner(world).ever_told("failed")
    assert set(assigner(world).ever_told("failed")) == {2, 3}
    world.coordinator.close()


def test_a_table_that_cannot_be_written_here_goes_back_less_and_less_often() -> None:
    foreign = replace(log_table(), lake_format="paimon")
    world = World((foreign,), assigner=Assigner())
    tierer = world.tierer()
    assigner(world).due(foreign)
    for _ in range(300):
        tierer.beat(request=True)
        world.later(1)
    assert 5 <= len(assigner(world).ever_told("failed")) <= 20
    assert world.state() == "Scheduled"
    assert assigner(world).another_asks() == foreign.table_id
    world.coordinator.close()


def test_a_table_that_only_this_service_fails_at_is_handed_back(shared: World) -> None:
    tierer, info = begun(shared)
    tierer.fail(info, error_class="UnsupportedType", error_retryable=False)
    shared.later(1)
    assert assigner(shared).ever_told("failed") == [shared.table.table_id]


def test_a_table_that_failed_for_good_is_held_until_a_user_resumes_it(shared: World) -> None:
    tierer, info = begun(shared)
    tierer.fail(info, error_class="ForeignTieringOverlap", error_retryable=False)
    for _ in range(20):
        shared.later(10)
        tierer.beat()
    assert assigner(shared).ever_told("failed") == []
    assert assigner(shared).another_asks() is None


@pytest.mark.parametrize("loss", ["restart", "connection", "own restart", "own crash"])
def test_a_round_without_a_grant_is_fenced_when_the_session_ends(shared: World, loss: str) -> None:
    tierer, info = begun(shared)
    tierer.plan(info)
    lose_session(shared, loss)
    assert shared.record().assignment is None
    assert not tierer.begin(info, tierer.prepare(info)).granted
    tierer.running.clear()
    assert not tierer.beat(request=True).HasField("tiering_table")  # until it is assigned again
    again = assigner(shared)
    again.tiering.clear()
    again.due(shared.table)
    shared.later(1)
    assert tierer.get().tiering_epoch > info.tiering_epoch


@pytest.mark.parametrize("loss", ["restart", "connection", "own restart", "own crash"])
def test_a_granted_round_goes_on_when_the_session_ends_and_nothing_is_told_of_it(shared: World, loss: str) -> None:
    shared.append()
    tierer, info = begun(shared)
    tierer.commit(info)
    lose_session(shared, loss)
    tierer.ack(info)
    tierer.finish(info)
    assert shared.record().lake.offsets == {"0": 10, "1": 0}
    shared.later(1)
    if loss == "restart":
        assert assigner(shared).ever_told("finished") == []
    assert shared.state() == "Scheduled"
    assert not shared.record().unresolved_commit


def test_epochs_that_repeat_after_a_restart_end_no_round_of_another_tierer(shared: World) -> None:
    """The other service's assignment has the very numbers that ours had."""
    tierer, info = begun(shared)
    tierer.run(info)
    assigner(shared).stop()
    assigner(shared).start()
    assigner(shared).due(shared.table)
    assert assigner(shared).another_asks() == shared.table.table_id
    shared.later(1)
    assert assigner(shared).ever_told("finished") == []
    assert assigner(shared).tiering[shared.table.table_id].epoch == 1


def test_an_assignment_that_the_cluster_took_away_ends_its_round(shared: World) -> None:
    tierer, info = begun(shared)
    tierer.plan(info)
    assigner(shared).time_out(shared.table)
    assert assigner(shared).another_asks() == shared.table.table_id
    shared.later(13)
    assert shared.record().assignment is None
    assert not tierer.begin(info, tierer.prepare(info)).granted


@pytest.mark.parametrize("suspended", [True, False])
def test_a_commit_is_granted_only_while_the_assignment_cannot_have_timed_out(shared: World, suspended: bool) -> None:
    """The steady clock of a machine that was suspended may say that no time went by; the relay's own turn comes after the grant."""

    def pass_by(seconds: int) -> None:
        shared.clock.wall += timedelta(seconds=seconds)
        shared.clock.elapsed_ms += 0 if suspended else seconds * 1_000

    tierer, info = begun(shared)
    tierer.plan(info)
    pass_by(30)
    reports_before = len(assigner(shared).reports)
    proposed = tierer.prepare(info)
    pass_by(LONG)
    assigner(shared).undecided.add(shared.table.table_id)
    with pytest.raises(ClusterUnavailable, match="does not confirm that"):
        tierer.begin(info, proposed)
    assigner(shared).undecided.clear()
    assigner(shared).time_out(shared.table)
    assert assigner(shared).another_asks() == shared.table.table_id
    assert len(assigner(shared).reports) == reports_before + 1
    assert not tierer.begin(info, proposed).granted
    assert shared.record().assignment is None


def test_an_old_renewal_is_repeated_before_a_commit_is_granted(shared: World) -> None:
    tierer, info = begun(shared)
    tierer.plan(info)
    reports_before = len(assigner(shared).reports)
    shared.clock.wall += timedelta(seconds=59)
    assert tierer.begin(info, tierer.prepare(info)).granted
    assert len(assigner(shared).reports) == reports_before
    shared.clock.wall += timedelta(seconds=LONG)
    assert tierer.begin(info, tierer.prepare(info)).granted
    assert [ref.table_id for ref in assigner(shared).reports[-1].renewed] == [shared.table.table_id]
    assert len(assigner(shared).reports) == reports_before + 1


def test_an_end_that_the_cluster_could_not_take_is_told_again(shared: World) -> None:
    tierer, info = begun(shared)
    tierer.run(info)
    assigner(shared).undecided.add(shared.table.table_id)
    shared.later(1)
    shared.later(1)
    assert len(assigner(shared).ever_told("finished")) == 2
    assigner(shared).undecided.clear()
    shared.later(1)
    shared.later(1)
    assert len(assigner(shared).ever_told("finished")) == 3


@pytest.mark.parametrize("loss", [None, "connection", "own restart", "own crash"])
def test_an_unresolved_commit_keeps_the_table_until_a_round_has_resolved_it(shared: World, loss: str | None) -> None:
    """The tierer died with its request on the way."""
    shared.append()
    tierer, info = begun(shared)
    tierer.plan(info)
    late = tierer.prepare(info)
    assert tierer.begin(info, late).granted
    if loss is not None:
        lose_session(shared, loss)
    for _ in range(14):
        shared.later(10)
    assert shared.record().unresolved_commit
    assert assigner(shared).ever_told("finished") == assigner(shared).ever_told("failed") == []
    assert assigner(shared).another_asks() is None
    second = shared.tierer("second")
    again = second.get()
    assert again.unresolved
    second.run(again)
    shared.later(1)
    assert not shared.lake.receive(late)
    assert assigner(shared).ever_told("finished") == [shared.table.table_id]


def test_tables_go_to_other_services_while_no_tierer_is_there(shared: World) -> None:
    tierer = shared.tierer()
    tierer.beat(request=True)
    assigner(shared).due(shared.table)
    shared.later(1)
    assert assigner(shared).another_asks() is None
    tierer.beat(stopping=True)
    shared.later(31)
    assert assigner(shared).another_asks() == shared.table.table_id


def test_the_table_of_a_fenced_tierer_goes_to_another_of_ours_and_else_to_other_services(shared: World) -> None:
    """The fenced ones are still heard of: nothing is kept for them, and nothing asked for."""
    shared.append()
    first, info = begun(shared)
    first.plan(info)
    late = first.prepare(info)
    assert fence(shared.coordinator, first.name, "ann") == 1
    second = shared.tierer("second")
    again = second.get()
    assert assigner(shared).epochs == {shared.table.table_id: 1}
    assert not first.begin(info, late).granted
    shared.later(31)
    assert fence(shared.coordinator, second.name, "ann") == 1
    for _ in range(3):  # the back-off after a second loss is over, and the cluster is told
        shared.later(1)
    assert not first.beat(request=True).HasField("tiering_table")
    assert not second.beat(request=True).HasField("tiering_table")
    assert assigner(shared).another_asks() == shared.table.table_id
    assert not second.begin(again, late).granted
    assert not assigner(shared).reports[-1].wants_table


def test_a_table_that_the_cluster_does_not_list_is_handed_back(shared: World) -> None:
    shared.tierer().beat(request=True)
    assigner(shared).due(log_table(77, TablePath("sales", "nowhere")))
    shared.later(1)
    shared.later(1)
    assert set(assigner(shared).ever_told("failed")) == {77}


def test_a_call_waits_until_the_cluster_assigns_the_table(shared: World) -> None:
    shared.append()
    tierer = shared.tierer()
    tierer.beat(request=True)
    result = shared.call(timeout_ms=0)
    assert result.state == "Pending"
    assert any("until the cluster assigns it" in line for line in shared.progress_lines)
    assert not tierer.beat(request=True).HasField("tiering_table")
    assigner(shared).due(shared.table)
    shared.later(1)
    assert tierer.get().round_id == result.round_id


def test_a_coordinator_that_stops_gives_its_tables_back_at_once(shared: World) -> None:
    tierer, info = begun(shared)
    tierer.plan(info)
    shared.coordinator.close()
    assert assigner(shared).another_asks() == shared.table.table_id
    shared.crash()
    assert not tierer.begin(info, tierer.prepare(info)).granted


def test_a_call_ends_when_another_service_has_done_it(shared: World) -> None:
    """The call ends after the other service has told the cluster, and only as far as the lake itself confirms it."""
    shared.append()
    connect(shared)

    async def act() -> None:
        request = shared.tierer().prepare(pb.PbLakeTieringTableInfo(table_id=shared.table.table_id, round_id="another", tiering_epoch=1))
        assert shared.lake.receive(request)
        view = shared.lake.view(shared.table.path)
        assert view is not None
        assert view.tiered is not None
        shared.cluster.recorded[shared.table.table_id] = RecordedLakeSnapshot(view.tiered, {BucketKey(None, 0): 10, BucketKey(None, 1): 0})
        shared.coordinator.other_services.observe()
        shared.later(1)

    assert during(shared, act).state == "SUCCEEDED"
    assert any("until the cluster assigns it" in line for line in shared.progress_lines)


def test_a_turn_that_is_kept_for_a_commit_is_let_go_once_that_is_resolved(shared: World) -> None:
    """The cluster could not be reached meanwhile, so it is unknown which service has the turn."""
    shared.append()
    tierer, info = begun(shared)
    tierer.commit(info)
    assigner(shared).stop()
    shared.later(1)
    assert shared.record().assignment is not None
    tierer.ack(info)
    tierer.finish(info)
    assigner(shared).is_up = True
    shared.later(1)
    assert shared.record().assignment is None
    assert shared.state() == "Scheduled"
    assert assigner(shared).ever_told("finished") == []


def test_switched_to_exclusive_rounds_go_on_without_the_cluster(shared: World) -> None:
    tierer, info = begun(shared)
    shared.cluster = type(shared)(shared.tables).cluster
    shared.crash()
    assert shared.record().assignment is None
    tierer.run(info)
    assert shared.state() == "Scheduled"
