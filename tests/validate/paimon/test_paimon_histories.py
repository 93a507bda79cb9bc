"""Paimon tables with a past: KV snapshots, logs that were cut, partitions and tables that came again, files with flipped bits."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from support.background import tick
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA
from support.worlds.paimon_world import PaimonWorld
from support.worlds.validated import check, faults, read, replace_column, rewrite, untold
from tiering.cluster.writable import TableSpec
from tiering.model.rounds import RoundState
from tiering.model.tables import TableInfo

VISITS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("day", pa.string(), nullable=False)])


def upsert(world: PaimonWorld, table: TableInfo, sequence: int, rows: dict[int, str]) -> None:
    world.storage.upsert(table.path, pa.table({"id": list(rows), "text": list(rows.values())}, schema=PRIMARY_KEY_SCHEMA), "w", sequence)


def visits(*ids: int, day: str) -> pa.Table:
    return pa.table({"id": ids, "day": [day] * len(ids)}, schema=VISITS)


def test_rows_of_a_kv_snapshot_are_compared_with_the_log_as_long_as_it_has_them(world: PaimonWorld) -> None:
    planes = world.keyed_table("planes", buckets=1)
    upsert(world, planes, 0, {key: f"row {key}" for key in range(10)})
    world.storage.take_kv_snapshots(planes.path)
    upsert(world, planes, 1, {2: "after the snapshot"})
    world.tier(planes)
    results = check(world, planes)
    assert all(result.ok for result in results), results
    file = world.data_files(planes)[0]
    assert -1 in read(file)["__offset"].to_pylist()
    kept = read(file)
    place = kept["id"].to_pylist().index(7)
    replace_column(file, "text", [*kept["text"].to_pylist()[:place], "wrong", *kept["text"].to_pylist()[place + 1 :]])
    assert faults(check(world, planes)) == [("values", "0", "bucket 0: key 7, last changed at offset 7, has other values in the lake")]
    rewrite(file, pa.concat_tables([kept.slice(0, place), kept.slice(place + 1)]))
    assert ("values", "0", "bucket 0: key 7, last changed at offset 7, is missing") in faults(check(world, planes))


def test_what_the_log_no_longer_holds_is_compared_with_the_kv_snapshot(world: PaimonWorld) -> None:
    planes = world.keyed_table("planes", buckets=1, log_ttl="1 s")
    upsert(world, planes, 0, {key: f"row {key}" for key in range(10)})
    world.storage.take_kv_snapshots(planes.path)
    world.tier(planes)
    world.clock.advance(60)
    upsert(world, planes, 1, {2: "newer", 30: "new"})
    world.tier(planes)
    world.storage.maintenance.run()
    results = check(world, planes)
    assert not faults(results)
    assert not untold(results)
    newer = world.data_files(planes)[-1]
    replace_column(newer, "text", ["wrong"] * read(newer).num_rows)
    [(name, _, details)] = faults(check(world, planes))
    assert name == "values"
    assert "has other values in the lake" in str(details)


@pytest.mark.parametrize("key", [(), ("id", "day")])
def test_a_partition_that_came_again_is_compared_without_the_rows_of_the_former_one(world: PaimonWorld, key: tuple[str, ...]) -> None:
    table = world.create("visits", TableSpec(VISITS, 1, primary_key=key, partition_keys=("day",)))
    write = world.storage.upsert if key else world.storage.append
    write(table.path, visits(*range(30), day="d0"), "w", 0)
    write(table.path, visits(*range(20), day="d1"), "w", 1)
    world.tier(table)
    world.storage.drop_partition(table.path, "d0")
    world.clock.advance(5)
    write(table.path, visits(*range(100, 110), day="d0"), "w", 2)
    world.tier(table)
    results = check(world, table)
    assert not faults(results), results
    text = "30 rows are older than the partition's log: of a former partition of that name, taken as they are"
    assert untold(results) == [("rows", "d0/0", text)]
    assert {result.scope for result in results if result.check == "values" and result.ok} == {"d0/0", "d1/0"}


def test_a_lake_table_of_a_table_that_was_dropped_and_made_anew_is_named(world: PaimonWorld) -> None:
    table = world.log_table("orders")
    world.append(table, 0, 20)
    world.tier(table)
    world.storage.drop_table(table.path)
    anew = world.log_table("orders")
    tick(world.coordinator)
    [(name, scope, details)] = faults(check(world, anew))
    assert (name, scope) == ("base", "table")
    assert "LakeTableReplaced" in str(details) or "table id" in str(details), details


def test_a_flipped_bit_anywhere_in_a_file_is_found_wherever_it_changes_a_value(world: PaimonWorld) -> None:
    planes = world.keyed_table("planes", buckets=1)
    upsert(world, planes, 0, {key: f"row {key}" for key in range(100)})
    assert world.tier(planes).state is RoundState.SUCCEEDED
    [file] = world.data_files(planes)
    content, right = file.read_bytes(), read(file)
    for place in random.Random(7).sample(range(len(content)), 40):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        file.write_bytes(bytes(damaged))
        if not faults(check(world, planes)):
            assert is_as_good(right, read(file)), place


def is_as_good(right: pa.Table, rows: pa.Table) -> bool:
    """Whether all that a reader sees is equal; the keys and numbers to merge by may be others, while each key has one row."""
    shown = [name for name in right.column_names if not name.startswith("_") or name.startswith("__")]
    return right.select(shown).equals(rows.select(shown)) and set(rows["_VALUE_KIND"].to_pylist()) <= {0, 2}
