"""The proof of clean tables whose buckets share partitions: several bucket keys, or none, also where a compaction mixed them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from support.worlds.lake_world import LakeWorld
from support.worlds.validated import check, data_files, faults, read, rewrite, untold
from tiering.cluster.log_writer import LogWriter
from tiering.model.tables import TableInfo
from tiering.validate.primary_key_checks import UNNAMED
from tiering.validate.results import Level

pytestmark = pytest.mark.in_turn("table")
SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("city", pa.string(), nullable=False), pa.field("text", pa.string())]
)
PARTITIONED = pa.schema([*SCHEMA, pa.field("region", pa.string(), nullable=False)])
CITIES = ("Bern", "Lyon", "Oslo")
REGIONS = ("north", "south")


def rows_of(ids: range, text: str, schema: pa.Schema = SCHEMA) -> pa.Table:
    columns = {"id": list(ids), "city": [CITIES[number % 3] for number in ids], "text": [f"{text} {number}" for number in ids]}
    return pa.table({**columns, "region": [REGIONS[number % 2] for number in ids]}).select(schema.names).cast(schema)


def upsert(world: LakeWorld, table: TableInfo, sequence: int, ids: range, text: str = "row") -> None:
    world.storage.upsert(table.path, rows_of(ids, text, table.schema), "w", sequence)


def delete(world: LakeWorld, table: TableInfo, sequence: int, ids: range) -> None:
    world.storage.delete(table.path, rows_of(ids, "", table.schema).select(table.primary_key), "w", sequence)


def compact(world: LakeWorld, table: TableInfo, rows: pa.Table | None = None) -> None:
    """Rewrites all files."""
    loaded = world.iceberg(table)
    loaded.overwrite(loaded.scan().to_arrow() if rows is None else rows)


def in_lake(world: LakeWorld, table: TableInfo) -> pa.Table:
    return world.iceberg(table).scan().to_arrow().sort_by("id")


@pytest.fixture(params=[(), ("region",)], ids=["one partition", "partitions"])
def table(world: LakeWorld, request: pytest.FixtureRequest) -> TableInfo:
    """Keys 0 to 59 in three buckets; then 0 to 9 are new, and 30 to 34 are deleted."""
    key = ("id", "city", *request.param)
    schema = PARTITIONED if request.param else SCHEMA
    places = world.primary_key_table("places", 3, schema, key, request.param, datalake_layout="clean")
    upsert(world, places, 0, range(60))
    world.tier(places)
    upsert(world, places, 1, range(10), "new")
    delete(world, places, 2, range(30, 35))
    world.tier(places)
    return places


def test_a_table_that_is_right_passes_every_check_of_every_level(world: LakeWorld, table: TableInfo) -> None:
    for level in Level:
        results = check(world, table, level)
        assert all(result.ok for result in results), results
    buckets = {result.scope for result in results if result.check == "values"}
    assert buckets == ({f"{region}/{bucket}" for region in REGIONS for bucket in range(3)} if table.partition_keys else {"0", "1", "2"})
    assert in_lake(world, table).num_rows == 55
    assert len(world.iceberg(table).spec().fields) == len(table.partition_keys)


def test_after_a_compaction_all_buckets_of_a_partition_are_proved_together_and_rounds_go_on(world: LakeWorld, table: TableInfo) -> None:
    compact(world, table)
    for level in Level:
        results = check(world, table, level)
        assert not faults(results)
        assert {result.scope for result in results if result.check == "rows"} == set(REGIONS if table.partition_keys else ("table",))
    for sequence in range(3, 8):
        upsert(world, table, sequence, range(sequence, 50, sequence), f"round {sequence}")
        world.tier(table)
        assert not faults(check(world, table))
    delete(world, table, 8, range(60))
    upsert(world, table, 9, range(100, 103))
    world.tier(table)
    assert in_lake(world, table)["id"].to_pylist() == [100, 101, 102]
    assert not faults(check(world, table))


def test_damages_in_files_of_ours_are_named_by_bucket_and_key(world: LakeWorld, table: TableInfo) -> None:
    largest = max(data_files(world, table), key=lambda file: len(read(file)))
    rows = read(largest)
    [gone] = rows.slice(len(rows) - 1).to_pylist()
    rewrite(largest, rows.slice(0, len(rows) - 1))
    [(_, scope, details)] = [fault for fault in faults(check(world, table)) if fault[0] == "values"]
    assert details is not None
    assert details.startswith(f"bucket {scope}: key ({gone['id']}, {gone['city']}")
    assert details.endswith("is missing")


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        ("missing", "is missing"),
        ("doubled", "occurs 2 times"),
        ("old", "has other values in the lake"),
        ("dead", "was deleted at offset"),
    ],
)
def test_damages_in_files_that_another_program_rewrote_are_named_by_key(
    world: LakeWorld, table: TableInfo, damage: str, complaint: str
) -> None:
    rows = in_lake(world, table)
    damaged = {
        "missing": lambda: rows.slice(1),
        "doubled": lambda: pa.concat_tables([rows, rows.slice(4, 1)]),
        "old": lambda: pa.concat_tables([rows.slice(1), rows_of(range(1), "row", table.schema).cast(rows.schema)]),
        "dead": lambda: pa.concat_tables([rows, rows_of(range(30, 31), "row", table.schema).cast(rows.schema)]),
    }
    compact(world, table, damaged[damage]())
    complaints = [details for _, _, details in faults(check(world, table)) if details is not None]
    assert any(complaint in details for details in complaints), complaints
    scope = "partition north: key (" if table.partition_keys else "table: key ("
    assert all(details.startswith(scope) for details in complaints)
    level = Level.OFFSETS if damage == "doubled" else Level.COUNTS
    assert bool(faults(check(world, table, level))) == (damage != "old")


def test_rows_that_the_log_never_had(world: LakeWorld, table: TableInfo) -> None:
    """In a partition they may be those of a former one, which files of others do not tell."""
    mine = rows_of(range(901, 902), "mine", table.schema)
    world.iceberg(table).append(mine)
    results = check(world, table)
    if table.partition_keys:
        assert not faults(results)
        assert untold(results) == [("rows", "south", f"1 row {UNNAMED}")]
    else:
        [counts, values] = faults(results)
        assert counts[:2] == ("rows", "table")
        assert values == ("values", "table", "table: key (901, Lyon) is in the lake; the log has no change of it")


def test_rows_of_a_partition_that_was_dropped_are_counted_and_not_compared(world: LakeWorld) -> None:
    places = world.primary_key_table("places", 2, PARTITIONED, ("id", "city", "region"), ("region",), datalake_layout="clean")
    upsert(world, places, 0, range(20))
    world.tier(places)
    compact(world, places)
    world.storage.drop_partition(places.path, "north")
    results = check(world, places)
    assert not faults(results)
    assert ("rows", "north", "the marker names no such partition: a dropped one, or one of another writer") in untold(results)


def test_a_log_that_was_cut_leaves_older_rows_of_all_buckets_as_they_are(world: LakeWorld) -> None:
    places = world.primary_key_table("places", 3, SCHEMA, ("id", "city"), log_ttl="1 s", datalake_layout="clean")
    upsert(world, places, 0, range(40))
    world.tier(places)
    compact(world, places)
    upsert(world, places, 1, range(20, 50), "new")
    delete(world, places, 2, range(5))
    world.tier(places)
    world.storage.take_kv_snapshots(places.path)
    world.clock.advance(60)
    world.storage.maintenance.run()
    results = check(world, places)
    assert not faults(results)
    assert not untold(results), "the KV snapshot has the rows that the log no longer holds"
    upsert(world, places, 3, range(45, 60), "newest")
    world.tier(places)
    assert not faults(check(world, places))
    assert in_lake(world, places).num_rows == 55


LOG_LAYOUTS = [((), ()), (("id", "city"), ()), ((), ("region",)), (("id", "city"), ("region",))]


@pytest.mark.parametrize(("bucket_keys", "partition_keys"), LOG_LAYOUTS)
def test_log_tables_with_several_bucket_keys_or_none(
    world: LakeWorld, bucket_keys: tuple[str, ...], partition_keys: tuple[str, ...], tmp_path: Path
) -> None:
    events = world.table("events", 3, partition_keys, PARTITIONED, bucket_keys=bucket_keys, datalake_layout="clean")
    writer = LogWriter(world.storage, events.path, "w")
    for first in range(0, 90, 30):
        writer.append(rows_of(range(first, first + 30), "row", PARTITIONED))
        world.tier(events)
    assert not faults(check(world, events))
    assert in_lake(world, events)["id"].to_pylist() == list(range(90))
    compact(world, events)
    assert not faults(check(world, events))
    writer.append(rows_of(range(90, 120), "row", PARTITIONED))
    world.tier(events)
    results = check(world, events)
    assert not faults(results)
    assert in_lake(world, events)["id"].to_pylist() == list(range(120))
    compact(world, events, in_lake(world, events).slice(1))
    assert [(name, scope) for name, scope, _ in faults(check(world, events, Level.COUNTS))] == [
        ("rows", "north" if partition_keys else "table")
    ]
