"""A view of a folder without a coordinator shows the coordinator's last state."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from support.background import tick
from support.operators import pause, resume
from support.running.processes import wait_for
from support.worlds.data_folders import FolderWorld, create
from support.worlds.lake_world import LakeWorld
from tiering.cli.processes.data_folder import DataFolder
from tiering.cluster.embedded.stored_cluster import ReadOnlyEmbeddedCluster
from tiering.coordinator.memory.sql_store import SqlStore
from tiering.coordinator.status.live_view import View
from tiering.coordinator.status.offline_view import offline_view
from tiering.errors import SetupError, StoreError
from tiering.model.status import TableStatus
from tiering.model.tables import TableInfo, TablePath

ONLY_WHILE_IT_RUNS = {"heartbeat_time", "status_reason"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[FolderWorld]:
    folder_world = FolderWorld(tmp_path / "data")
    yield folder_world
    folder_world.close()


class Look:
    """A look at the world's folder, beside its coordinator."""

    def __init__(self, world: FolderWorld) -> None:
        self.store = SqlStore.for_reading(world.folder.root / "coordinator.db")
        self.cluster = ReadOnlyEmbeddedCluster(world.folder.cluster)
        self.view: View = offline_view(self.store, self.cluster, world.clock)

    def __enter__(self) -> View:
        return self.view

    def __exit__(self, *_: object) -> None:
        self.cluster.close()
        self.store.close()


def wait_until_measured(world: LakeWorld, table: TableInfo) -> None:
    """The coordinator looks at the lake table in the background, and writes down what it sees."""
    wait_for(f"{table.path} is measured", lambda: world.record(table).lake.location)


def in_states(world: LakeWorld) -> list[TableInfo]:
    """Tables at rest, waiting, being tiered, and paused."""
    rested = create(world, TablePath("sales", "a_rested"), 2, freshness="1 h")
    world.append(rested, 0, 20)
    world.clock.advance(3_601)
    tick(world.coordinator)
    world.begin(rested).end()
    wait_until_measured(world, rested)
    waiting, running, paused = (world.table(name) for name in ("b_waiting", "c_running", "d_paused"))
    for table in (waiting, paused):
        pause(world.coordinator, table.path, "ann", "a move")
    world.append(waiting, 0, 10)
    world.due()
    world.begin(running)
    resume(world.coordinator, waiting.path, "ann")
    tick(world.coordinator)
    return [rested, waiting, running, paused]


def test_statuses_are_those_of_the_coordinator_but_for_what_only_it_knows(world: FolderWorld) -> None:
    in_states(world)
    live = [asdict(status) for status in world.coordinator.view().table_statuses()]
    with Look(world) as view:
        offline = [asdict(status) for status in view.table_statuses()]
        by_column = {name: view.status_columns().column(name).to_pylist() for name in TableStatus.__dataclass_fields__}
    for live_status, offline_status in zip(live, offline, strict=True):
        assert {name for name in live_status if live_status[name] != offline_status[name]} <= ONLY_WHILE_IT_RUNS
    assert [status["heartbeat_time"] for status in offline] == [None] * 4
    assert {name: [status[name] for status in offline] for name in by_column} == by_column


def test_reasons_do_not_count_down_and_do_not_say_that_a_tierer_runs(world: FolderWorld) -> None:
    in_states(world)
    with Look(world) as view:
        reasons = [status.status_reason or "" for status in view.table_statuses()]
    assert [reason.split(" at ")[0] for reason in reasons] == [
        "the next check is due",
        "waits for a tierer",
        "was handed to the tierer tierer-1",
        "paused by ann: a move",
    ]


def test_tables_partitions_and_places_are_known(world: FolderWorld) -> None:
    table = world.table("orders")
    world.append(table, 0, 10)
    world.tier(table)
    wait_until_measured(world, table)
    with Look(world) as view:
        assert (view.databases(), [info.path for info in view.tables("sales")]) == (["sales"], [table.path])
        assert view.lake_location(table.table_id) == world.view(table).location
        assert (view.leases(), view.validations(), view.open_calls()) == ([], [], ())


def test_nothing_is_written(world: FolderWorld) -> None:
    store = SqlStore.for_reading(world.folder.root / "coordinator.db")
    with pytest.raises(StoreError, match="readonly"):
        store.take_over()
    store.close()


def test_a_store_that_a_newer_version_wrote_is_refused(world: FolderWorld) -> None:
    file = world.folder.root / "coordinator.db"
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE lakeward_owner SET version = 99")
    with pytest.raises(SetupError, match="the state store has version 99; this Lakeward knows versions up to"):
        SqlStore.for_reading(file)


def test_a_store_without_a_table_of_this_version_asks_for_an_upgrade(world: FolderWorld) -> None:
    file = world.folder.root / "coordinator.db"
    with sqlite3.connect(file) as connection:
        connection.execute("DROP TABLE lakeward_validations")
    with pytest.raises(SetupError, match="older version") as raised:
        SqlStore.for_reading(file)
    assert "lakeward up" in raised.value.hint


def test_no_store_and_no_database_are_told_apart(tmp_path: Path) -> None:
    file = DataFolder(tmp_path).root / "coordinator.db"
    with pytest.raises(SetupError, match="holds no state store"):
        SqlStore.for_reading(file)
    assert not file.exists()
    file.write_bytes(b"this is no database" * 100)
    with pytest.raises(SetupError, match="cannot read the state store"):
        SqlStore.for_reading(file)
