"""Union reads of primary-key tables whose lake copy other programs changed: their deletes, their files, their partition specs."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from support.fresh.union_reads import planned_read
from support.lake_kinds.kinds import ICEBERG, ICEBERG_CLEAN, in_lakes
from support.lakes.foreign.files import delete_at, delete_equal
from support.worlds.lake_world import LakeWorld
from tiering.errors import LakeUnavailable, SchemaDrift
from tiering.model.reading.conditions import Filter, Operator
from tiering.model.reading.scans import ReadScan
from tiering.model.tables import TableInfo

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int16(), nullable=False),
        pa.field("region", pa.string(), nullable=False),
        pa.field("text", pa.string()),
    ]
)
Row = tuple[int, str, str]


ICEBERG_LAKES = in_lakes(ICEBERG, ICEBERG_CLEAN)
KEYS = pytest.mark.parametrize("key", [("id",), ("region", "id")], ids=["one key", "two keys"])


def table_of(world: LakeWorld, key: tuple[str, ...] = ("id",), partitioned: bool = False) -> TableInfo:
    return world.primary_key_table("accounts", schema=SCHEMA, key=key, partition_keys=("region",) if partitioned else ())


def upsert(world: LakeWorld, table: TableInfo, rows: Sequence[Row]) -> None:
    columns = dict(zip(SCHEMA.names, zip(*rows, strict=True), strict=True))
    world.storage.upsert(table.path, pa.table(columns, schema=SCHEMA), f"writer-{hash(tuple(rows))}", 0)


def rows_of(world: LakeWorld, table: TableInfo) -> list[Row]:
    rows = planned_read(world.storage, lambda _: world.lake, table.path).rows()
    assert rows.schema.field("id").type == pa.int16()
    return sorted(tuple(row.values()) for row in rows.to_pylist())


def rows(ids: Sequence[int], text: str, region: str = "north") -> list[Row]:
    return [(id, region, text) for id in ids]


@KEYS
def test_rows_that_a_user_deleted_stay_deleted_and_written_keys_come_back(world: LakeWorld, key: tuple[str, ...]) -> None:
    table = table_of(world, key)
    upsert(world, table, rows(range(12), "a"))
    world.tier(table)
    world.by_hand.delete(table.path, "id", 3)
    world.by_hand.delete(table.path, "id", 5)
    upsert(world, table, rows([5, 7], "b"))

    assert rows_of(world, table) == sorted(rows(set(range(12)) - {3, 5, 7}, "a") + rows([5, 7], "b"))


@KEYS
def test_files_that_another_program_wrote_for_all_buckets_double_no_row(world: LakeWorld, key: tuple[str, ...]) -> None:
    table = table_of(world, key)
    upsert(world, table, rows(range(12), "a"))
    world.tier(table)
    world.by_hand.rewrite(table.path)
    upsert(world, table, rows([7, 20], "b"))

    assert rows_of(world, table) == sorted(rows(set(range(12)) - {7}, "a") + rows([7, 20], "b"))


@KEYS
def test_after_upkeep_and_many_rounds_each_key_has_its_last_row(world: LakeWorld, key: tuple[str, ...]) -> None:
    table = table_of(world, key)
    expected: dict[int, Row] = {}
    for number in range(6):
        written = rows(range(number, 30, number + 1), f"round {number}")
        upsert(world, table, written)
        expected |= {row[0]: row for row in written}
        assert rows_of(world, table) == sorted(expected.values())
        world.tier(table)
        assert rows_of(world, table) == sorted(expected.values())


def test_a_recreated_partition_has_the_former_rows_whose_keys_were_not_written_again(world: LakeWorld) -> None:
    table = table_of(world, ("region", "id"), partitioned=True)
    upsert(world, table, rows(range(6), "former") + rows(range(3), "south", "south"))
    world.tier(table)
    world.storage.drop_partition(table.path, "north")
    upsert(world, table, rows([2, 9], "new"))

    expected = sorted(rows([0, 1, 3, 4, 5], "former") + rows([2, 9], "new") + rows(range(3), "south", "south"))
    assert rows_of(world, table) == expected
    world.tier(table)
    assert rows_of(world, table) == expected


def test_a_recreated_partition_that_begins_with_a_kv_snapshot_hides_the_former_rows_of_its_keys(world: LakeWorld) -> None:
    table = table_of(world, ("region", "id"), partitioned=True)
    upsert(world, table, rows(range(6), "former"))
    world.tier(table)
    world.storage.drop_partition(table.path, "north")
    upsert(world, table, rows([2, 9], "new"))
    world.storage.take_kv_snapshots(table.path)
    upsert(world, table, rows([4], "newest"))

    read = planned_read(world.storage, lambda _: world.lake, table.path)
    assert read.moment.kv_snapshots
    assert rows_of(world, table) == sorted(rows([0, 1, 3, 5], "former") + rows([2, 9], "new") + rows([4], "newest"))


@ICEBERG_LAKES
@KEYS
def test_equality_deletes_apply_to_older_rows_alone(world: LakeWorld, key: tuple[str, ...]) -> None:
    table = table_of(world, key)
    upsert(world, table, rows(range(8), "a"))
    world.tier(table)
    delete_equal(world, table, pa.table({"id": pa.array([1, 5], pa.int32())}))
    upsert(world, table, rows([5], "b"))
    world.tier(table)
    upsert(world, table, rows([6], "c"))

    deleted = set(range(8)) - set(ids(rows_of(world, table)))
    assert deleted <= {1}  # the delete applies to one of the two buckets
    assert [row for row in rows_of(world, table) if row[0] != 1] == sorted(rows([0, 2, 3, 4, 7], "a") + rows([5], "b") + rows([6], "c"))


@ICEBERG_LAKES
def test_equality_deletes_in_a_column_that_may_be_null_are_refused(world: LakeWorld) -> None:
    table = table_of(world)
    upsert(world, table, rows(range(8), "a"))
    world.tier(table)
    delete_equal(world, table, pa.table({"text": ["a"]}))

    with pytest.raises(SchemaDrift, match="equality deletes"):
        rows_of(world, table)


@ICEBERG_LAKES
def test_position_deletes_of_another_program_are_applied(world: LakeWorld) -> None:
    table = table_of(world)
    upsert(world, table, rows(range(8), "a"))
    world.tier(table)
    delete_at(world, table, [0])
    upsert(world, table, rows([100], "b"))

    assert len(rows_of(world, table)) == 8


@ICEBERG_LAKES
def test_files_of_another_partition_spec_are_refused(world: LakeWorld) -> None:
    table = table_of(world)
    upsert(world, table, rows(range(8), "a"))
    world.tier(table)
    with world.iceberg(table).update_spec() as spec:
        spec.add_identity("region")

    with pytest.raises(SchemaDrift):
        rows_of(world, table)


def test_a_snapshot_that_expired_since_the_read_began_is_an_error(world: LakeWorld) -> None:
    table = table_of(world)
    upsert(world, table, rows(range(8), "a"))
    world.tier(table)
    read = planned_read(world.storage, lambda _: world.lake, table.path)
    upsert(world, table, rows(range(8), "b"))
    world.tier(table)
    world.by_hand.expire(table.path)

    with pytest.raises(LakeUnavailable, match="no longer has the snapshot"):
        read.rows()


def ids(read: Sequence[Row]) -> list[int]:
    return [row[0] for row in read]


@KEYS
@pytest.mark.parametrize("partitioned", [False, True], ids=["one partition", "partitions"])
@pytest.mark.parametrize("rewritten", [False, True], ids=["own files", "files of another program"])
def test_conditions_on_keys_leave_out_no_row_that_is_needed(
    world: LakeWorld, key: tuple[str, ...], partitioned: bool, rewritten: bool
) -> None:
    table = table_of(world, ("region", *key) if "region" not in key else key, partitioned)
    upsert(world, table, rows(range(30), "a") + rows(range(30), "a", "south"))
    world.tier(table)
    if rewritten:
        world.by_hand.rewrite(table.path)
    upsert(world, table, rows([3, 7, 40], "b") + rows([8], "b", "south"))
    world.storage.delete(table.path, pa.table({"region": ["north"], "id": [9]}, schema=KEY_SCHEMA), "deleter", 0)
    read, everything = planned_read(world.storage, lambda _: world.lake, table.path), rows_of(world, table)

    for region, id in [("north", 3), ("north", 9), ("north", 11), ("south", 8), ("south", 40), ("west", 1)]:
        conditions = (Filter("region", Operator.EQUAL, (region,)), Filter("id", Operator.EQUAL, (id,)))
        needed = [tuple(row.values()) for row in read.rows(ReadScan(conditions=conditions)).to_pylist()]
        assert needed == [row for row in everything if row[:2] == (id, region)]


KEY_SCHEMA = pa.schema([SCHEMA.field("region"), SCHEMA.field("id")])
