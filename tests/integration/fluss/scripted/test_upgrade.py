"""A cluster that is upgraded from Fluss 0.9 to 1.0 while a coordinator and a tierer run on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.background import tick
from support.scripted.world import ScriptedFlussWorld
from support.worlds.validated import check, faults
from tiering.cluster.fluss.wire.api import API_VERSIONS
from tiering.lake.table_options import LAYOUT
from tiering.model.assignments import ServiceMode
from tiering.model.tables import SYSTEM_COLUMNS, TableInfo
from tiering.round.steps import actions as act
from tiering.rpc.v1 import coordinator_pb2 as pb

MakeWorld = Callable[..., ScriptedFlussWorld]


@pytest.fixture
def new_world(tmp_path: Path) -> Iterator[MakeWorld]:
    worlds: list[ScriptedFlussWorld] = []

    def make(mode: ServiceMode, release: str = "0.9") -> ScriptedFlussWorld:
        worlds.append(ScriptedFlussWorld(tmp_path, release, mode))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()


def _has_system_columns(world: ScriptedFlussWorld, table: TableInfo) -> bool:
    return set(SYSTEM_COLUMNS) <= set(world.iceberg(table).schema().column_names)


def test_old_lake_tables_keep_their_columns_and_new_ones_are_clean(new_world: MakeWorld) -> None:
    world = new_world(ServiceMode.EXCLUSIVE)
    old, old_info = world.create("old")
    world.write(old, 0, 10)
    world.tier_all()
    world.write(old, 10, 10)
    handshakes = world.fluss.received.count(API_VERSIONS.key)
    world.due()
    running = world.begin(old_info).advance_to(act.BeginCommit)
    world.fluss.upgrade()
    assert running.end().error is None
    assert world.fluss.received.count(API_VERSIONS.key) > handshakes
    new, new_info = world.create("new")
    kept, kept_info = world.create("kept", properties={LAYOUT.name: "system-columns"})
    for table in (old, new, kept):
        world.write(table, 20, 10)
    world.tier_all()
    assert world.lake_ids(old_info) == list(range(30))
    assert world.lake_ids(new_info) == world.lake_ids(kept_info) == list(range(20, 30))
    assert [_has_system_columns(world, info) for info in (old_info, new_info, kept_info)] == [True, False, True]
    assert [faults(check(world, info)) for info in (old_info, new_info, kept_info)] == [[], [], []]


def test_a_clean_table_of_a_cluster_of_0_9_is_made_only_by_its_option(new_world: MakeWorld) -> None:
    world = new_world(ServiceMode.EXCLUSIVE)
    tables = [world.create("plain"), world.create("clean", properties={LAYOUT.name: "clean"})]
    for table, _ in tables:
        world.write(table, 0, 10)
    world.tier_all()
    assert [_has_system_columns(world, info) for _, info in tables] == [True, False]


def test_a_shared_cluster_assigns_its_tables_again_after_the_upgrade_and_gets_totals(new_world: MakeWorld) -> None:
    world = new_world(ServiceMode.SHARED)
    table, info = world.create("orders")
    world.write(table, 0, 10)
    running = world._stepped(_assigned(world, info)).advance_to(act.BeginCommit)
    world.fluss.upgrade()
    running.end()
    world.take_for_dead()
    assert world._stepped(_assigned(world, info)).end().error is None
    _assigned(world, world.create("later")[1])
    assert world.lake_ids(info) == list(range(10))
    totals = [row.lake_tiering_stats for row in world.fluss.finished if row.table_id == info.table_id]
    lake = world.record(info).lake
    assert (totals[-1].record_count, totals[-1].file_size) == (10, lake.size_bytes)
    assert not any(row.HasField("lake_tiering_stats") for row in world.fluss.failed)


def _assigned(world: ScriptedFlussWorld, table: TableInfo) -> pb.LakeTieringHeartbeatResponse:
    """Returns the answer that assigns the table to our tierer, after Fluss has assigned it to us."""
    world.fluss.due.append(table.path)
    for _ in range(20):
        answer = world.beat(request_table=True)
        if answer.HasField("tiering_table"):
            return answer
        world.clock.advance(1)
        tick(world.coordinator)
    raise AssertionError(f"{table.path} was not assigned")
