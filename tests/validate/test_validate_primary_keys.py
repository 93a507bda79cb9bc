"""The proof that a primary-key table's lake copy is its newest rows: on tables that are right, and on tables that were really damaged."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from support.worlds.lake_world import PRIMARY_KEY_SCHEMA, LakeWorld
from support.worlds.validated import check, data_files, faults, read, replace_column, rewrite, untold
from tiering.model.tables import TableInfo
from tiering.validate.results import Level


def upsert(world: LakeWorld, table: TableInfo, sequence: int, rows: dict[int, str | None]) -> None:
    data = pa.table({"id": list(rows), "text": list(rows.values())}, schema=PRIMARY_KEY_SCHEMA)
    world.storage.upsert(table.path, data, "w", sequence)


def delete(world: LakeWorld, table: TableInfo, sequence: int, *keys: int) -> None:
    data = pa.table({"id": pa.array(keys, pa.int64())}, schema=pa.schema([PRIMARY_KEY_SCHEMA.field("id")]))
    world.storage.delete(table.path, data, "w", sequence)


@pytest.fixture
def table(world: LakeWorld) -> TableInfo:
    """Keys 0..19 at offsets 0..19; then key 3 updated at 20 (-U) and 21 (+U), and key 5 deleted at 22."""
    planes = world.primary_key_table("planes", buckets=1)
    upsert(world, planes, 0, {key: f"row {key}" for key in range(20)})
    world.tier(planes)
    upsert(world, planes, 1, {3: "newer"})
    delete(world, planes, 2, 5)
    world.tier(planes)
    return planes


def test_a_table_that_is_right_passes_every_check_of_every_level(world: LakeWorld, table: TableInfo) -> None:
    for level, checks in ((Level.COUNTS, {"rows"}), (Level.OFFSETS, {"rows", "keys"}), (Level.ROWS, {"rows", "keys", "values"})):
        results = check(world, table, level)
        assert all(result.ok for result in results), results
        assert {result.check for result in results} == {"base", "files", *checks}
    [rows] = [result for result in results if result.check == "rows"]
    assert (rows.expected, rows.actual) == ("19", "19")


def test_a_key_that_is_there_twice_is_named(world: LakeWorld, table: TableInfo) -> None:
    file = data_files(world, table)[0]
    rows = read(file)
    rewrite(file, pa.concat_tables([rows, rows.slice(7, 1)]))
    differences = faults(check(world, table, Level.OFFSETS))
    assert differences == [("rows", "0", None), ("keys", "0", "bucket 0: key 7 occurs 2 times")]


def test_a_key_that_is_missing_is_named(world: LakeWorld, table: TableInfo) -> None:
    """At the file's end: what lies before keeps its position, by which others are deleted."""
    file = data_files(world, table)[0]
    rewrite(file, read(file).slice(0, 19))
    assert faults(check(world, table)) == [("rows", "0", None), ("values", "0", "bucket 0: key 19, last changed at offset 19, is missing")]


def test_a_key_that_should_be_dead_is_named(world: LakeWorld, table: TableInfo) -> None:
    file = data_files(world, table)[0]
    rows = read(file)
    rewrite(file, pa.concat_tables([rows, rows.slice(5, 1)]))
    details = "bucket 0: key 5 was deleted at offset 22 and is still in the lake (offset 5)"
    assert faults(check(world, table)) == [("rows", "0", None), ("values", "0", details)]


def test_a_row_of_an_older_change_is_named(world: LakeWorld, table: TableInfo) -> None:
    first, second = data_files(world, table)
    rewrite(second, read(first).slice(3, 1))
    assert not faults(check(world, table, Level.OFFSETS))
    details = "bucket 0: key 3 was last changed at offset 21; the lake has it of offset 3"
    assert faults(check(world, table)) == [("values", "0", details)]


def test_a_changed_value_is_named_by_its_key(world: LakeWorld, table: TableInfo) -> None:
    file = data_files(world, table)[0]
    replace_column(file, "text", [None, *read(file)["text"].to_pylist()[1:]])
    assert faults(check(world, table)) == [("values", "0", "bucket 0: key 0, last changed at offset 0, has other values in the lake")]


def test_another_time_is_no_right_row_either(world: LakeWorld, table: TableInfo) -> None:
    file = data_files(world, table)[0]
    replace_column(file, "__timestamp", [datetime(2020, 1, 1, tzinfo=UTC)] * 20)
    [(_, _, details)] = faults(check(world, table))
    assert details == "bucket 0: key 0, last changed at offset 0, has another offset or time in the lake"


