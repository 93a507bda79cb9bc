"""The proof that a Paimon copy of a primary-key table is its newest rows: its files are merged in SQL, by keys and sequence numbers."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from support.worlds.paimon_world import PaimonWorld
from support.worlds.validated import check, faults, read, replace_column, rewrite
from tiering.cluster.writable import TableSpec
from tiering.errors import InvalidArgument
from tiering.model.tables import TableInfo
from tiering.validate.results import Level


def upsert(world: PaimonWorld, table: TableInfo, sequence: int, rows: dict[int, str | None]) -> None:
    world.storage.upsert(table.path, pa.table({"id": list(rows), "text": list(rows.values())}, schema=table.schema), "w", sequence)


def delete(world: PaimonWorld, table: TableInfo, sequence: int, *keys: int) -> None:
    gone = pa.table({"id": pa.array(keys, pa.int64())}, schema=pa.schema([table.schema.field("id")]))
    world.storage.delete(table.path, gone, "w", sequence)


@pytest.fixture
def table(world: PaimonWorld) -> TableInfo:
    """Keys 0..19 at offsets 0..19; then key 3 updated at 20 (-U) and 21 (+U), and key 5 deleted at 22."""
    planes = world.keyed_table("planes", buckets=1)
    upsert(world, planes, 0, {key: f"row {key}" for key in range(20)})
    world.tier(planes)
    upsert(world, planes, 1, {3: "newer"})
    delete(world, planes, 2, 5)
    world.tier(planes)
    return planes


def test_a_table_that_is_right_passes_every_check_of_every_level(world: PaimonWorld, table: TableInfo) -> None:
    for level, checks in ((Level.COUNTS, {"rows"}), (Level.OFFSETS, {"rows", "keys"}), (Level.ROWS, {"rows", "keys", "values"})):
        results = check(world, table, level)
        assert all(result.ok for result in results), results
        assert {result.check for result in results} == {"base", "files", "places", *checks}
    [rows] = [result for result in results if result.check == "rows"]
    assert (rows.expected, rows.actual) == ("19", "19")
    assert all(result.ok for result in check(world, table, snapshot_id=2))


def second(files: list[Path]) -> Path:
    """The file of the second round: keys 3 and 5."""
    return files[1]


def without(file: Path, key: int) -> None:
    rows = read(file)
    rewrite(file, rows.filter(pa.compute.not_equal(rows["id"], key)))


DAMAGES: dict[str, tuple[Callable[[list[Path]], None], list[tuple[str, str, str | None]]]] = {
    "a doubled key": (
        lambda files: rewrite(files[0], pa.concat_tables([read(files[0]), read(files[0]).slice(7, 1)])),
        [("rows", "0", None), ("keys", "0", "bucket 0: key 7 occurs 2 times")],
    ),
    "a missing key": (
        lambda files: without(files[0], 19),
        [("rows", "0", None), ("values", "0", "bucket 0: key 19, last changed at offset 19, is missing")],
    ),
    "a missing delete": (
        lambda files: without(files[1], 5),
        [("rows", "0", None), ("values", "0", "bucket 0: key 5 was deleted at offset 22 and is still in the lake (offset 5)")],
    ),
    "a missing update": (
        lambda files: without(files[1], 3),
        [("values", "0", "bucket 0: key 3 was last changed at offset 21; the lake has it of offset 3")],
    ),
    "an update that is older by its sequence number": (
        lambda files: replace_column(files[1], "_SEQUENCE_NUMBER", [0, 22]),
        [("values", "0", "bucket 0: key 3 was last changed at offset 21; the lake has it of offset 3")],
    ),
    "a delete that is an update by its kind": (
        lambda files: replace_column(files[1], "_VALUE_KIND", [2, 2]),
        [("rows", "0", None), ("values", "0", "bucket 0: key 5 was deleted at offset 22 and is still in the lake (offset 22)")],
    ),
    "a changed value": (
        lambda files: replace_column(files[0], "text", ["wrong", *read(files[0])["text"].to_pylist()[1:]]),
        [("values", "0", "bucket 0: key 0, last changed at offset 0, has other values in the lake")],
    ),
    "another key to merge by": (
        lambda files: replace_column(files[1], "_KEY_id", [4, 5]),
        [
            ("keys", "0", "bucket 0: key 3 occurs 2 times"),
            ("values", "0", "bucket 0: key 4, last changed at offset 4, is missing"),
        ],
    ),
    "a row in another bucket": (
        lambda files: replace_column(files[0], "__bucket", [9, *read(files[0])["__bucket"].to_pylist()[1:]]),
        [("rows", "0", None), ("rows", "9", "the marker names no such bucket: another program wrote these rows")],
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_named(world: PaimonWorld, table: TableInfo, damage: str) -> None:
    spoil, expected = DAMAGES[damage]
    spoil(world.data_files(table))
    differences = faults(check(world, table))
    assert [entry for entry in differences if entry in expected] == expected, differences


def test_random_changes_in_many_rounds_and_partitions_are_right_and_each_lost_file_is_not(world: PaimonWorld) -> None:
    columns = pa.schema(
        [pa.field("day", pa.string(), nullable=False), pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int64())]
    )
    table = world.create("visits", TableSpec(columns, 2, primary_key=("day", "id"), partition_keys=("day",)))
    dice = random.Random(7)
    for number in range(0, 10, 2):
        rows = [(f"d{dice.randrange(2)}", dice.randrange(30)) for _ in range(25)]
        values = {"day": [day for day, _ in rows], "id": [key for _, key in rows], "n": [dice.randrange(9) for _ in rows]}
        world.storage.upsert(table.path, pa.table(values, schema=columns), "w", number)
        gone = {name: values[name][:6] for name in ("day", "id")}
        world.storage.delete(table.path, pa.table(gone, schema=pa.schema([columns.field(name) for name in gone])), "w", number + 1)
        world.tier(table)
    assert not [result for result in check(world, table) if result.ok is not True]
    for file in world.data_files(table):
        kept = read(file)
        rewrite(file, kept.slice(1))
        assert faults(check(world, table)) or is_covered(world, table, kept), file
        rewrite(file, kept)


def is_covered(world: PaimonWorld, table: TableInfo, rows: pa.Table) -> bool:
    """Whether a later file has a change of the first key of `rows`, or it is a delete of a key that had no row."""
    [key] = rows.slice(0, 1).select(["day", "id", "_SEQUENCE_NUMBER", "_VALUE_KIND"]).to_pylist()
    others = [read(file).to_pylist() for file in world.data_files(table)]
    same = [row for part in others for row in part if (row["day"], row["id"]) == (key["day"], key["id"])]
    newer = [row for row in same if row["_SEQUENCE_NUMBER"] > key["_SEQUENCE_NUMBER"]]
    older = [row for row in same if row["_SEQUENCE_NUMBER"] < key["_SEQUENCE_NUMBER"]]
    return bool(newer) or (key["_VALUE_KIND"] == 3 and all(row["_VALUE_KIND"] == 3 for row in older[-1:]))


def test_deletion_vectors_are_refused_by_name(world: PaimonWorld, table: TableInfo) -> None:
    schema = world.kit.folder(table) / "schema" / "schema-0"
    text = schema.read_text()
    schema.write_text(text.replace('"file.format": "parquet"', '"file.format": "parquet", "deletion-vectors.enabled": "true"'))
    with pytest.raises(InvalidArgument, match=r"deletion-vectors\.enabled = true: this version cannot read its rows from its files"):
        check(world, table)


def test_a_file_without_what_its_rows_are_merged_by_is_named(world: PaimonWorld, table: TableInfo) -> None:
    """In a merge, the rows of the file would not count as rows."""
    newer = second(world.data_files(table))
    rewrite(newer, read(newer).drop_columns(["_KEY_id"]))
    [(name, scope, details)] = faults(check(world, table))
    assert (name, scope) == ("files", "table")
    assert f"the file {newer} of sales.planes lacks one of the columns _KEY_id, _SEQUENCE_NUMBER, _VALUE_KIND" in str(details)
