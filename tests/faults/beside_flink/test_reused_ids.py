"""Paimon uses a snapshot's id again after a roll-back: what the cluster recorded of the former one is not taken for the present one's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.flink.flink_on_iceberg import flink_on, share
from support.lake_kinds.kinds import PAIMON, PAIMON_CLEAN
from support.on_call import call
from support.worlds.lake_world import LakeWorld
from support.worlds.validated import check, faults
from tiering.model.rounds import RecordedLakeSnapshot, RoundState
from tiering.model.tables import TableInfo


@pytest.fixture(params=[PAIMON, PAIMON_CLEAN], ids=lambda kind: kind.layout.value)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LakeWorld]:
    world = LakeWorld(tmp_path, kind=request.param)
    share(world)
    yield world
    world.close()


def tiered(world: LakeWorld) -> TableInfo:
    """The first snapshot has 50 rows and is ours."""
    table = world.table("orders")
    world.append(table, 0, 50)
    assert world.tier(table).state is RoundState.SUCCEEDED
    return table


def assert_told(world: LakeWorld, table: TableInfo, end: int) -> None:
    """The cluster names the head with the end that it has in each bucket."""
    recorded = world.storage.lake_snapshot(table)
    assert recorded is not None
    assert (recorded.lake_snapshot_id, set(recorded.offsets.values())) == (world.view(table).head, {end})


def test_a_round_of_ours_with_the_id_of_a_rolled_back_one_is_told(world: LakeWorld) -> None:
    """The other one's, which was rolled back, had less rows. Its end would have been where the other service begins next."""
    table = tiered(world)
    world.append(table, 50, 50)
    flink_on(world, table).plan(stop=40).append().tell()
    world.by_hand.roll_back(table.path, 1)
    assert world.tier(table).state is RoundState.SUCCEEDED
    assert world.view(table).head == 2
    assert_told(world, table, 50)
    assert faults(check(world, table)) == []


def test_a_record_of_a_rolled_back_snapshot_is_no_sign_that_rows_of_ours_are_gone(world: LakeWorld) -> None:
    """Our round landed, and the process that had to notify the cluster died: the cluster's record is of an earlier snapshot with this id,
    which had more."""
    table = tiered(world)
    world.append(table, 50, 20)
    assert world.tier(table).state is RoundState.SUCCEEDED
    world.append(table, 70, 30)
    ends = {bucket: log.log_end for bucket, log in world.storage.offsets(table).items()}
    world.storage.rewind_lake_snapshot(table, RecordedLakeSnapshot(2, ends))
    assert world.tier(table).error is None
    assert world.tier(table).error is None
    assert_told(world, table, 50)
    assert sorted(world.by_hand.rows(table.path)["id"].to_pylist()) == list(range(100))


def test_what_takes_the_place_of_rolled_back_rows_is_told_at_once(world: LakeWorld) -> None:
    table = tiered(world)
    world.append(table, 50, 50)
    flink_on(world, table).plan().append().tell()
    assert world.tier(table).state is RoundState.EMPTY
    world.by_hand.roll_back(table.path, 1)
    outcome = world.tier(table)
    assert outcome.error is not None
    assert outcome.error.error_class == "LakeRolledBack"
    call(world.coordinator, "CALL fluss.sys.reconcile_lake('sales.orders', 'retier')")
    assert world.view(table).head == 2
    assert_told(world, table, 25)
    assert world.tier(table).state is RoundState.SUCCEEDED
    assert_told(world, table, 50)
    assert sorted(world.by_hand.rows(table.path)["id"].to_pylist()) == list(range(100))
