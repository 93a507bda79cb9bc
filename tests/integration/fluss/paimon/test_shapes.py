"""Tables of every shape that Flink's tiering and ours write in turns: partitions, types, columns that come later, KV snapshots,
compactions, lake tables that we made anew."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.clusters.fluss_snapshots import snapshots_up_to
from support.fluss_paimon.flink_tiering import FlinkTiering
from support.fluss_paimon.paimon_lake_world import PaimonLakeWorld
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA
from support.worlds.validated import check, faults
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.coordinator.calls.reconcile_lake import reconcile_lake
from tiering.model.assignments import ServiceMode
from tiering.model.rounds import RoundState
from tiering.model.tables import TableInfo
from tiering.procedures.reconcile_lake import ReconcileLake

EVERY_TYPE = pa.schema(
    [
        pa.field("region", pa.string(), nullable=False),
        pa.field("id", pa.int64(), nullable=False),
        pa.field("small", pa.int8()),
        pa.field("price", pa.decimal128(10, 2)),
        pa.field("big", pa.decimal128(38, 10)),
        pa.field("ratio", pa.float32()),
        pa.field("yes", pa.bool_()),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("ms")),
        pa.field("when", pa.timestamp("us", "UTC")),
        pa.field("second", pa.timestamp("s", "UTC")),
        pa.field("code", pa.binary(3)),
        pa.field("bytes", pa.binary()),
        pa.field("items", pa.list_(pa.int32())),
    ]
)


def row(region: str, number: int) -> dict[str, Any]:
    """Returns a row of every type; in each third row all else is null. Lists are null, because the JVM of these tests refuses lists."""
    values = {
        "small": number % 100,
        "price": Decimal(number) / 100,
        "big": Decimal(f"-{number}.0000000001"),
        "ratio": number / 4,
        "yes": number % 2 == 0,
        "day": date(2026, 1, 1 + number % 28),
        "at": datetime(2026, 1, 1, 12, 0, number % 60, 123_000),
        "when": datetime(1969, 12, 31, 23, 59, number % 60, 123_456, UTC),
        "second": datetime(2026, 1, 1, 12, 0, number % 60, tzinfo=UTC),
        "code": f"{number % 1000:03}".encode(),
        "bytes": b"x" * (number % 12),
        "items": None,
    }
    return {"region": region, "id": number, **(dict.fromkeys(values) if number % 3 == 0 else values)}


@pytest.fixture
def world(fluss_on_paimon: LocalFlussCluster, flink: FlinkTiering, tmp_path: Path) -> Iterator[PaimonLakeWorld]:
    world = PaimonLakeWorld(tmp_path, fluss_on_paimon, flink)
    yield world
    world.close()


def append(world: PaimonLakeWorld, table: TableInfo, rows: list[dict[str, Any]]) -> None:
    schema = pa.schema([*EVERY_TYPE, *(table.schema.field(name) for name in table.schema.names if name not in EVERY_TYPE.names)])
    for region in sorted({row["region"] for row in rows}):  # a batch goes into one partition as a whole
        of_region = [row for row in rows if row["region"] == region]
        world.written.append(table, [pa.RecordBatch.from_pylist(of_region, schema=schema)])


def by_number(rows: list[dict[str, Any]], names: list[str]) -> list[dict[str, Any]]:
    return sorted(({name: row.get(name) for name in names} for row in rows), key=lambda row: (row["region"], row["id"]))


@pytest.mark.parametrize("bucket_keys", [[], ["id"]], ids=["without a bucket key", "with a bucket key"])
def test_partitions_types_and_an_added_column(world: PaimonLakeWorld, bucket_keys: list[str]) -> None:
    description: dict[str, Any] = {"bucket_keys": bucket_keys} if bucket_keys else {}
    name = "shaped_by_key" if bucket_keys else "shaped"
    table = world.create(name, EVERY_TYPE, buckets=2, partition_keys=["region"], **description)
    for region in ("north", "south"):
        world.written.add_partition(table, {"region": region})
    rows = [row(region, number) for region in ("north", "south") for number in range(20)]
    append(world, table, rows)
    world.flink(table).whole()
    more = [row("north", number) for number in range(20, 30)]
    append(world, table, more)
    world.tier_whole(table)
    world.written.add_column(table, pa.field("note", pa.string()))
    wider = world.again(table.path)
    noted = [{**row("south", number), "note": "n"} for number in range(30, 40)]
    append(world, wider, noted)
    world.tier_whole(wider)
    last = [{**row("south", number), "note": None} for number in range(40, 50)]
    append(world, wider, last)
    world.flink(wider).whole()
    assert world.tier(wider).state is RoundState.EMPTY
    names = wider.schema.names
    assert by_number(world.rows(wider), names) == by_number([*rows, *more, *noted, *last], names)
    assert len(world.read_by_fluss(wider)) == 70
    assert faults(check(world, wider)) == []
    world.assert_told(wider)


def test_a_bucket_that_begins_with_a_kv_snapshot_goes_on_with_flink(world: PaimonLakeWorld) -> None:
    table = world.create("enabled_later", PRIMARY_KEY_SCHEMA, ("id",), {"table.datalake.enabled": "false"})
    world.upsert(table, range(40), "before")
    snapshots_up_to(world.written, table, 40)
    world.written.set_option(table, "table.datalake.enabled", "true")
    table = world.again(table.path)
    world.upsert(table, range(35, 45), "ours")
    world.tier_whole(table)
    assert min(row["__offset"] for row in world.rows(table)) == -1
    world.upsert(table, range(44, 50), "flink")
    world.flink(table).whole()
    assert world.tier(table).state is RoundState.EMPTY
    texts = {row["id"]: row["text"].split()[0] for row in world.rows(table)}
    assert texts == dict.fromkeys(range(35), "before") | dict.fromkeys(range(35, 44), "ours") | dict.fromkeys(range(44, 50), "flink")
    assert faults(check(world, table)) == []
    world.assert_told(table)


def test_compactions_of_flinks_are_no_new_rows(world: PaimonLakeWorld) -> None:
    table = world.create("compacted_in_turns", PRIMARY_KEY_SCHEMA, ("id",), {"table.datalake.auto-compaction": "true"})
    for number in range(5):
        world.upsert(table, range(number, number + 10), f"round {number}")
        world.flink(table).plan().check().prepare().append().tell()
    assert [snapshot["commitKind"] for snapshot in world.folder_of(table).snapshots()][-1] == "COMPACT"
    world.upsert(table, [0, 5, 20], "ours")
    world.delete(table, [1])
    world.tier_whole(table)
    assert "BUCKETS_REPLAYED" not in {event.event_type for event in world.store.events()}
    world.upsert(table, [1], "flink")
    world.flink(table).plan().check().prepare().append().tell()
    texts = {row["id"]: row["text"] for row in world.rows(table)}
    assert {number: texts[number].split()[0] for number in (0, 1, 5, 20)} == {0: "ours", 1: "flink", 5: "ours", 20: "ours"}
    assert sorted(texts) == [*range(14), 20]
    assert faults(check(world, table)) == []


@pytest.mark.parametrize("key", [(), ("id",)], ids=["log", "primary key"])
def test_a_lake_table_that_we_made_anew_is_one_that_fluss_takes(world: PaimonLakeWorld, key: tuple[str, ...]) -> None:
    own = {"owner": "ada", "paimon.snapshot.num-retained.min": "3"}
    name = "anew_by_key" if key else "anew"
    table = world.create(name, PRIMARY_KEY_SCHEMA, key, {"table.log.ttl": "3 d"}, buckets=2, custom_properties=own)
    before = world.folder_of(table).options()
    shutil.rmtree(world.folder_of(table).path)
    write = world.upsert if key else lambda table, ids, _: world.append(table, ids[0], len(ids))
    write(table, range(20), "row")
    world.tier_whole(table)
    ours = world.folder_of(table).options()
    assert {option: value for option, value in ours.items() if option in before} == before
    for enabled in ("false", "true"):  # Fluss compares the table with the one that it would make
        world.written.set_option(table, "table.datalake.enabled", enabled)
    table = world.again(table.path)
    write(table, range(20, 30), "row")
    world.flink(table).whole()
    assert world.tier(table).error is None
    assert sorted(row["id"] for row in world.rows(table)) == list(range(30))
    world.assert_told(table)


def test_after_flink_was_stopped_for_good_adopt_takes_over(fluss_on_paimon: LocalFlussCluster, flink: FlinkTiering, tmp_path: Path) -> None:
    world = PaimonLakeWorld(tmp_path, fluss_on_paimon, flink, ServiceMode.EXCLUSIVE)
    table = world.table("taken_over", buckets=2)
    world.append(table, 0, 50)
    world.flink(table).whole()
    world.append(table, 50, 10)
    outcome = world.tier(table)
    assert outcome.error is not None
    assert outcome.error.error_class == "ForeignTiering"
    done = reconcile_lake(world.coordinator.call_parts, ReconcileLake(table.path, "adopt", caller="alice"))
    assert done.outcome == "reconciled"
    world.tier_whole(table)
    world.assert_exact(table)
    world.assert_told(table)
    assert faults(check(world, table)) == []
    world.close()
