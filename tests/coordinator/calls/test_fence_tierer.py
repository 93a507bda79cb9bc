"""CALL sys.fence_tierer: its tables go to others under new epochs, and of a granted commit the lake decides."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.background import tick
from support.clusters.memory_cluster import log_table
from support.worlds.coordinator_world import World
from tiering.errors import InvalidArgument
from tiering.model.rounds import RoundState
from tiering.model.tables import TablePath
from tiering.model.tierers import TiererState
from tiering.procedures.fence_tierer import FenceTierer


def fence(world: World, tierer_id: str = "tierer-1", **more: Any) -> int:
    result = asyncio.run(world.coordinator.control.perform(FenceTierer(tierer_id, caller="ann", **more)))
    assert result.tierer_id == tierer_id
    return result.tables_fenced


def states(world: World) -> list[TiererState]:
    return [tierer.state for tierer in world.coordinator.view().tierers()]


def test_another_tierer_goes_on_and_the_fenced_one_changes_nothing_more(world: World) -> None:
    world.append()
    world.due()
    fenced = world.process("a")
    assignment = fenced.get()
    fenced.plan(assignment)
    late = fenced.prepare(assignment)
    assert fence(world, reason="hangs") == 1
    assert (world.state(), states(world)) == ("Pending", [TiererState.FENCED])
    events = [(event.event_type, event.principal, event.message) for event in world.store.events()]
    assert ("TIERER_FENCED", "ann", "the tierer tierer-1 was fenced: hangs") in events
    answer = fenced.beat(request=True)
    assert answer.fenced, "it is told"
    assert not answer.HasField("tiering_table"), "it gets no table, though one waits"
    assert answer.tiering_table_resp[0].cancel, "its task is to end"
    assert not fenced.begin(assignment, late).granted
    other = world.process("b", "tierer-2")
    again = other.get()
    assert again.tiering_epoch > assignment.tiering_epoch
    other.run(again)
    assert world.record().lake.offsets == {"0": 10, "1": 0}


def test_each_table_of_a_fenced_tierer_gets_a_round_of_its_own() -> None:
    world = World(tables=(log_table(1), log_table(2, TablePath("sales", "clicks"))))
    world.due()
    tierer = world.process("a")
    tierer.get()
    tierer.get()
    assert fence(world) == 2
    rounds = {record.round.round_id for record in world.coordinator.table_records.live() if record.round is not None}
    assert len(rounds) == 2, "one id for two rounds: the grant of one would replace that of the other"


def test_a_granted_commit_that_landed_counts_and_is_not_made_twice(world: World) -> None:
    world.append()
    world.due()
    fenced = world.process("a")
    assignment = fenced.get()
    fenced.commit(assignment)  # granted and in the lake, not acked
    view = world.lake.view(world.table.path)
    assert fence(world) == 1
    other = world.process("b", "tierer-2")
    again = other.get()
    assert again.round_id != assignment.round_id
    fenced.ack(assignment)  # late: makes the coordinator look, which believes the lake alone
    other.plan(again)
    request = other.prepare(again)
    assert request.marker.base_round_id == assignment.round_id
    assert not request.ranges, "every row is there already"
    assert world.lake.view(world.table.path) == view
    assert len(world.lake.rows(world.table.path)) == 1


def test_a_granted_commit_that_comes_late_meets_the_compare_and_set(world: World) -> None:
    world.append()
    world.due()
    fenced = world.process("a")
    assignment = fenced.get()
    fenced.plan(assignment)
    late = fenced.prepare(assignment)
    assert fenced.begin(assignment, late).granted
    assert fence(world) == 1
    other = world.process("b", "tierer-2")
    other.run(other.get())
    rows = world.lake.rows(world.table.path)
    assert not world.lake.receive(late)
    assert world.lake.rows(world.table.path) == rows


def test_an_acked_round_is_a_success_though_its_tierer_is_fenced(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.commit(assignment)
    tierer.ack(assignment)
    assert fence(world) == 1
    assert world.store.round(assignment.round_id).state is RoundState.SUCCEEDED  # type: ignore[union-attr]
    assert world.state() == "Scheduled"


def test_the_process_stays_fenced_after_a_long_silence_and_a_new_one_of_its_id_works(world: World) -> None:
    world.append()
    hung = world.process("a")
    hung.beat()
    assert fence(world) == 0
    assert not world.coordinator.heartbeats.tierers.connected(world.coordinator.table_records.now())
    world.later(3_600)
    assert world.coordinator.heartbeats.tierers.all() == []
    assert states(world) == [TiererState.LOST]
    assert not hung.beat(request=True).HasField("tiering_table")
    assert states(world) == [TiererState.FENCED]
    started_anew = world.process("b")
    started_anew.run(started_anew.get())
    assert world.record().lake.offsets == {"0": 10, "1": 0}


def test_a_process_that_this_coordinator_never_heard_of_is_fenced_by_its_round(world: World) -> None:
    world.append()
    world.due()
    process = world.process("a")
    process.get()
    world.restart()
    assert fence(world) == 1
    assert not process.beat(request=True).HasField("tiering_table")
    assert world.state() == "Pending"


def test_a_hung_process_stays_fenced_when_the_coordinator_starts_anew(world: World) -> None:
    """The fence is stored with its effect: the process wakes up to another coordinator, which assigns no table to it."""
    world.append()
    world.due()
    hung = world.process("a")
    hung.get()
    assert fence(world) == 1
    world.crash()
    assert not hung.beat(request=True).HasField("tiering_table")
    assert states(world) == [TiererState.FENCED]
    world.restart()
    assert not hung.beat(request=True).HasField("tiering_table")
    [event] = [event for event in world.store.events() if event.event_type == "TIERER_FENCED"]
    assert "a" not in event.details["processes"], "no user sees the secret of a process"
    started_anew = world.process("b")
    started_anew.run(started_anew.get())
    assert world.record().lake.offsets == {"0": 10, "1": 0}


def test_a_held_request_of_a_fenced_process_gets_no_table_and_is_not_tried_again(world: World) -> None:
    tierer = world.process("a")
    _, hold = world.coordinator.heartbeats.handle(tierer.message(request=True, max_wait_ms=5_000))
    assert hold is not None
    fence(world)
    world.append()
    world.due()
    assert world.coordinator.table_records.work_waits()
    answer = world.coordinator.heartbeats.try_again(hold)
    assert answer is None or not answer.HasField("tiering_table")
    _, hold = world.coordinator.heartbeats.handle(tierer.message(request=True, max_wait_ms=5_000))
    assert hold is not None
    assert not world.coordinator.heartbeats.worth_trying(hold)


def test_a_dry_run_counts_and_an_unknown_id_is_said(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    assert fence(world, dry_run=True) == 1
    assert (world.state(), states(world)) == ("Tiering", [TiererState.ACTIVE])
    tierer.run(assignment)
    with pytest.raises(InvalidArgument, match="there is no tierer 'nobody'"):
        fence(world, "nobody")
    assert fence(world, idempotency_key="k") == 0
    world.restart()
    tick(world.coordinator)
    assert fence(world, idempotency_key="k") == 0, "the stored answer, though the tierer is not known any more"
