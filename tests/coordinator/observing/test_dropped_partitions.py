"""Events of a dropped partition have its name, its id, and the number of its records that never reached the lake."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from support.background import tick
from support.clusters.memory_cluster import MemoryCluster, log_table
from support.worlds.coordinator_world import World
from support.worlds.lake_world import LakeWorld
from tiering.coordinator.decisions.change import Change
from tiering.coordinator.decisions.records import EventRecord
from tiering.coordinator.observing.dropped_partitions import PARTITION_DROPPED
from tiering.model.tables import BucketKey, Partition, TableInfo

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("day", pa.string(), nullable=False)])


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LakeWorld]:
    lake_world = LakeWorld(tmp_path)
    yield lake_world
    lake_world.close()


@pytest.fixture
def table(world: LakeWorld) -> TableInfo:
    """Ten rows of one day are in the lake."""
    visits = world.table("visits", 2, ("day",), SCHEMA)
    append(world, visits, 0, 10)
    world.tier(visits)
    return visits


def append(world: LakeWorld, table: TableInfo, first: int, count: int) -> None:
    rows = pa.table({"id": range(first, first + count), "day": ["d0"] * count}, schema=SCHEMA)
    world.storage.append(table.path, rows, f"writer-{first}", 0)


def observe(world: LakeWorld | World) -> None:
    """One pass of the background."""
    tick(world.coordinator)
    world.coordinator.observer.observe_all()


def drops(world: LakeWorld | World) -> list[EventRecord]:
    return [event for event in world.store.events() if event.event_type == PARTITION_DROPPED]


def test_records_that_never_reached_the_lake_are_counted(world: LakeWorld, table: TableInfo) -> None:
    append(world, table, 10, 7)
    [partition] = world.storage.partitions(table)
    world.storage.drop_partition(table.path, "d0")  # the seven rows were not observed before
    observe(world)
    [event] = drops(world)
    assert (event.level.name, event.table_name) == ("WARN", "visits")
    assert event.message == f"the partition 'd0' (id {partition.partition_id}) was dropped with 7 records that had not reached the lake"
    expected = {"partition_name": "d0", "partition_id": partition.partition_id, "untiered_records": 7}
    assert expected.items() <= event.details.items()
    observe(world)
    world.restart()
    observe(world)
    assert len(drops(world)) == 1, "each drop is reported once"


def test_a_drop_is_reported_though_no_coordinator_ran(world: LakeWorld, table: TableInfo) -> None:
    append(world, table, 10, 7)
    world.coordinator.close()
    world.storage.drop_partition(table.path, "d0")
    world.storage.close()
    world.reopen()
    observe(world)
    assert [event.details["untiered_records"] for event in drops(world)] == [7]


def test_a_partition_all_of_whose_records_are_in_the_lake_is_no_warning(world: LakeWorld, table: TableInfo) -> None:
    world.storage.drop_partition(table.path, "d0")
    observe(world)
    [event] = drops(world)
    assert (event.level.name, event.details["untiered_records"]) == ("INFO", 0)
    assert event.message.endswith("was dropped; all of its records had reached the lake")


def test_a_partition_that_was_recreated_at_once_is_reported(world: LakeWorld, table: TableInfo) -> None:
    append(world, table, 10, 7)
    world.storage.drop_partition(table.path, "d0")
    append(world, table, 20, 1)
    world.storage.drop_partition(table.path, "d0")
    append(world, table, 30, 2)
    observe(world)
    assert [event.details["untiered_records"] for event in reversed(drops(world))] == [7, 1]


class Partitioned(MemoryCluster):
    """A cluster that keeps nothing of a dropped partition, as Fluss."""

    def partitions(self, table: TableInfo) -> Sequence[Partition]:
        ids = sorted({bucket.partition_id for bucket in self.logs[table.table_id] if bucket.partition_id is not None})
        return [Partition(number, f"p{number}") for number in ids]


def test_a_drop_while_no_coordinator_ran_is_reported_once_by_what_the_store_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("support.worlds.coordinator_world.MemoryCluster", Partitioned)
    table = replace(log_table(), partition_keys=("region",))
    world = World((table,))
    logs = world.cluster.logs[table.table_id] = {BucketKey(7, 0): (0, 5), BucketKey(8, 0): (0, 3)}
    observe(world)
    records = world.coordinator.table_records
    with records.changing():
        record = world.record(table)
        records.put(Change(record).update(lake=replace(record.lake, offsets={"7/0": 4, "8/0": 3})))
    world.coordinator.close()
    del logs[BucketKey(7, 0)]
    logs[BucketKey(9, 0)] = (0, 1)
    for _ in range(3):
        world.restart()
        observe(world)
    [lost] = drops(world)
    assert (lost.level.name, lost.details["partition_id"], lost.details["untiered_records"]) == ("WARN", 7, None)
    assert lost.message == "the partition (id 7) was dropped; how many of its records never reached the lake is unknown"
    del logs[BucketKey(8, 0)]
    world.clock.advance(5)
    observe(world)
    assert drops(world)[0].details["observed_untiered_records"] == 0
    world.restart()
    observe(world)
    assert len(drops(world)) == 2, "one that this coordinator saw is not reported again either"
    world.coordinator.close()


def test_of_another_cluster_the_number_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("support.worlds.coordinator_world.MemoryCluster", Partitioned)
    table = replace(log_table(), partition_keys=("region",))
    world = World((table,))
    logs = world.cluster.logs[table.table_id] = {BucketKey(7, 0): (0, 5), BucketKey(8, 0): (0, 0), BucketKey(9, 0): (0, 3)}
    observe(world)
    assert not drops(world)
    del logs[BucketKey(7, 0)], logs[BucketKey(8, 0)]
    logs[BucketKey(10, 0)] = (0, 1)
    world.clock.advance(5)
    observe(world)
    lost, empty = reversed(drops(world))
    assert (lost.level.name, lost.details["untiered_records"], lost.details["observed_untiered_records"]) == ("WARN", None, 5)
    assert lost.message == (
        "the partition 'p7' (id 7) was dropped; how many of its records never reached the lake is unknown, the last observation showed "
        "5 records that had not reached the lake"
    )
    assert (empty.level.name, empty.details["observed_untiered_records"]) == ("INFO", 0)
    observe(world)
    assert len(drops(world)) == 2
    world.coordinator.close()
