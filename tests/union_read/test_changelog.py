"""`t$changelog`: every record of the log in Fluss's columns, for both kinds of tables."""

from __future__ import annotations

import pyarrow as pa
import pytest

from support.fresh.union_reads import PlannedRead
from support.lake_kinds.kinds import ICEBERG, in_lakes
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA, SCHEMA, LakeWorld
from tiering.errors import InvalidArgument
from tiering.model.reading.conditions import Filter, Operator
from tiering.model.reading.scans import ReadMoment, ReadPart, ReadScan
from tiering.model.tables import TableInfo
from tiering.union_read.changelog import changelog_schema

CHANGELOG = ReadScan(ReadPart.CHANGELOG)
pytestmark = in_lakes(ICEBERG)


def changelog_of(world: LakeWorld, table: TableInfo) -> PlannedRead:
    ends = {bucket: log.log_end for bucket, log in world.storage.offsets(table).items()}
    return PlannedRead(world.storage, lambda name: world.lake, ReadMoment(table.path, table.table_id, None, ends, ends))


def account(id: int, text: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"id": id, "text": text}], schema=PRIMARY_KEY_SCHEMA)


def test_the_changes_of_a_primary_key_table_have_their_kinds_and_offsets(world: LakeWorld) -> None:
    table = world.primary_key_table("accounts", 1)
    world.storage.upsert(table.path, account(1, "a"), "writer", 0)
    world.storage.upsert(table.path, account(1, "b"), "writer", 1)
    world.storage.delete(table.path, account(1, "b").select(["id"]), "writer", 2)

    rows = changelog_of(world, table).rows(CHANGELOG)

    assert rows.schema == changelog_schema(table)
    assert [(row["_change_type"], row["_log_offset"], row["id"], row["text"]) for row in rows.to_pylist()] == [
        ("+I", 0, 1, "a"),
        ("-U", 1, 1, "a"),
        ("+U", 2, 1, "b"),
        ("-D", 3, 1, "b"),
    ]
    assert rows["_commit_timestamp"].to_pylist() == sorted(rows["_commit_timestamp"].to_pylist())


def test_a_log_table_has_only_appends_from_the_start_of_the_log(world: LakeWorld) -> None:
    table = world.table("orders", 1)
    world.append(table, 0, 4)
    world.tier(table)
    world.append(table, 4, 2)
    read = changelog_of(world, table)
    world.append(table, 6, 2)

    rows = read.rows(CHANGELOG)

    assert set(rows["_change_type"].to_pylist()) == {"+A"}
    assert rows["_log_offset"].to_pylist() == rows["id"].to_pylist() == list(range(6))
    assert read.count(CHANGELOG) == 6


@pytest.mark.parametrize("columns", [("_change_type",), ("text", "_log_offset"), ("_commit_timestamp", "id", "_change_type"), ("id",)])
@pytest.mark.parametrize("has_key", [False, True])
def test_any_columns_of_a_changelog_are_read_alone(world: LakeWorld, columns: tuple[str, ...], has_key: bool) -> None:
    table = world.primary_key_table("accounts", 1) if has_key else world.table("orders", 1)
    if has_key:
        world.storage.upsert(table.path, account(1, "a"), "writer", 0)
    else:
        world.append(table, 0, 2)
    read = changelog_of(world, table)

    assert read.rows(ReadScan(ReadPart.CHANGELOG, columns)) == read.rows(CHANGELOG).select(list(columns))


def test_conditions_on_the_columns_of_the_changelog_filter_its_records(world: LakeWorld) -> None:
    table = world.primary_key_table("accounts", 3)
    for number in range(6):
        world.storage.upsert(table.path, account(number % 3, f"text {number}"), "writer", number)
    read = changelog_of(world, table)

    updates = read.rows(ReadScan(ReadPart.CHANGELOG, ("text",), (Filter("_change_type", Operator.EQUAL, ("+U",)),)))
    of_key = read.rows(ReadScan(ReadPart.CHANGELOG, ("_change_type",), (Filter("id", Operator.EQUAL, (1,)),)))

    assert sorted(updates["text"].to_pylist()) == ["text 3", "text 4", "text 5"]
    assert of_key["_change_type"].to_pylist() == ["+I", "-U", "+U"]


def test_a_column_with_a_name_of_the_changelog_is_an_error(world: LakeWorld) -> None:
    table = world.table("orders", schema=pa.schema([*SCHEMA, pa.field("_log_offset", pa.int64())]))
    with pytest.raises(InvalidArgument, match="its column '_log_offset' has the name of one of the changelog's own columns"):
        changelog_of(world, table).tasks(CHANGELOG)
