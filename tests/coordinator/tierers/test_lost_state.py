"""The store is emptied, or set back, under tierers that work on: epochs go on above what these name, and made-up numbers do no harm."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.worlds.coordinator_world import HandTierer, World
from support.worlds.memory_store import MemoryStore
from tiering.coordinator.decisions.round_lifecycle import MOST_ROUNDS, STATE_LOST
from tiering.coordinator.tierers.named_epochs import MOST_COORDINATORS
from tiering.errors import Fenced
from tiering.rpc.v1 import coordinator_pb2 as pb

ROUNDS = 3
FORMER_COORDINATOR = 40


def asleep(world: World) -> tuple[HandTierer, pb.PbLakeTieringTableInfo]:
    """A tierer in the middle of a round, after others, whose coordinator has lost its store since."""
    for _ in range(ROUNDS):
        world.append()
        tierer, info = world.assigned()
        tierer.run(info)
    world.append()
    sleeper, info = world.assigned()
    sleeper.epoch = FORMER_COORDINATOR
    world.store = MemoryStore()
    world.crash()
    assert (world.state(), world.record().tiering_epoch) == ("Pending", 1), "its freshness is over for a new store"
    return sleeper, info


def lost_events(world: World) -> list[str | None]:
    """The tables of the events that say so; None = of the coordinator."""
    return [event.table_name for event in world.store.events() if event.event_type == STATE_LOST]


def forged(world: World, coordinator_epoch: int, tiering_epoch: int) -> pb.LakeTieringHeartbeatResponse:
    """Returns the answer to a caller that invents a round of the table."""
    tierer = world.tierer("somebody")
    tierer.epoch = coordinator_epoch
    tierer.running["made-up"] = pb.PbLakeTieringTableInfo(table_id=world.table.table_id, tiering_epoch=tiering_epoch, round_id="made-up")
    return tierer.beat()


def plan(sleeper: HandTierer, info: pb.PbLakeTieringTableInfo) -> None:
    with pytest.raises(Fenced):
        sleeper.plan(info)


def begin(sleeper: HandTierer, info: pb.PbLakeTieringTableInfo) -> None:
    assert not sleeper.begin(info, sleeper.prepare(info)).granted


def ack(sleeper: HandTierer, info: pb.PbLakeTieringTableInfo) -> None:
    with pytest.raises(Fenced):
        sleeper.ack(info)


def beat(sleeper: HandTierer, _: pb.PbLakeTieringTableInfo) -> None:
    [answer] = sleeper.beat().tiering_table_resp
    assert answer.cancel


def finish(sleeper: HandTierer, info: pb.PbLakeTieringTableInfo) -> None:
    [answer] = sleeper.finish(info).finished_table_resp
    assert answer.HasField("error")


@pytest.mark.parametrize("message", [beat, finish, plan, begin, ack])
def test_whatever_names_higher_epochs_is_refused_and_all_that_follows_is_above(
    world: World, message: Callable[[HandTierer, pb.PbLakeTieringTableInfo], None]
) -> None:
    sleeper, info = asleep(world)
    message(sleeper, info)
    assert world.record().named_epoch == info.tiering_epoch == ROUNDS + 1
    world.crash()  # what was named is in the store
    assert world.coordinator.table_records.epoch > FORMER_COORDINATOR
    tierer, following = world.assigned()
    assert following.tiering_epoch > info.tiering_epoch
    tierer.run(following)
    assert sorted(lost_events(world), key=str) == [None, world.table.path.table_name]


def test_a_round_that_is_queued_is_queued_anew_in_its_place(world: World) -> None:
    sleeper, info = asleep(world)
    queued = world.record()
    sleeper.beat()
    anew = world.record()
    assert queued.round is not None
    assert anew.round is not None
    assert (world.state(), anew.tiering_epoch, anew.round.tiering_epoch) == ("Pending", info.tiering_epoch + 1, info.tiering_epoch + 1)
    assert anew.round.round_id != queued.round.round_id
    assert anew.pending_since == queued.pending_since
    tierer = world.tierer("other")
    tierer.run(tierer.get())


def test_a_forged_number_ends_no_round(world: World) -> None:
    world.append()
    tierer, info = world.assigned()
    forged(world, 0, 1_000_000)
    tierer.run(info)
    assert world.record().last_tiered_time is not None
    world.append()
    _, following = world.assigned()
    assert following.tiering_epoch == 1_000_001


@pytest.mark.parametrize("absurd", [-1, MOST_ROUNDS + 1, 2**63 - 1])
def test_an_absurd_epoch_is_not_believed(world: World, absurd: int) -> None:
    forged(world, min(max(absurd, MOST_COORDINATORS + 1), 2**31 - 1), absurd)
    assert world.record().highest_epoch == 0
    assert world.coordinator.table_records.epoch == 1
    assert lost_events(world) == []


def test_the_highest_epochs_that_are_believed_leave_room_for_more(world: World) -> None:
    for _ in range(3):
        forged(world, MOST_COORDINATORS, MOST_ROUNDS)
        tierer, info = world.assigned()
        tierer.finish(info, empty=True)
        world.restart()
    assert MOST_ROUNDS < info.tiering_epoch < MOST_ROUNDS + 10
    assert MOST_COORDINATORS < world.coordinator.table_records.epoch < 2 * MOST_COORDINATORS
    assert len(lost_events(world)) == 2, "once of the table, once of the coordinator"


def test_a_coordinator_that_had_the_same_epoch_before_is_told_apart(world: World) -> None:
    sleeper, info = asleep(world)
    sleeper.epoch = world.coordinator.table_records.epoch
    former = sleeper.epoch
    beat(sleeper, info)
    assert world.coordinator.table_records.epoch > former


def test_a_repeated_name_is_noted_once(world: World) -> None:
    for named in (5, 5, 6, 4):
        forged(world, 0, named)
    assert world.record().highest_epoch == 6
    assert lost_events(world) == [world.table.path.table_name]
