"""A heartbeat's reports and its assignment are one write: one sync of the disk; shown when it is stored, or not at all."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from support.clusters.memory_cluster import log_table
from support.worlds.coordinator_world import HandTierer, World
from support.worlds.memory_store import MemoryStore
from tiering.coordinator.memory.store import Writes
from tiering.errors import StoreError
from tiering.model.tables import TablePath
from tiering.rpc.v1 import coordinator_pb2 as pb


class WatchedStore(MemoryStore):
    """Tells what readers see while it writes, and fails when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.world: World | None = None
        self.seen: list[str] = []
        self.failing = False

    def apply(self, coordinator_epoch: int, writes: Writes) -> None:
        if self.world is not None:
            with ThreadPoolExecutor(1) as reader:
                self.seen.append(reader.submit(self.states).result())
        if self.failing:
            raise StoreError("the state store could not write: disk full")
        super().apply(coordinator_epoch, writes)

    def states(self) -> str:
        assert self.world is not None
        return " ".join(self.world.state(table) for table in self.world.tables)


@pytest.fixture
def running() -> tuple[World, WatchedStore, HandTierer, pb.PbLakeTieringTableInfo]:
    """Two tables are due; a tierer runs the round of the first."""
    store = WatchedStore()
    world = World(tables=(log_table(1), log_table(2, TablePath("sales", "other"))), store=store)
    world.due()
    tierer = world.tierer()
    assignment = tierer.get()
    store.world = world
    return world, store, tierer, assignment


def finish_and_ask(tierer: HandTierer, assignment: pb.PbLakeTieringTableInfo) -> pb.LakeTieringHeartbeatResponse:
    return tierer.beat(finished=[tierer.about(assignment, empty=True)], request=True)


def test_the_end_of_a_round_and_the_next_table_are_one_write(
    running: tuple[World, WatchedStore, HandTierer, pb.PbLakeTieringTableInfo],
) -> None:
    world, store, tierer, assignment = running
    answer = finish_and_ask(tierer, assignment)
    assert answer.tiering_table.table_id == 2
    assert store.seen == ["Tiering Pending"]  # as readers saw it until it was stored
    assert store.states() == "Scheduled Tiering"
    world.restart()
    assert store.states() == "Scheduled Tiering"


def test_a_write_that_fails_shows_nothing_of_the_heartbeat_and_its_repeat_does_all(
    running: tuple[World, WatchedStore, HandTierer, pb.PbLakeTieringTableInfo],
) -> None:
    world, store, tierer, assignment = running
    store.failing = True
    with pytest.raises(StoreError):
        finish_and_ask(tierer, assignment)
    assert store.states() == "Tiering Pending"
    store.failing = False
    assert finish_and_ask(tierer, assignment).tiering_table.table_id == 2
    assert store.states() == "Scheduled Tiering"
    assert [record.tiering_epoch for record in world.coordinator.table_records.live()] == [1, 1]
