"""Partitions with numbers of buckets of their own, as `ALTER TABLE ... SET ('bucket.num' = ...)` makes them in Fluss 1.0."""

from __future__ import annotations

import asyncio

import pyarrow as pa

from support.background import tick
from support.scripted.cluster import ScriptedTable
from support.scripted.world import ScriptedFlussWorld
from support.worlds.validated import check, faults
from tiering.errors import InvalidArgument
from tiering.lake.rules.hints import tier_call
from tiering.model.reading.conditions import Filter, Operator
from tiering.model.rounds import RoundState
from tiering.model.tables import BucketKey
from tiering.procedures.explain_tiering import ExplainTiering

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("region", pa.string())])


def _write(world: ScriptedFlussWorld, table: ScriptedTable, region: str, buckets: int, start: int) -> None:
    """Two rows into each bucket of a partition; each id is written once."""
    (partition_id,) = (part.partition_id for part in table.partitions.values() if part.name == region)
    for bucket_id in range(buckets):
        first = start + 2 * bucket_id
        rows = pa.RecordBatch.from_pydict({"id": [first, first + 1], "region": [region] * 2}, schema=SCHEMA)
        world.fluss.append(table, rows, BucketKey(partition_id, bucket_id))


def test_every_bucket_of_each_partition_is_tiered_and_read_also_after_an_upgrade(world: ScriptedFlussWorld) -> None:
    regions, info = world.create("regions", SCHEMA, buckets=2, partition_keys=["region"])
    old = world.fluss.add_partition(regions, "old")
    _write(world, regions, "old", 2, 0)
    assert world.tier(info).error is None
    assert set(world.fluss.routed) == {None}
    world.fluss.upgrade()
    world.fluss.change_buckets(regions, 4)
    new = world.fluss.add_partition(regions, "new")
    world.fluss.routed.clear()
    _write(world, regions, "old", 2, 100)
    _write(world, regions, "new", 4, 200)
    assert world.fresh_ids(info) == [*range(4), *range(100, 104), *range(200, 208)]
    assert world.fluss.misrouted > 0, "leaders that are known from before the upgrade have no number of buckets"
    misrouted = world.fluss.misrouted
    assert world.tier(info).error is None
    assert world.fluss.misrouted == misrouted
    assert world.lake_ids(info) == [*range(4), *range(100, 104), *range(200, 208)]
    assert set(world.fluss.routed) == {2, 4}
    assert world.fluss.recorded(regions) == {
        **{BucketKey(old.partition_id, bucket): 4 for bucket in range(2)},
        **{BucketKey(new.partition_id, bucket): 2 for bucket in range(4)},
    }
    shown = [(bucket.partition_name, bucket.bucket_id, bucket.lake_offset) for bucket in world.coordinator.view().buckets()]
    assert sorted(shown) == [*(("new", bucket, 2) for bucket in range(4)), *(("old", bucket, 4) for bucket in range(2))]
    assert faults(check(world, info)) == []
    assert world.tier(info).state is RoundState.EMPTY


def test_fewer_buckets_of_a_later_partition_are_all_that_is_asked_for(world: ScriptedFlussWorld) -> None:
    world.fluss.upgrade()
    regions, info = world.create("regions", SCHEMA, buckets=4, partition_keys=["region"])
    world.fluss.add_partition(regions, "old")
    world.fluss.change_buckets(regions, 1)
    world.fluss.add_partition(regions, "new")
    _write(world, regions, "old", 4, 0)
    _write(world, regions, "new", 1, 100)
    assert world.tier(info).error is None
    assert world.lake_ids(info) == [*range(8), 100, 101]


def test_a_number_that_the_list_of_partitions_lacks_comes_from_metadata(world: ScriptedFlussWorld) -> None:
    """A partition that was created before the upgrade may have no number of its own in the list."""
    world.fluss.upgrade()
    world.fluss.lists_bucket_counts = False
    regions, info = world.create("regions", SCHEMA, buckets=2, partition_keys=["region"])
    world.fluss.add_partition(regions, "old")
    world.fluss.change_buckets(regions, 3)
    world.fluss.add_partition(regions, "new")
    _write(world, regions, "old", 2, 0)
    _write(world, regions, "new", 3, 100)
    assert world.tier(info).error is None
    assert world.lake_ids(info) == [*range(4), *range(100, 106)]
    assert [partition.bucket_count for partition in world.storage.partitions(info)] == [2, 3]


def test_a_table_whose_lake_rows_have_their_buckets_by_a_key_waits_with_the_way_back(world: ScriptedFlussWorld) -> None:
    world.fluss.upgrade()
    keyed, info = world.create("keyed", SCHEMA, buckets=2, partition_keys=["region"], bucket_keys=["id"])
    others, other_info = world.create("others", SCHEMA)
    world.fluss.add_partition(keyed, "old")
    world.fluss.change_buckets(keyed, 3)
    tick(world.coordinator)
    world.fluss.append(others, pa.RecordBatch.from_pydict({"id": [1], "region": ["x"]}, schema=SCHEMA))
    outcomes = world.outcomes()
    assert outcomes[other_info.table_id] is None
    error = outcomes[info.table_id]
    assert isinstance(error, InvalidArgument)
    assert error.message.startswith("the partition 'old' of sales.keyed has 2 buckets, but the table has 3")
    assert "'bucket.num' of the table back to 2" in error.hint
    assert tier_call(info.path) in error.hint
    lines = asyncio.run(world.coordinator.control.perform(ExplainTiering(info.path, caller="ann")))
    assert any(error.message in line.reason for line in lines)
    world.fluss.change_buckets(keyed, 2)
    assert world.outcomes()[info.table_id] is None


def test_a_condition_on_a_key_hides_no_row_where_partitions_differ(world: ScriptedFlussWorld) -> None:
    world.fluss.upgrade()
    keyed, info = world.create("keyed", SCHEMA, buckets=8, partition_keys=["region"], bucket_keys=["id"])
    world.fluss.add_partition(keyed, "old")
    world.fluss.change_buckets(keyed, 2)
    _write(world, keyed, "old", 8, 0)
    tick(world.coordinator)
    for number in range(16):
        assert number in world.fresh_ids(info, Filter("id", Operator.EQUAL, (number,)))
