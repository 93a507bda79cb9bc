"""The proof of log tables without system columns: by footers, by the marker, and by totals after another program rewrote files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.background import tick
from support.on_call import follow, in_lake
from support.worlds.lake_world import SCHEMA, LakeWorld
from support.worlds.validated import check, data_files, faults, read, replace_column, replace_marker, rewrite, untold
from tiering.lake.marker import Marker
from tiering.model.tables import BucketKey, TableInfo
from tiering.procedures.validate_table import CheckResult
from tiering.validate.results import Level

B0 = BucketKey(None, 0)
BY_LEDGER = "another program rewrote files of it, whose rows have no offsets: proved by the number of rows and their checksum"


@pytest.fixture
def table(world: LakeWorld) -> TableInfo:
    """Two buckets with the offsets 0 to 99 in one file each, 100 to 149 in another."""
    orders = world.table("orders", datalake_layout="clean")
    for start, count in ((0, 200), (200, 100)):
        world.append(orders, start, count)
        world.tier(orders)
    return orders


def marker_of(world: LakeWorld, table: TableInfo) -> Marker:
    marker = world.view(table).marker
    assert marker is not None
    return marker


def file_of(world: LakeWorld, table: TableInfo, bucket: int, first: int) -> Path:
    """The file of a bucket whose rows begin at an offset."""
    [file] = [
        file for file in data_files(world, table) if footer(file)[b"lakeward.bucket"] == str(bucket).encode() and starts_at(file) == first
    ]
    return file


def footer(file: Path) -> dict[bytes, bytes]:
    return dict(pq.read_metadata(file).metadata or {})


def starts_at(file: Path) -> int:
    return int(footer(file)[b"lakeward.offsets"].split(b"-")[0])


def compact(world: LakeWorld, table: TableInfo, rows: pa.Table | None = None) -> None:
    """Rewrites all files, as a compaction does."""
    loaded = world.iceberg(table)
    loaded.overwrite(loaded.scan().to_arrow() if rows is None else rows)


def answer(results: list[CheckResult], check_name: str) -> list[tuple[str, bool | None, str | None]]:
    return [(result.scope, result.ok, result.details) for result in results if result.check == check_name]


def test_a_clean_table_has_the_columns_of_its_source_alone(world: LakeWorld, table: TableInfo) -> None:
    loaded = world.iceberg(table)
    assert loaded.schema().column_names == ["id", "text"]
    assert (loaded.spec().fields, loaded.sort_order().fields) == ((), [])
    assert sorted(loaded.scan().to_arrow()["id"].to_pylist()) == list(range(300))


def test_a_table_that_is_right_passes_every_check_of_every_level(world: LakeWorld, table: TableInfo) -> None:
    offsets = {"rows", "chain", "cover", "offsets"}
    for level, checks in ((Level.COUNTS, {"rows"}), (Level.OFFSETS, offsets), (Level.ROWS, {*offsets, "values"})):
        results = check(world, table, level)
        assert all(result.ok for result in results), results
        assert {result.check for result in results} == {"base", "files", "footers", *checks}
    first = world.iceberg(table).metadata.snapshots[0].snapshot_id
    older = check(world, table, snapshot_id=first)
    assert not faults(older)
    assert [result.actual for result in older if result.check == "rows"] == ["100", "100"]


def test_a_changed_value_is_named_with_its_offset_and_column(world: LakeWorld, table: TableInfo) -> None:
    file = file_of(world, table, 0, 100)
    replace_column(file, "text", ["not what was written", *read(file)["text"].to_pylist()[1:]])
    assert not faults(check(world, table, Level.OFFSETS))
    assert faults(check(world, table)) == [("values", "0", "bucket 0: offset 100 has other values in the lake than in the log, in text")]


def test_a_missing_row_is_named(world: LakeWorld, table: TableInfo) -> None:
    file = file_of(world, table, 0, 0)
    rows = read(file)
    rewrite(file, pa.concat_tables([rows.slice(0, 50), rows.slice(51)]))
    differences = faults(check(world, table))
    assert differences[0] == ("rows", "0", "1 row missing")
    assert ("values", "0", "bucket 0: offset 50 has other values in the lake than in the log, in id, text") in differences


def test_a_doubled_row_in_the_place_of_another_is_named(world: LakeWorld, table: TableInfo) -> None:
    file = file_of(world, table, 1, 0)
    rows = read(file)
    rewrite(file, pa.concat_tables([rows.slice(0, 20), rows.slice(7, 1), rows.slice(21)]))
    assert faults(check(world, table)) == [("values", "1", "bucket 1: offset 20 has other values in the lake than in the log, in id, text")]


def test_a_file_that_left_the_snapshot_is_a_gap_by_footers_and_marker_alone(world: LakeWorld, table: TableInfo) -> None:
    loaded, gone = world.iceberg(table), file_of(world, table, 1, 0)
    with loaded.transaction() as transaction, transaction.update_snapshot().overwrite() as overwrite:
        for task in loaded.scan().plan_files():
            if task.file.file_path.endswith(gone.name):
                overwrite.delete_data_file(task.file)
    differences = faults(check(world, table, Level.OFFSETS))
    assert ("rows", "1", "100 rows missing") in differences
    assert ("cover", "1", "bucket 1: no file has the offsets 0 to 99") in differences
    assert ("offsets", "1", "bucket 1: offset 0 is missing") in differences


def test_a_file_that_is_listed_twice_is_named(world: LakeWorld, table: TableInfo) -> None:
    loaded = world.iceberg(table)
    [doubled] = [task.file for task in loaded.scan().plan_files() if task.file.file_path.endswith(file_of(world, table, 0, 100).name)]
    with loaded.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        append.append_data_file(doubled)
    differences = faults(check(world, table))
    assert differences[0] == ("rows", "0", "50 rows too many")
    assert ("cover", "0", "bucket 0: two files have the offset 100") in differences
    assert ("offsets", "0", "bucket 0: offset 100 occurs 2 times") in differences


def test_a_file_that_lost_its_footer_is_named(world: LakeWorld, table: TableInfo) -> None:
    file = file_of(world, table, 0, 0)
    rewrite(file, read(file).replace_schema_metadata(None))
    [(name, scope, text), *others] = faults(check(world, table))
    assert (name, scope) == ("footers", "table")
    assert text is not None
    assert file.name in text
    assert not others  # the rows are those that the marker counted


def test_a_marker_that_does_not_go_on_from_the_one_before_is_named(world: LakeWorld, table: TableInfo) -> None:
    marker = marker_of(world, table)
    forged = replace(marker.proofs[B0], rows=151)
    replace_marker(world, table, replace(marker, proofs={**marker.proofs, B0: forged}))
    differences = faults(check(world, table, Level.OFFSETS))
    broken = f"the marker of round {marker.round_id} does not go on from that of round {marker.base_round_id} in bucket 0"
    assert differences[0] == ("chain", "table", broken)
    assert differences[1][:2] == ("cover", "0")


def test_after_a_compaction_totals_are_compared_with_the_ledger_and_the_log(world: LakeWorld, table: TableInfo) -> None:
    compact(world, table)
    results = check(world, table)
    assert not faults(results)
    assert answer(results, "rows") == [("table", True, BY_LEDGER)]
    assert answer(results, "values") == [("table", True, "by the ledger of rounds and by the log")]
    world.append(table, 300, 50)
    world.tier(table)  # goes on, with files that tell their offsets beside those that do not
    assert not faults(check(world, table))


def test_a_bucket_without_rows_hinders_no_proof_of_the_others(world: LakeWorld) -> None:
    table = world.table("few", buckets=4, datalake_layout="clean")
    world.append(table, 0, 20)  # two buckets of four
    world.tier(table)
    compact(world, table)
    results = check(world, table)
    assert not faults(results)
    assert answer(results, "values") == [("table", True, "by the ledger of rounds and by the log")]


def test_a_value_that_a_compaction_changed_is_found(world: LakeWorld, table: TableInfo) -> None:
    rows = world.iceberg(table).scan().to_arrow()
    compact(world, table, rows.set_column(1, rows.schema.field(1), pa.array(["other", *rows["text"].to_pylist()[1:]])))
    assert [(name, scope) for name, scope, _ in faults(check(world, table))] == [("values", "table")]


def test_a_row_that_a_compaction_lost_or_doubled_is_found(world: LakeWorld, table: TableInfo) -> None:
    rows = world.iceberg(table).scan().to_arrow()
    compact(world, table, rows.slice(1))
    assert ("rows", "table", f"1 row missing; {BY_LEDGER}") in faults(check(world, table))
    compact(world, table, pa.concat_tables([rows, rows.slice(0, 1)]))
    assert ("rows", "table", f"1 row too many; {BY_LEDGER}") in faults(check(world, table))
    compact(world, table, pa.concat_tables([rows.slice(1), rows.slice(5, 1)]))
    assert [(name, scope) for name, scope, _ in faults(check(world, table))] == [("values", "table")]


def test_rows_appended_by_another_program_are_found(world: LakeWorld, table: TableInfo) -> None:
    world.iceberg(table).append(pa.table({"id": [7], "text": ["mine"]}, schema=SCHEMA))
    assert faults(check(world, table))[0] == ("rows", "table", f"1 row too many; {BY_LEDGER}")


def cut_log(world: LakeWorld, table: TableInfo) -> int:
    """Cuts the log of the one bucket; where it begins now."""
    world.clock.advance(3_600 - 150)
    world.storage.maintenance.run()
    [log] = world.storage.offsets(table).values()
    assert 0 < log.log_start < log.log_end
    return log.log_start


@pytest.fixture
def kept(world: LakeWorld) -> TableInfo:
    """One bucket of 30 rows in two files; its log is cut after an hour."""
    table = world.table("kept", buckets=1, datalake_layout="clean")
    world.storage.alter_table(table.path, {"table.log.ttl": "1 h"})
    for number in range(3):
        rows = pa.table({"id": range(number * 10, number * 10 + 10), "text": ["x"] * 10}, schema=SCHEMA)
        world.storage.append(table.path, rows, "w", number)
        world.clock.advance(60)
        if number:
            world.tier(table)
    return table


def test_rows_that_the_log_has_no_more_are_proved_by_the_checksum_of_their_file(world: LakeWorld, kept: TableInfo) -> None:
    begin = cut_log(world, kept)
    results = check(world, kept)
    assert not faults(results)
    assert answer(results, "checksums") == [("table", True, None)]
    assert untold(results) == [
        ("values", "0", f"bucket 0: the log no longer holds offsets 0 to {begin - 1}: their rows cannot be compared")
    ]
    file = file_of(world, kept, 0, 0)
    replace_column(file, "text", ["y", *["x"] * 19])
    assert faults(check(world, kept)) == [("checksums", "table", f"the file {file} has other rows than were written to it")]


def test_after_a_compaction_the_ledger_alone_proves_what_the_log_has_no_more(world: LakeWorld, kept: TableInfo) -> None:
    cut_log(world, kept)
    compact(world, kept)
    results = check(world, kept)
    assert not faults(results)
    assert answer(results, "values") == [("table", True, "by the ledger of rounds alone: the log does not hold all of these rows any more")]


def test_a_partition_that_was_made_anew_is_told_from_its_former_one_by_the_footers(world: LakeWorld) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("day", pa.string(), nullable=False)])
    visits = world.table("visits", buckets=1, partition_keys=("day",), schema=schema, datalake_layout="clean")
    for writer, count in (("w", 30), ("x", 20)):
        world.storage.append(visits.path, pa.table({"id": range(count), "day": ["d0"] * count}, schema=schema), writer, 0)
        world.tier(visits)
        assert not faults(check(world, visits))
        if writer == "w":
            world.storage.drop_partition(visits.path, "d0")
            tick(world.coordinator)
    results = check(world, visits)
    text = "30 rows are older than the partition's log: of a former partition of that name, taken as they are"
    assert untold(results) == [("rows", "d0/0", text)]
    assert [result.actual for result in results if result.check == "rows" and result.ok] == ["20"]


def test_rows_too_many_in_a_partition_are_a_fault_unless_a_partition_was_dropped(world: LakeWorld) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("day", pa.string(), nullable=False)])
    visits = world.table("visits", buckets=1, partition_keys=("day",), schema=schema, datalake_layout="clean")
    for number in range(2):
        world.storage.append(visits.path, pa.table({"id": range(20), "day": ["d0", "d1"] * 10}, schema=schema), "w", number)
        world.tier(visits)
    world.iceberg(visits).append(pa.table({"id": [7], "day": ["d0"]}, schema=schema))
    assert faults(check(world, visits, Level.COUNTS)) == [("rows", "d0", f"1 row too many; {BY_LEDGER}")]
    assert [(name, scope) for name, scope, _ in faults(check(world, visits))] == [("rows", "d0"), ("values", "d0")]
    world.storage.drop_partition(visits.path, "d1")
    tick(world.coordinator)
    results = check(world, visits)
    assert not faults(results)
    text = "1 row too many, or of a former partition of that name: files that another program rewrote do not show which"
    assert untold(results)[-1] == ("rows", "d0", text)


def test_rows_of_a_former_partition_in_files_written_anew_are_no_fault_where_the_marker_has_no_proof(world: LakeWorld) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("day", pa.string(), nullable=False)])
    visits = world.table("visits", buckets=1, partition_keys=("day",), schema=schema, datalake_layout="clean")
    for writer, count in (("w", 30), ("x", 20)):
        world.storage.append(visits.path, pa.table({"id": range(count), "day": ["d0"] * count}, schema=schema), writer, 0)
        world.tier(visits)
        if writer == "w":
            world.storage.drop_partition(visits.path, "d0")
            tick(world.coordinator)
    replace_marker(world, visits, replace(marker_of(world, visits), proofs={}))
    compact(world, visits)
    text = "30 rows too many, or of a former partition of that name: files that another program rewrote do not show which"
    results = check(world, visits)
    assert (faults(results), untold(results)) == ([], [("rows", "d0", text)])


def test_a_marker_that_repeats_the_proof_of_an_expired_snapshot_is_not_named(world: LakeWorld, table: TableInfo) -> None:
    """A user rolls the lake table back to the first snapshot. The reconciliation repeats the proofs of that snapshot's marker, and its own
    marker names the second round as its base."""
    first, _ = world.by_hand.snapshots(table.path)
    world.by_hand.roll_back(table.path, first)
    world.append(table, 300, 10)
    assert world.tier(table).error is not None
    [statement] = follow(world.coordinator, table, in_lake(world))
    assert "'retier'" in statement
    for start in (310, 320):
        world.append(table, start, 10)
        assert world.tier(table).error is None
    assert faults(check(world, table)) == []
    world.by_hand.expire_these(table.path, [first])
    assert faults(check(world, table)) == []
