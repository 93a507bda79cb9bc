"""The proof that a log table's lake copy equals its log, on tables that are right and on tables that were really damaged."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from support.worlds.lake_world import LakeWorld
from support.worlds.validated import check, data_files, faults, read, rewrite
from tiering.cluster.registry import EMBEDDED
from tiering.errors import InvalidArgument, SetupError, UnknownTable
from tiering.model.tables import TableInfo, TablePath
from tiering.validate.child import ClusterValidation
from tiering.validate.results import Level
from tiering.validate.run import validate

ROWS = 1_000


@pytest.fixture
def table(world: LakeWorld) -> TableInfo:
    orders = world.table("orders")
    world.append(orders, 0, ROWS)
    world.tier(orders)
    world.append(orders, ROWS, 100)
    world.tier(orders)
    return orders


def test_a_table_that_is_right_passes_every_check_of_every_level(world: LakeWorld, table: TableInfo) -> None:
    for level, checks in ((Level.COUNTS, {"rows"}), (Level.OFFSETS, {"rows", "offsets"}), (Level.ROWS, {"rows", "offsets", "values"})):
        results = check(world, table, level)
        assert all(result.ok for result in results), results
        assert {result.check for result in results} == {"base", "files", *checks}
    [first, *_] = [result for result in results if result.check == "rows"]
    assert (first.scope, first.expected, first.actual, first.engine, first.level) == ("0", "550", "550", "duckdb", "rows")
    assert first.lake_snapshot_id == world.view(table).head


def test_an_older_snapshot_is_compared_with_its_own_marker(world: LakeWorld, table: TableInfo) -> None:
    first = world.iceberg(table).metadata.snapshots[0].snapshot_id
    results = check(world, table, snapshot_id=first)
    assert not faults(results)
    assert [result.actual for result in results if result.check == "rows"] == ["500", "500"]


def test_a_missing_row_is_named_by_bucket_and_offset(world: LakeWorld, table: TableInfo) -> None:
    file = data_files(world, table)[0]
    rows = read(file)
    rewrite(file, pa.concat_tables([rows.slice(0, 123), rows.slice(124)]))
    differences = faults(check(world, table))
    assert differences[0] == ("rows", "0", "1 row missing")
    assert ("offsets", "0", "bucket 0: offset 123 is missing") in differences
    assert ("values", "0", "bucket 0: offset 123 is in the lake 0 times") in differences


def test_a_doubled_row_is_named_also_when_another_one_is_missing(world: LakeWorld, table: TableInfo) -> None:
    file = data_files(world, table)[0]
    rows = read(file)
    rewrite(file, pa.concat_tables([rows.slice(0, 200), rows.slice(70, 1), rows.slice(201)]))
    differences = faults(check(world, table, Level.OFFSETS))
    assert differences == [("offsets", "0", "bucket 0: offset 70 occurs 2 times")]


def test_a_changed_value_is_named_with_its_column(world: LakeWorld, table: TableInfo) -> None:
    file = data_files(world, table)[0]
    rows = read(file)
    texts = rows["text"].to_pylist()
    texts[5] = "not what was written"
    rewrite(file, rows.set_column(rows.schema.get_field_index("text"), rows.schema.field("text"), pa.array(texts)))
    assert not faults(check(world, table, Level.OFFSETS))
    differences = faults(check(world, table))
    assert differences == [("values", "0", "bucket 0: offset 5 has other values in the lake than in the log, in text")]


def test_rows_appended_by_another_program_are_found(world: LakeWorld, table: TableInfo) -> None:
    lake_table = world.iceberg(table)
    when = datetime(2026, 1, 1, tzinfo=UTC)
    row = {"id": 7, "text": "mine", "__bucket": 1, "__offset": 9_999, "__timestamp": when}
    lake_table.append(pa.Table.from_pylist([row], schema=lake_table.schema().as_arrow()))
    differences = faults(check(world, table))
    assert differences[0] == ("rows", "1", "1 row too many")
    assert ("offsets", "1", "bucket 1: offset 9999 lies outside of [0, 550)") in differences
    assert any(name == "values" and text is not None and "offset 9999" in text for name, _, text in differences)


def test_a_lake_file_that_was_deleted_is_named(world: LakeWorld, table: TableInfo) -> None:
    file = data_files(world, table)[0]
    file.unlink()
    assert faults(check(world, table)) == [("files", "table", f"1 file of the snapshot not there; the first is {file}")]


def test_a_lake_file_that_cannot_be_read_is_named(world: LakeWorld, table: TableInfo) -> None:
    file = data_files(world, table)[0]
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 3 : len(damaged) // 3 + 400] = bytes(400)
    file.write_bytes(bytes(damaged))
    differences = faults(check(world, table))
    assert differences
    assert any(str(file) in (text or "") or "bucket 0" in (text or "") for _, _, text in differences)


def test_a_flipped_bit_in_the_log_is_named(world: LakeWorld, table: TableInfo, tmp_path: Path) -> None:
    segment = sorted((tmp_path / "cluster" / "log").rglob("*.arrow"))[0]
    damaged = bytearray(segment.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    segment.chmod(0o644)
    segment.write_bytes(bytes(damaged))
    [(name, _, text)] = faults(check(world, table))
    assert name == "log"
    assert text is not None
    assert segment.name in text


def test_a_lake_that_was_rolled_back_is_named(world: LakeWorld, table: TableInfo) -> None:
    lake_table = world.iceberg(table)
    lake_table.manage_snapshots().set_current_snapshot(snapshot_id=lake_table.metadata.snapshots[0].snapshot_id).commit()
    [(name, _, text)] = faults(check(world, table))
    assert name == "base"
    assert text is not None
    assert text.startswith("LakeRolledBack: ")


def test_a_table_that_was_dropped_and_made_anew_is_named(world: LakeWorld, table: TableInfo) -> None:
    world.storage.drop_table(table.path)
    again = world.table("orders")
    [(name, _, text)] = faults(check(world, again))
    assert name == "base"
    assert text is not None
    assert text.startswith("TableMismatch: ")


def test_partitions_are_compared_each_by_its_name(world: LakeWorld) -> None:
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("day", pa.string(), nullable=False)])
    visits = world.table("visits", buckets=2, partition_keys=("day",), schema=schema)
    world.storage.append(visits.path, pa.table({"id": range(90), "day": [f"d{n % 3}" for n in range(90)]}, schema=schema), "w", 0)
    world.tier(visits)
    results = check(world, visits)
    assert not faults(results)
    assert sum(int(result.actual or 0) for result in results if result.check == "rows") == 90
    assert {result.scope.split("/")[0] for result in results if result.check == "values"} == {"d0", "d1", "d2"}


def test_what_was_never_tiered_and_what_is_not_there_are_errors(world: LakeWorld, table: TableInfo) -> None:
    with pytest.raises(InvalidArgument, match="was never tiered"):
        check(world, world.table("fresh"))
    with pytest.raises(UnknownTable):
        validate(world.storage, world.lake, TablePath("sales", "nothing"), Level.COUNTS)
    with pytest.raises(InvalidArgument, match="has no snapshot 17"):
        check(world, table, snapshot_id=17)


def test_a_child_process_does_the_same_with_nothing_running(world: LakeWorld, table: TableInfo, tmp_path: Path) -> None:
    validation = ClusterValidation(EMBEDDED, tmp_path / "cluster", "iceberg", world.lake_properties)
    beside_a_running_one = validation.run(table.path, "rows")
    world.close()
    alone = validation.run(table.path, "rows")
    assert [(result.check, result.scope, result.ok) for result in alone] == [
        (result.check, result.scope, result.ok) for result in beside_a_running_one
    ]
    assert all(result.ok for result in alone)
    shutil.rmtree(tmp_path / "cluster")
    with pytest.raises(SetupError, match="has no embedded cluster"):
        validation.run(table.path, "rows")


def test_a_child_that_dies_is_an_error_of_its_own(world: LakeWorld, table: TableInfo, tmp_path: Path) -> None:
    validation = ClusterValidation(EMBEDDED, tmp_path / "cluster", "iceberg", world.lake_properties)
    with pytest.raises(Exception, match="died with status -9"):
        validation.run(table.path, "rows", started=lambda process: process.kill())
