"""The proof of Paimon primary-key tables without system columns: by keys and values, by footers, and by the chain in the marker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.background import tick
from support.lakes.paimon_kit import overwrite
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA
from support.worlds.paimon_world import PaimonWorld
from support.worlds.validated import check, faults, read, replace_column, rewrite, untold
from tiering.cluster.writable import TableSpec
from tiering.model.rounds import RoundState
from tiering.model.tables import BucketKey, TableInfo
from tiering.validate.results import Level


def upsert(world: PaimonWorld, table: TableInfo, sequence: int, rows: dict[int, str | None]) -> None:
    world.storage.upsert(table.path, pa.table({"id": list(rows), "text": list(rows.values())}, schema=table.schema), "w", sequence)


def delete(world: PaimonWorld, table: TableInfo, sequence: int, *keys: int) -> None:
    gone = pa.table({"id": pa.array(keys, pa.int64())}, schema=pa.schema([table.schema.field("id")]))
    world.storage.delete(table.path, gone, "w", sequence)


@pytest.fixture
def table(world: PaimonWorld) -> TableInfo:
    """Keys 0..19 at offsets 0..19; then key 3 updated at 20 (-U) and 21 (+U), and key 5 deleted at 22."""
    planes = world.keyed_table("planes", buckets=1, datalake_layout="clean")
    upsert(world, planes, 0, {key: f"row {key}" for key in range(20)})
    world.tier(planes)
    upsert(world, planes, 1, {3: "newer"})
    delete(world, planes, 2, 5)
    world.tier(planes)
    return planes


def test_a_table_that_is_right_passes_every_check_of_every_level(world: PaimonWorld, table: TableInfo) -> None:
    assert world.kit.read(table).column_names == ["id", "text"]
    offsets = {"rows", "chain", "keys", "cover"}
    for level, checks in ((Level.COUNTS, {"rows"}), (Level.OFFSETS, offsets), (Level.ROWS, {*offsets, "values"})):
        results = check(world, table, level)
        assert all(result.ok for result in results), results
        assert {result.check for result in results} == {"base", "files", "places", "footers", *checks}
    [rows] = [result for result in results if result.check == "rows"]
    assert (rows.expected, rows.actual) == ("19", "19")
    assert all(result.ok for result in check(world, table, snapshot_id=1))


def test_footers_tell_the_changes_that_a_file_has_and_files_of_changes_have_none(world: PaimonWorld, table: TableInfo) -> None:
    texts_of_files = [
        {key.decode(): value.decode() for key, value in (pq.read_metadata(file).metadata or {}).items()} for file in world.data_files(table)
    ]
    assert [(of["lakeward.changes"], of["lakeward.rows"]) for of in texts_of_files] == [("0-20", "20"), ("20-23", "2")]
    followed = list(world.kit.folder(table).rglob("*-changelog-*.parquet"))
    assert len(followed) == 2
    marker = world.kit.view(table).marker
    assert marker is not None
    assert marker.proofs[BucketKey(None, 0)].rows == 21  # written, whatever became of them


def without(file: Path, key: int) -> None:
    """The file as if it had never had the key; its footer stays as it is."""
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
        [("rows", "0", None), ("values", "0", "bucket 0: key 5 was deleted at offset 22 and is still in the lake")],
    ),
    "a missing update": (
        lambda files: without(files[1], 3),
        [("values", "0", "bucket 0: key 3, last changed at offset 21, has other values in the lake")],
    ),
    "an update that is older by its sequence number": (
        lambda files: replace_column(files[1], "_SEQUENCE_NUMBER", [0, 22]),
        [("values", "0", "bucket 0: key 3, last changed at offset 21, has other values in the lake")],
    ),
    "a delete that is an update by its kind": (
        lambda files: replace_column(files[1], "_VALUE_KIND", [2, 2]),
        [("rows", "0", None), ("values", "0", "bucket 0: key 5 was deleted at offset 22 and is still in the lake")],
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
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_named(world: PaimonWorld, table: TableInfo, damage: str) -> None:
    spoil, expected = DAMAGES[damage]
    spoil(world.data_files(table))
    differences = faults(check(world, table))
    assert [entry for entry in differences if entry in expected] == expected, differences


def cut_log(world: PaimonWorld) -> TableInfo:
    """Ten keys of a KV snapshot, then two changes; the log begins behind the snapshot."""
    planes = world.keyed_table("planes", buckets=1, log_ttl="1 s", datalake_layout="clean")
    upsert(world, planes, 0, {key: f"row {key}" for key in range(10)})
    world.storage.take_kv_snapshots(planes.path)
    world.tier(planes)
    assert not faults(check(world, planes))
    world.clock.advance(60)
    upsert(world, planes, 1, {2: "newer", 30: "new"})
    world.tier(planes)
    world.storage.maintenance.run()
    [log] = world.storage.offsets(planes).values()
    assert log.log_start == 10
    return planes


def test_what_the_log_has_no_more_is_proved_by_the_checksums_of_files(world: PaimonWorld) -> None:
    planes = cut_log(world)
    results = check(world, planes)
    assert not faults(results)
    assert not untold(results)
    oldest = world.data_files(planes)[0]
    kept = read(oldest)
    replace_column(oldest, "text", ["wrong", *kept["text"].to_pylist()[1:]])
    assert faults(check(world, planes))[-1] == ("checksums", "table", f"the file {oldest} has other rows than were written to it")
    rewrite(oldest, kept)
    replace_column(oldest, "_VALUE_KIND", [3, *kept["_VALUE_KIND"].to_pylist()[1:]])
    assert faults(check(world, planes))[-1] == ("checksums", "table", f"the file {oldest} has other rows than were written to it")


def test_a_file_that_left_the_snapshot_is_missed_though_the_log_has_its_changes_no_more(world: PaimonWorld) -> None:
    planes = cut_log(world)
    world.kit.without_file(planes, world.data_files(planes)[0].name)
    (rows, _, _), (name, scope, text) = faults(check(world, planes, Level.OFFSETS))
    assert (rows, name, scope) == ("rows", "cover", "0")
    assert "files of rounds are missing, or there twice" in str(text)


def test_files_that_another_program_rewrote_change_nothing_and_rounds_go_on(world: PaimonWorld, table: TableInfo) -> None:
    overwrite(world.kit, table, world.kit.read(table))
    results = check(world, table)
    assert not faults(results)
    assert "cover" not in {result.check for result in results}
    upsert(world, table, 3, {3: "newest", 5: "back", 40: "new"})
    assert world.tier(table).state is RoundState.SUCCEEDED
    assert not faults(check(world, table))
    assert world.kit.read(table).num_rows == 21


def test_several_keys_are_told_apart_by_paimons_own_buckets(world: PaimonWorld) -> None:
    columns = pa.schema(
        [pa.field("id", pa.int64(), nullable=False), pa.field("city", pa.string(), nullable=False), pa.field("n", pa.int32())]
    )
    places = world.create("places", TableSpec(columns, 3, primary_key=("id", "city")), datalake_layout="clean")
    for number in range(3):
        rows = {"id": range(40), "city": ["a", "b"] * 20, "n": [number] * 40}
        world.storage.upsert(places.path, pa.table(rows, schema=columns), "w", number)
        world.tier(places)
    assert all(result.ok for result in check(world, places))
    assert sorted(world.kit.read(places)["n"].to_pylist()) == [2] * 40


def test_a_partition_that_came_again_is_compared_without_the_rows_of_the_former_one(world: PaimonWorld) -> None:
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("day", pa.string(), nullable=False)])
    visits = world.create("visits", TableSpec(columns, 1, primary_key=("id", "day"), partition_keys=("day",)), datalake_layout="clean")
    for writer, ids in (("w", range(30)), ("x", range(100, 110))):
        world.storage.upsert(visits.path, pa.table({"id": ids, "day": ["d0"] * len(ids)}, schema=columns), writer, 0)
        world.tier(visits)
        if writer == "w":
            world.storage.drop_partition(visits.path, "d0")
            tick(world.coordinator)
    results = check(world, visits)
    assert not faults(results), results
    text = "30 rows are older than the partition's log: of a former partition of that name, taken as they are"
    assert untold(results) == [("rows", "d0/0", text)]


def test_random_flips_of_bits_are_found_wherever_they_change_a_row(world: PaimonWorld) -> None:
    planes = world.keyed_table("planes", buckets=1, datalake_layout="clean")
    data = pa.table({"id": range(100), "text": [f"row {key}" for key in range(100)]}, schema=PRIMARY_KEY_SCHEMA)
    world.storage.upsert(planes.path, data, "w", 0)
    world.tier(planes)
    [file] = world.data_files(planes)
    content, right = file.read_bytes(), read(file)
    for place in range(4, len(content), 131):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        file.write_bytes(bytes(damaged))
        if not faults(check(world, planes)):
            rows = read(file)
            assert right.select(["id", "text"]).equals(rows.select(["id", "text"])), place
            assert set(rows["_VALUE_KIND"].to_pylist()) <= {0, 2}, place
