"""Upkeep where the cluster assigns tables: only in a turn of ours, after its tiering round, and for a short time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.clusters.assigner import Assigner
from support.upkeep.upkeep_world import UpkeepWorld, run_upkeep, upkept_table
from support.worlds.coordinator_world import HandTierer
from tiering.coordinator.decisions.upkeep.schedule import LONGEST_TURN_MS
from tiering.model.rounds import RoundState

FRESHNESS_MS = 200_000
TURN = min(LONGEST_TURN_MS, FRESHNESS_MS / 10) / 1_000


@pytest.fixture
def world() -> Iterator[UpkeepWorld]:
    world = UpkeepWorld(tables=(upkept_table(freshness_ms=FRESHNESS_MS),), assigner=Assigner(), rows=10)
    yield world
    world.coordinator.close()


@pytest.fixture
def tierer(world: UpkeepWorld) -> HandTierer:
    """A tierer that has tiered the table once, in a turn that is over."""
    tierer = world.tierer()
    a_turn(world, tierer)
    world.later(1)
    assert not world.record().has_turn
    return tierer


def a_turn(world: UpkeepWorld, tierer: HandTierer) -> None:
    """The cluster assigns the table, and its tiering round goes well."""
    assert world.assigner is not None
    tierer.beat(request=True)
    world.assigner.due(world.table)
    world.later(1)
    world.append(5)
    tierer.run(tierer.get())


def test_a_table_that_is_not_assigned_to_us_gets_no_upkeep(world: UpkeepWorld, tierer: HandTierer) -> None:
    world.degrade()
    assert not tierer.beat(request=True).HasField("tiering_table")
    explanation = world.coordinator.upkeep.explain(world.record(), tierer_connected=True)
    assert explanation.waits_for == "the cluster has not assigned the table to this service"


def test_upkeep_follows_the_tiering_round_in_the_same_turn_and_ends_it(world: UpkeepWorld, tierer: HandTierer) -> None:
    world.degrade()
    a_turn(world, tierer)
    world.later(1)
    assert world.record().has_turn
    info = tierer.get()
    assert info.HasField("upkeep")
    run_upkeep(tierer, info)
    world.later(1)
    assert not world.record().has_turn
    assert world.stored(info.round_id).state is RoundState.SUCCEEDED


def test_a_turn_is_not_kept_for_a_table_that_needs_no_upkeep(world: UpkeepWorld, tierer: HandTierer) -> None:
    a_turn(world, tierer)
    world.later(1)
    assert not world.record().has_turn


def test_a_turn_for_which_no_slot_is_free_ends(world: UpkeepWorld, tierer: HandTierer) -> None:
    world.degrade()
    a_turn(world, tierer)
    world.later(TURN - 1)
    assert world.record().has_turn
    world.later(1)
    world.later(0.2)
    assert not world.record().has_turn
    assert world.state() == "Scheduled"


def test_an_upkeep_round_ends_with_the_turn(world: UpkeepWorld, tierer: HandTierer) -> None:
    world.degrade()
    a_turn(world, tierer)
    info = tierer.get()
    world.later(TURN - 1)
    assert world.state() == "Tiering"
    world.later(1)
    world.later(0.2)
    assert (world.state(), world.record().has_turn) == ("Scheduled", False)
    assert world.stored(info.round_id).state is RoundState.CANCELLED


def test_a_lost_turn_fences_an_upkeep_round(world: UpkeepWorld, tierer: HandTierer) -> None:
    assert world.assigner is not None
    world.degrade()
    a_turn(world, tierer)
    info = tierer.get()
    world.assigner.break_connection()
    world.later(1)
    assert world.stored(info.round_id).state is RoundState.FENCED
    assert (world.state(), world.record().error, world.record().consecutive_fences) == ("Scheduled", None, 0)


def test_a_granted_upkeep_commit_without_an_ack_keeps_the_turn_until_it_is_resolved(world: UpkeepWorld, tierer: HandTierer) -> None:
    world.degrade()
    a_turn(world, tierer)
    info = tierer.get()
    tierer.plan(info)
    assert tierer.begin(info, tierer.prepare(info, ())).granted
    tierer.fail(info)
    world.later(60)
    assert (world.state(), world.record().has_turn) == ("Pending", True)
    world.append(5)
    tierer.run(tierer.get())
    world.later(60)
    assert not world.record().unresolved_commit
