"""The proof of primary-key tables without system columns: by keys and values, by footers, and by the chain in the marker."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from support.worlds.lake_world import PRIMARY_KEY_SCHEMA, LakeWorld
from support.worlds.validated import check, data_files, faults, read, replace_column, rewrite, untold
from tiering.model.tables import BucketKey, TableInfo
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
    planes = world.primary_key_table("planes", buckets=1, datalake_layout="clean")
    upsert(world, planes, 0, {key: f"row {key}" for key in range(20)})
    world.tier(planes)
    upsert(world, planes, 1, {3: "newer"})
    delete(world, planes, 2, 5)
    world.tier(planes)
    return planes


def files_of(world: LakeWorld, table: TableInfo) -> tuple[Path, Path]:
    """The first round's file, and the second's."""
    first, second = data_files(world, table)
    assert (len(read(first)), len(read(second))) == (20, 1)
    return first, second


def test_a_table_that_is_right_passes_every_check_of_every_level(world: LakeWorld, table: TableInfo) -> None:
    offsets = {"rows", "chain", "keys"}
    for level, checks in ((Level.COUNTS, {"rows"}), (Level.OFFSETS, offsets), (Level.ROWS, {*offsets, "values"})):
        results = check(world, table, level)
        assert all(result.ok for result in results), results
        assert {result.check for result in results} == {"base", "files", "footers", *checks}
    assert world.iceberg(table).schema().column_names == ["id", "text"]
    marker = world.view(table).marker
    assert marker is not None
    assert marker.proofs[BucketKey(None, 0)].rows == 21  # written, whatever became of them


def test_damages_are_named_by_key(world: LakeWorld, table: TableInfo) -> None:
    first, second = files_of(world, table)
    rows, newer = read(first), read(second)
    rewrite(first, pa.concat_tables([rows, rows.slice(7, 1)]))
    twice = faults(check(world, table, Level.OFFSETS))
    assert twice == [("rows", "0", None), ("keys", "0", "bucket 0: key 7 occurs 2 times")]
    rewrite(first, rows.slice(0, 19))
    assert ("values", "0", "bucket 0: key 19, last changed at offset 19, is missing") in faults(check(world, table))
    rewrite(first, pa.concat_tables([rows, rows.slice(5, 1)]))
    dead = ("values", "0", "bucket 0: key 5 was deleted at offset 22 and is still in the lake")
    assert dead in faults(check(world, table))
    rewrite(first, rows)
    rewrite(second, rows.slice(3, 1).replace_schema_metadata(newer.schema.metadata))
    older = ("values", "0", "bucket 0: key 3, last changed at offset 21, has other values in the lake")
    assert faults(check(world, table)) == [older]


def test_a_row_that_the_log_never_had_is_named(world: LakeWorld, table: TableInfo) -> None:
    world.iceberg(table).append(pa.table({"id": [77], "text": ["mine"]}, schema=PRIMARY_KEY_SCHEMA))
    unheard = ("values", "0", "bucket 0: key 77 is in the lake; the log has no change of it")
    assert faults(check(world, table)) == [("rows", "0", None), unheard]


def test_a_compaction_changes_nothing_and_rounds_go_on(world: LakeWorld, table: TableInfo) -> None:
    loaded = world.iceberg(table)
    loaded.overwrite(loaded.scan().to_arrow())
    assert not faults(check(world, table))
    upsert(world, table, 3, {3: "newest", 5: "back", 40: "new"})
    world.tier(table)
    assert not faults(check(world, table))
    assert world.iceberg(table).scan().to_arrow().num_rows == 21


def test_a_bucket_that_is_written_anew_by_us_has_footers_of_all_its_rows(world: LakeWorld) -> None:
    planes = world.primary_key_table("planes", buckets=1, datalake_layout="clean")
    for sequence in range(12):
        upsert(world, planes, sequence, dict.fromkeys(range(sequence % 3, 40), f"round {sequence}"))
        world.tier(planes)
        assert not faults(check(world, planes))
    operations = [snapshot.summary.operation.value for snapshot in world.iceberg(planes).metadata.snapshots if snapshot.summary]
    assert "overwrite" in operations
    marker = world.view(planes).marker
    assert marker is not None
    assert marker.proofs[BucketKey(None, 0)].rows == sum(40 - sequence % 3 for sequence in range(12))


@pytest.mark.parametrize("compacted", [False, True])
def test_rows_of_a_former_partition_are_not_written_anew_as_rows_of_the_present_one(world: LakeWorld, compacted: bool) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("day", pa.string(), nullable=False)])
    visits = world.primary_key_table("visits", 1, schema, ("id", "day"), ("day",), datalake_layout="clean")

    def visit(sequence: int, ids: range) -> None:
        rows = pa.table({"id": list(ids), "day": ["d0"] * len(ids)}, schema=schema)
        world.storage.upsert(visits.path, rows, f"writer-{sequence}", 0)
        world.tier(visits)

    visit(0, range(10))
    if compacted:
        loaded = world.iceberg(visits)
        loaded.overwrite(loaded.scan().to_arrow())
    world.storage.drop_partition(visits.path, "d0")
    for sequence in range(1, 4):  # most of what stands there dies: the rest is written anew
        visit(sequence, range(8))
    results = check(world, visits)
    assert not faults(results)
    former = "not in the log, or of a" if compacted else "2 rows are older than the partition's log: of a"
    [(_, scope, details)] = [entry for entry in untold(results) if entry[0] == "rows"]
    assert (scope, former in str(details)) == ("d0/0", True)
    files = [len(read(file)) for file in data_files(world, visits)]
    assert sorted(files) == [8, 10], "the round's file alone was written anew"
    assert sorted(world.iceberg(visits).scan().to_arrow()["id"].to_pylist()) == list(range(10))


def test_rows_of_a_kv_snapshot_and_a_log_that_was_cut(world: LakeWorld) -> None:
    planes = world.primary_key_table("planes", buckets=1, log_ttl="1 s", datalake_layout="clean")
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
    results = check(world, planes)
    assert not faults(results)
    assert not untold(results)
    oldest = data_files(world, planes)[0]
    replace_column(oldest, "text", ["wrong", *read(oldest)["text"].to_pylist()[1:]])
    # The log does not have that row's change any more; the KV snapshot and the footer of its file still tell.
    assert [name for name, *_ in faults(check(world, planes))] == ["values", "checksums"]
    assert faults(check(world, planes))[1:] == [("checksums", "table", f"the file {oldest} has other rows than were written to it")]
