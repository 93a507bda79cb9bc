"""The hazards of docs/fluss-facts.md on a real 0.9.1 server, each with what keeps us from harm. Of H3 and H4: tests of the relay."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.flink.flink_committer import FlinkFailed
from support.flink.fluss_lake_world import FlussLakeWorld
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.coordinator.decisions.round_lifecycle import RoundRef
from tiering.model.assignments import ServiceMode
from tiering.model.rounds import RoundState
from tiering.model.tables import TableInfo
from tiering.procedures.tier_table import TierTable, TierTableResult
from tiering.round.steps import actions as act


@pytest.fixture
def world(fluss: LocalFlussCluster, tmp_path: Path) -> Iterator[FlussLakeWorld]:
    """This deployment is the only tiering service."""
    world = FlussLakeWorld(tmp_path, fluss.bootstrap_servers, ServiceMode.EXCLUSIVE)
    yield world
    world.close()


def tiered(world: FlussLakeWorld, name: str) -> TableInfo:
    table = world.table(name)
    world.append(table, 0, 50)
    assert world.tier(table).state is RoundState.SUCCEEDED
    return table


def test_h1_an_ack_that_is_repeated_deletes_no_live_offsets_file(world: FlussLakeWorld) -> None:
    table = tiered(world, "h1")
    world.append(table, 50, 10)
    world.due()
    last_round = world.begin(table).advance_to(act.Ack)
    assignment = last_round.assignment
    ref = RoundRef(table.table_id, assignment.coordinator_epoch, assignment.tiering_epoch, assignment.round_id, "tierer-1", None)
    for _ in range(3):  # the answers are lost
        world.coordinator.commits.acknowledge(ref)
    assert last_round.end().error is None
    world.assert_told(table)
    # Another service does the same: after the second notification the file is gone, and Fluss has no lake record of the table any more.
    world.append(table, 60, 10)
    other = world.flink(table).assign().plan().check().prepare().append().tell().tell()
    assert not world.is_readable(table)
    with pytest.raises(FlinkFailed):
        other.plan()
    other.fail()


def test_h2_what_fluss_does_not_fence_the_lake_does(world: FlussLakeWorld) -> None:
    """A round of ours that slept is refused by the lake commit's compare-and-set, and Fluss is never told of it."""
    table = tiered(world, "h2")
    world.append(table, 50, 50)
    world.due()
    sleeper = world.begin(table).advance_to(act.CommitLake)
    world.take_for_dead()
    assert world.tier(table).state is RoundState.SUCCEEDED
    recorded = world.fluss_record(table)
    assert sleeper.runner.run().state is not RoundState.SUCCEEDED
    world.assert_exact(table)
    world.assert_told(table)
    assert world.fluss_record(table) == recorded


def test_h2_another_service_beside_one_that_is_to_be_alone_is_named(world: FlussLakeWorld) -> None:
    table = tiered(world, "h2_foreign")
    world.append(table, 50, 50)
    world.flink(table).whole()
    outcome = world.tier(table)
    assert outcome.error is not None
    assert (outcome.error.error_class, outcome.error.retryable) == ("ForeignTiering", False)
    assert "__fluss_lake_tiering" in outcome.error.message


def test_h5_a_call_runs_at_once_though_fluss_has_no_way_to_make_a_table_due(world: FlussLakeWorld) -> None:
    table = world.table("h5", freshness="1h")
    world.append(table, 0, 50)
    assert not world.is_due_in_fluss(table)

    async def call() -> TierTableResult:
        async for step in world.coordinator.control.perform_with_progress(TierTable(table.path, caller="alice", wait=False)):
            if isinstance(step, TierTableResult):
                return step
        raise AssertionError("the call ended without a result")

    queued = asyncio.run(call())
    round_of_call = world.begin(table)
    assert round_of_call.assignment.round_id == queued.round_id
    assert round_of_call.end().state is RoundState.SUCCEEDED
    world.assert_exact(table)
    world.assert_told(table)
