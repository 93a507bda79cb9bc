"""Delete files of others are applied as every reader of the lake applies them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.manifest import FileFormat

from support.lakes.foreign.files import add_unpartitioned_spec, delete_at, delete_equal
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA, LakeWorld
from support.worlds.validated import check, data_files, faults, read
from tiering.errors import InvalidArgument
from tiering.model.schema.changes import additions
from tiering.model.tables import TableInfo
from tiering.validate.engine import open_engine
from tiering.validate.results import Level
from tiering.validate.subject import read_subject


def ids(*values: int | None) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def alive(world: LakeWorld, table: TableInfo) -> list[int]:
    """The ids that the engine sees."""
    with open_engine(read_subject(world.storage, world.lake, table.path, None)) as engine:
        return [row[0] for row in engine.rows("SELECT id FROM lake ORDER BY id")]


def test_rows_that_others_delete_by_position_are_missing(world: LakeWorld, table: TableInfo) -> None:
    first, second = data_files(world, table)
    gone = [read(first)["__offset"][5].as_py(), read(second)["__offset"][7].as_py()]
    delete_at(world, table, [5])
    delete_at(world, table, [7], like=1)
    assert faults(check(world, table, Level.OFFSETS)) == [
        *(("rows", str(bucket), "1 row missing") for bucket in (0, 1)),
        *(("offsets", str(bucket), f"bucket {bucket}: offset {gone[bucket]} is missing") for bucket in (0, 1)),
    ]


def test_equality_deletes_take_equal_rows_of_older_files_of_their_partition(world: LakeWorld, table: TableInfo) -> None:
    in_first, in_second = (read(file)["id"].to_pylist() for file in data_files(world, table))
    delete_equal(world, table, ids(in_first[3], in_first[4], in_second[3], None))
    assert sorted({*in_first, *in_second} - set(alive(world, table))) == sorted(in_first[3:5])
    again = pa.table({"id": in_first, "text": ["again"] * 100}, schema=table.schema)  # newer files are not touched
    world.storage.append(table.path, again, "again", 0)
    world.tier(table)
    assert len(alive(world, table)) == 298
    differences = faults(check(world, table))
    assert differences[0] == ("rows", "0", "2 rows missing")
    assert {scope for _, scope, _ in differences} == {"0"}


def test_equality_deletes_of_an_unpartitioned_spec_hold_for_all_partitions(world: LakeWorld, table: TableInfo) -> None:
    spec_id = add_unpartitioned_spec(world, table)
    in_first, in_second = (read(file)["id"].to_pylist() for file in data_files(world, table))
    delete_equal(world, table, ids(in_first[3], in_second[3]), spec_id=spec_id)
    assert sorted({*in_first, *in_second} - set(alive(world, table))) == sorted([in_first[3], in_second[3]])


def test_equality_deletes_by_several_columns_take_null_for_null(world: LakeWorld) -> None:
    texts = world.table("texts", buckets=1)
    rows = pa.table({"id": [1, 1, 2, None], "text": ["a", None, None, None]}, schema=texts.schema)
    world.storage.append(texts.path, rows, "w", 0)
    world.tier(texts)
    delete_equal(world, texts, pa.table({"text": pa.array([None, "a"]), "id": pa.array([1, 7], pa.int64())}))
    assert [row["offset"] for row in offsets(world, texts)] == [0, 2, 3]
    delete_equal(world, texts, pa.table({"id": pa.array([None], pa.int64())}))
    assert [row["offset"] for row in offsets(world, texts)] == [0, 2]


def offsets(world: LakeWorld, table: TableInfo) -> list[dict[str, int]]:
    with open_engine(read_subject(world.storage, world.lake, table.path, None)) as engine:
        return [{"offset": row[0]} for row in engine.rows("SELECT __offset FROM lake ORDER BY 1")]


def test_equality_deletes_by_a_column_that_older_files_lack_take_its_nulls(world: LakeWorld, table: TableInfo) -> None:
    wider = world.storage.alter_table(table.path, {}, additions([pa.field("note", pa.string())]))
    world.storage.append(table.path, pa.table({"id": [1_000], "text": ["x"], "note": ["kept"]}, schema=wider.schema), "more", 0)
    world.tier(wider)
    delete_equal(world, wider, pa.table({"note": pa.array([None], pa.string())}))
    assert len(alive(world, wider)) == 101


def test_a_primary_key_row_that_others_delete_by_equality_is_named_until_a_round_writes_it_again(world: LakeWorld) -> None:
    planes = world.primary_key_table("planes", buckets=1)
    world.storage.upsert(planes.path, pa.table({"id": [1, 2, 3], "text": ["a", "b", "c"]}, schema=PRIMARY_KEY_SCHEMA), "w", 0)
    world.tier(planes)
    delete_equal(world, planes, ids(2))
    assert faults(check(world, planes)) == [("rows", "0", None), ("values", "0", "bucket 0: key 2, last changed at offset 1, is missing")]
    world.storage.upsert(planes.path, pa.table({"id": [2], "text": ["again"]}, schema=PRIMARY_KEY_SCHEMA), "w", 1)
    world.tier(planes)
    assert not faults(check(world, planes))


def test_files_that_are_not_parquet_are_refused_by_name(world: LakeWorld, table: TableInfo) -> None:
    delete_at(world, table, [1], file_format=FileFormat.ORC)
    with pytest.raises(InvalidArgument, match=r"positions-\d+\.parquet is a file of format .*ORC: .* lakes of Parquet files"):
        check(world, table)
