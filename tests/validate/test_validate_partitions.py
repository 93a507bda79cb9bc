"""Partitions that were dropped, and that were made anew under the same name: what cannot be compared is said, the rest is compared."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
import sqlalchemy as sa

from support.background import tick
from support.worlds.lake_world import FRESHNESS_S, LakeWorld
from support.worlds.validated import check, data_files, faults, read, replace_column, rewrite, untold
from tiering.cluster.writable import TableSpec
from tiering.model.tables import TableInfo, TablePath
from tiering.procedures.validate_table import CheckResult

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("day", pa.string(), nullable=False)])


def visits(*ids: int, day: str) -> pa.Table:
    return pa.table({"id": ids, "day": [day] * len(ids)}, schema=SCHEMA)


@pytest.fixture
def log_table(world: LakeWorld) -> TableInfo:
    table = world.table("visits", buckets=1, partition_keys=("day",), schema=SCHEMA)
    world.storage.append(table.path, visits(*range(30), day="d0"), "w", 0)
    world.storage.append(table.path, visits(*range(20), day="d1"), "w", 1)
    world.tier(table)
    return table


@pytest.fixture
def primary_key_table(world: LakeWorld) -> TableInfo:
    path = TablePath("sales", "primary_key")
    world.storage.create_database(path.database_name, ignore_if_exists=True)
    properties = {"table.datalake.enabled": "true", "table.datalake.freshness": f"{FRESHNESS_S} s"}
    spec = TableSpec(SCHEMA, 1, properties=properties, primary_key=("id", "day"), partition_keys=("day",))
    created = world.storage.create_table(path, spec)
    tick(world.coordinator)
    world.storage.upsert(created.path, visits(*range(30), day="d0"), "w", 0)
    world.storage.upsert(created.path, visits(*range(20), day="d1"), "w", 1)
    world.tier(created)
    return created


def compared(results: list[CheckResult]) -> set[str]:
    """The buckets whose values were found equal."""
    return {result.scope for result in results if result.check == "values" and result.ok}


def test_a_partition_that_was_dropped_is_said_and_the_others_are_compared(world: LakeWorld, log_table: TableInfo) -> None:
    world.storage.drop_partition(log_table.path, "d0")
    results = check(world, log_table)
    assert not faults(results)
    assert compared(results) == {"d1/0"}
    [base] = [result for result in results if result.check == "base"]
    assert base.details == "the marker has 1 bucket of partitions that were dropped since: their rows cannot be compared"
    text = "the marker names no such bucket: rows of a dropped partition, or of another writer"
    assert untold(results) == [("rows", "d0/0", text)]


@pytest.mark.parametrize("kind", ["log_table", "primary_key_table"])
def test_a_partition_that_came_again_is_compared_without_the_rows_of_the_former_one(
    world: LakeWorld, kind: str, request: pytest.FixtureRequest
) -> None:
    table: TableInfo = request.getfixturevalue(kind)
    write = world.storage.append if kind == "log_table" else world.storage.upsert
    world.storage.drop_partition(table.path, "d0")
    world.clock.advance(5)
    write(table.path, visits(*range(100, 110), day="d0"), "w", 2)
    world.tier(table)
    results = check(world, table)
    assert not faults(results), results
    assert compared(results) == {"d0/0", "d1/0"}
    text = "30 rows are older than the partition's log: of a former partition of that name, taken as they are"
    assert untold(results) == [("rows", "d0/0", text)]
    [rows] = [result for result in results if result.check == "rows" and result.scope == "d0/0" and result.ok]
    assert (rows.expected, rows.actual) == ("10", "10")


@pytest.mark.parametrize("kind", ["log", "primary_key"])
def test_an_empty_bucket_of_a_partition_that_came_again_has_only_rows_of_the_former_one(world: LakeWorld, kind: str) -> None:
    if kind == "log":
        table, write = world.table("visits", 2, ("day",), SCHEMA), world.storage.append
    else:
        table, write = world.primary_key_table("visits", 2, SCHEMA, ("id", "day"), ("day",)), world.storage.upsert
    for sequence, ids in enumerate((range(15), range(15, 30))):
        write(table.path, visits(*ids, day="d0"), f"writer-{sequence}", 0)
    world.tier(table)
    world.storage.drop_partition(table.path, "d0")
    world.clock.advance(5)
    write(table.path, visits(100, day="d0"), "w", 2)
    world.tier(table)
    ends = {bucket.bucket_id: at.log_end for bucket, at in world.storage.offsets(table).items()}
    assert sorted(ends.values()) == [0, 1], "one bucket got no row since"
    former = world.iceberg(table).scan().to_arrow()["__bucket"].to_pylist()
    results = check(world, table)
    assert not faults(results), results
    texts = [f"{former.count(bucket) - end} rows are older than the partition's log" for bucket, end in sorted(ends.items())]
    assert [details.split(":")[0] for _, _, details in untold(results) if details is not None] == texts


def test_partitions_by_values_of_every_type_are_found_by_their_names(world: LakeWorld) -> None:
    fields = [pa.field("region", pa.string()), pa.field("day", pa.date32()), pa.field("shard", pa.int32()), pa.field("tiny", pa.int8())]
    schema = pa.schema([pa.field("id", pa.int64()), *(field.with_nullable(False) for field in fields)])
    parts = world.table("parts", buckets=1, partition_keys=tuple(field.name for field in fields), schema=schema)
    values = [("north", date(2024, 2, 29), -7, 1), ("007", date(1, 1, 1), 2**31 - 1, -128), ("a-b_c", date(9999, 12, 31), 0, 0)]
    columns = {field.name: [value[place] for value in values] for place, field in enumerate(fields)}
    world.storage.append(parts.path, pa.table({"id": range(3), **columns}, schema=schema), "w", 0)
    world.tier(parts)
    results = check(world, parts)
    assert all(result.ok for result in results), results
    assert compared(results) == {"north$2024-02-29$-7$1/0", "007$0001-01-01$2147483647$-128/0", "a-b_c$9999-12-31$0$0/0"}


def test_a_lake_put_back_to_a_time_before_a_partition_is_named(world: LakeWorld, log_table: TableInfo, tmp_path: Path) -> None:
    before = world.iceberg(log_table).metadata_location
    world.storage.append(log_table.path, visits(*range(10), day="d2"), "w", 2)
    world.tier(log_table)
    with sa.create_engine(f"sqlite:///{tmp_path / 'lake-catalog.db'}").begin() as connection:
        connection.execute(sa.text("UPDATE iceberg_tables SET metadata_location = :before"), {"before": before})
    [(name, _, details)] = faults(check(world, log_table))
    assert name == "base"
    assert details is not None
    assert details.startswith("RecordAheadOfLake: ")


def test_damage_in_a_partition_that_came_again_is_found(world: LakeWorld, log_table: TableInfo) -> None:
    world.storage.drop_partition(log_table.path, "d0")
    world.clock.advance(5)
    world.storage.append(log_table.path, visits(*range(100, 110), day="d0"), "w", 2)
    world.tier(log_table)
    [file] = [file for file in data_files(world, log_table) if read(file)["id"][0].as_py() == 100]
    rows = read(file)
    replace_column(file, "id", [*range(100, 109), 999])
    assert faults(check(world, log_table)) == [
        ("values", "d0/0", "bucket d0/0: offset 9 has other values in the lake than in the log, in id")
    ]
    rewrite(file, rows.slice(1))
    differences = faults(check(world, log_table))
    assert ("offsets", "d0/0", "bucket d0/0: offset 0 is missing") in differences


def test_rows_doubled_in_a_partition_that_never_went_are_no_former_ones(world: LakeWorld, log_table: TableInfo) -> None:
    file = data_files(world, log_table)[0]
    rows = read(file)
    rewrite(file, pa.concat_tables([rows, rows.slice(0, 1)]))
    results = check(world, log_table)
    assert ("rows", "d0/0", "1 row too many") in faults(results)
    assert not untold(results)


def test_a_former_partition_is_told_also_where_the_log_of_the_new_one_was_cut(world: LakeWorld, log_table: TableInfo) -> None:
    world.storage.alter_table(log_table.path, {"table.log.ttl": "1 h"})
    world.storage.drop_partition(log_table.path, "d0")
    for number in range(2):
        world.clock.advance(3_600 * number + 5)
        world.storage.append(log_table.path, visits(*range(100, 110), day="d0"), "w", 2 + number)
    world.tier(log_table)
    world.storage.maintenance.run()
    assert {log.log_start for log in world.storage.offsets(log_table).values()} == {20, 10}
    results = check(world, log_table)
    assert not faults(results), results
    former = "30 rows are older than the partition's log: of a former partition of that name, taken as they are"
    assert ("rows", "d0/0", former + "; offsets 0 to 9 of this one cannot be told from them") in untold(results)