def test_a_row_that_the_log_never_had_and_one_beyond_the_marker_are_named(world: LakeWorld, table: TableInfo) -> None:
    lake_table = world.iceberg(table)
    when = datetime(2026, 1, 1, tzinfo=UTC)
    row = {"id": 77, "text": "mine", "__bucket": 0, "__offset": 900, "__timestamp": when}
    lake_table.append(pa.Table.from_pylist([row], schema=lake_table.schema().as_arrow()))
    assert faults(check(world, table)) == [
        ("rows", "0", None),
        ("keys", "0", "bucket 0: offset 900 lies beyond 23"),
        ("values", "0", "bucket 0: key 77 has offset 900 in the lake; the log has no such change"),
    ]


def test_rows_in_a_bucket_that_the_table_does_not_have_are_named(world: LakeWorld, table: TableInfo) -> None:
    lake_table = world.iceberg(table)
    row = {"id": 77, "text": "mine", "__bucket": 9, "__offset": 1, "__timestamp": datetime(2026, 1, 1, tzinfo=UTC)}
    lake_table.append(pa.Table.from_pylist([row], schema=lake_table.schema().as_arrow()))
    assert faults(check(world, table)) == [("rows", "9", "the marker names no such bucket: another program wrote these rows")]


@pytest.mark.parametrize("column", ["id", "__offset", "__bucket"])
def test_null_where_none_may_be_is_named_and_breaks_nothing(world: LakeWorld, table: TableInfo, column: str) -> None:
    file = data_files(world, table)[0]
    replace_column(file, column, [*read(file)[column].to_pylist()[:-1], None], nullable=True)
    differences = faults(check(world, table))
    assert differences
    assert all(name in ("rows", "keys", "values") for name, _, _ in differences)


def test_rows_of_a_kv_snapshot_are_compared_with_the_log_as_long_as_it_has_them(world: LakeWorld) -> None:
    planes = world.primary_key_table("planes", buckets=1)
    upsert(world, planes, 0, {key: f"row {key}" for key in range(10)})
    delete(world, planes, 1, 4)
    world.storage.take_kv_snapshots(planes.path)
    upsert(world, planes, 2, {2: "after the snapshot"})
    world.tier(planes)
    assert world.view(planes).marker.buckets  # type: ignore[union-attr]
    results = check(world, planes)
    assert all(result.ok for result in results), results
    file = data_files(world, planes)[0]
    rows = read(file).to_pylist()
    assert sorted({row["__offset"] for row in rows})[0] == -1
    changed = [{**row, "text": "not what was written"} if row["id"] == 7 else row for row in rows]
    rewrite(file, pa.Table.from_pylist(changed, schema=read(file).schema))
    assert faults(check(world, planes)) == [("values", "0", "bucket 0: key 7, last changed at offset 7, has other values in the lake")]
    rewrite(file, pa.Table.from_pylist([row for row in rows if row["id"] != 7], schema=read(file).schema))
    assert ("values", "0", "bucket 0: key 7, last changed at offset 7, is missing") in faults(check(world, planes))


def test_what_the_log_no_longer_holds_is_compared_with_the_kv_snapshot(world: LakeWorld) -> None:
    planes = world.primary_key_table("planes", buckets=1, log_ttl="1 s")
    upsert(world, planes, 0, {key: f"row {key}" for key in range(10)})
    world.storage.take_kv_snapshots(planes.path)
    world.tier(planes)
    world.clock.advance(60)
    upsert(world, planes, 1, {2: "newer", 30: "new"})
    world.tier(planes)
    world.storage.maintenance.run()
    [log] = world.storage.offsets(planes).values()
    assert log.log_start == 10
    results = check(world, planes)
    assert not faults(results)
    assert not untold(results)
    newer = data_files(world, planes)[-1]
    replace_column(newer, "text", ["wrong"] * read(newer).num_rows)
    [(name, _, details)] = faults(check(world, planes))
    assert name == "values"
    assert details is not None
    assert "has other values in the lake" in details


def test_keys_of_any_type_are_shown(world: LakeWorld) -> None:
    fields = [pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False), pa.field("raw", pa.binary(), nullable=False)]
    schema = pa.schema([*fields, pa.field("text", pa.string())])
    typed = world.primary_key_table("typed", buckets=1, schema=schema, key=("at", "raw"))
    rows = pa.table({"at": [datetime(2026, 1, 1, tzinfo=UTC)], "raw": [b"\x00\xff"], "text": ["a"]}, schema=schema)
    world.storage.upsert(typed.path, rows, "w", 0)
    world.tier(typed)
    assert not faults(check(world, typed))
    [file] = data_files(world, typed)
    rewrite(file, pa.concat_tables([read(file), read(file)]))
    details = r"bucket 0: key (2026-01-01 00:00:00+00, \x00\xFF) occurs 2 times"
    assert faults(check(world, typed)) == [("rows", "0", None), ("keys", "0", details)]
