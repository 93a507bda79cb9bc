"""The proof of Paimon log tables without system columns: by footers, by the marker, and by totals after another program rewrote files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.background import tick
from support.lakes.paimon_kit import overwrite
from support.worlds.lake_world import SCHEMA
from support.worlds.paimon_world import PaimonWorld
from support.worlds.validated import check, faults, read, replace_column, rewrite, untold
from tiering.cluster.log_writer import LogWriter
from tiering.cluster.writable import TableSpec
from tiering.model.rounds import RoundState
from tiering.model.schema.changes import additions
from tiering.model.tables import TableInfo
from tiering.procedures.validate_table import CheckResult
from tiering.validate.results import Level

BY_LEDGER = "another program rewrote files of it, whose rows have no offsets: proved by the number of rows and their checksum"


@pytest.fixture
def table(world: PaimonWorld) -> TableInfo:
    """200 rows in two buckets and two rounds: 50 offsets of a bucket in each of its files."""
    orders = world.log_table("orders", datalake_layout="clean")
    for start in (0, 100):
        world.append(orders, start, 100)
        world.tier(orders)
    return orders


def footer(file: Path) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in (pq.read_metadata(file).metadata or {}).items()}


def file_of(world: PaimonWorld, table: TableInfo, bucket: int, first: int) -> Path:
    """The file of a bucket whose rows begin at an offset."""
    wanted = (str(bucket), str(first))
    by_file = {file: footer(file) for file in world.data_files(table)}
    [file] = [file for file, of in by_file.items() if (of["lakeward.bucket"], of["lakeward.offsets"].split("-")[0]) == wanted]
    return file


def answer(results: list[CheckResult], check_name: str) -> list[tuple[str, bool | None, str | None]]:
    return [(result.scope, result.ok, result.details) for result in results if result.check == check_name]


def test_a_table_that_is_right_passes_every_check_of_every_level(world: PaimonWorld, table: TableInfo) -> None:
    assert world.kit.read(table).column_names == ["id", "text"]
    offsets = {"rows", "chain", "cover", "offsets"}
    for level, checks in ((Level.COUNTS, {"rows"}), (Level.OFFSETS, offsets), (Level.ROWS, {*offsets, "values"})):
        results = check(world, table, level)
        assert all(result.ok for result in results), results
        assert {result.check for result in results} == {"base", "files", "places", "footers", *checks}
    older = check(world, table, snapshot_id=1)
    assert all(result.ok for result in older), older
    assert {result.expected for result in older if result.check == "rows"} == {"50"}


def swapped(file: Path) -> None:
    """Row 20 is row 7 instead."""
    rows = read(file)
    rewrite(file, pa.concat_tables([rows.slice(0, 20), rows.slice(7, 1), rows.slice(21)]))


DAMAGES: dict[str, tuple[Callable[[Path], None], list[tuple[str, str, str | None]]]] = {
    "a missing row": (
        lambda file: rewrite(file, pa.concat_tables([read(file).slice(0, 20), read(file).slice(21)])),
        [
            ("offsets", "0", "bucket 0: offset 49 is missing"),
            ("values", "0", "bucket 0: offset 20 has other values in the lake than in the log, in id, text"),
        ],
    ),
    "a doubled row in the place of another": (
        swapped,
        [("values", "0", "bucket 0: offset 20 has other values in the lake than in the log, in id, text")],
    ),
    "a changed value": (
        lambda file: replace_column(file, "text", ["wrong", *read(file)["text"].to_pylist()[1:]]),
        [("values", "0", "bucket 0: offset 0 has other values in the lake than in the log, in text")],
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_named(world: PaimonWorld, table: TableInfo, damage: str) -> None:
    spoil, expected = DAMAGES[damage]
    spoil(file_of(world, table, 0, 0))
    differences = faults(check(world, table))
    assert all(entry in differences for entry in expected), differences


def test_a_file_that_lost_its_footer_or_has_that_of_another_is_named(world: PaimonWorld, table: TableInfo) -> None:
    file, other = file_of(world, table, 0, 0), file_of(world, table, 0, 50)
    kept = file.read_bytes()
    rewrite(file, read(file).replace_schema_metadata(None))
    [(name, scope, text)] = faults(check(world, table))
    assert (name, scope, text) == ("footers", "table", f"the file {file} has lost its footer: another program rewrote it in place")
    shutil.copy(other, file)
    differences = faults(check(world, table, Level.OFFSETS))
    assert differences[0] == ("footers", "table", f"the file {file} has the footer of a file of round {footer(other)['lakeward.round']}")
    file.write_bytes(kept)
    assert not faults(check(world, table))


def test_a_file_in_another_bucket_or_partition_than_its_own_is_named(world: PaimonWorld) -> None:
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("day", pa.date32(), nullable=False)])
    table = world.create("visits", TableSpec(columns, 2, ("id",), partition_keys=("day",)), datalake_layout="clean")
    rows = {"id": range(60), "day": pa.array([18_000 + number % 2 for number in range(60)], pa.date32())}
    LogWriter(world.storage, table.path, "w").append(pa.table(rows, schema=columns))
    world.tier(table)
    results = check(world, table)
    assert all(result.ok for result in results), results
    assert {result.scope for result in results if result.check == "values"} == {f"2019-04-{day}/{n}" for day in (14, 15) for n in (0, 1)}
    mine, other = (file for file in world.data_files(table) if "bucket-0" in str(file.parent))
    kept = mine.read_bytes()
    shutil.copy(other, mine)
    assert "places" in [name for name, _, _ in faults(check(world, table))]
    neighbour = next(file for file in world.data_files(table) if file.parent == mine.parent.with_name("bucket-1"))
    mine.write_bytes(kept)
    rewrite(mine, read(neighbour))
    differences = faults(check(world, table, Level.COUNTS))
    assert ("footers", "table") in [(name, scope) for name, scope, _ in differences], differences
    mine.write_bytes(kept)
    assert not faults(check(world, table))


def test_a_marker_that_does_not_go_on_from_the_one_before_is_named(world: PaimonWorld, table: TableInfo) -> None:
    marker = world.kit.view(table).marker
    assert marker is not None
    forged = {bucket: replace(proof, rows=proof.rows + 1) for bucket, proof in marker.proofs.items()}
    world.kit.forge_marker(table, replace(marker, proofs=forged))
    differences = faults(check(world, table, Level.OFFSETS))
    broken = f"the marker of round {marker.round_id} does not go on from that of round {marker.base_round_id} in bucket 0"
    assert differences[0] == ("chain", "table", broken)
    assert differences[1][:2] == ("cover", "0")


def test_after_files_were_written_anew_totals_are_compared_with_the_ledger_and_the_log(world: PaimonWorld, table: TableInfo) -> None:
    rows = world.kit.read(table)
    overwrite(world.kit, table, rows)
    results = check(world, table)
    assert not faults(results)
    assert answer(results, "rows") == [("table", True, BY_LEDGER)]
    assert answer(results, "values") == [("table", True, "by the ledger of rounds and by the log")]
    world.append(table, 200, 50)
    assert world.tier(table).state is RoundState.SUCCEEDED  # goes on, with files that tell their offsets beside those that do not
    assert not faults(check(world, table))
    whole = world.kit.read(table)
    overwrite(world.kit, table, whole.slice(1))
    assert ("rows", "table", f"1 row missing; {BY_LEDGER}") in faults(check(world, table))
    overwrite(world.kit, table, pa.concat_tables([whole, whole.slice(0, 1)]))
    assert ("rows", "table", f"1 row too many; {BY_LEDGER}") in faults(check(world, table))
    overwrite(world.kit, table, whole.set_column(1, whole.schema.field(1), pa.array(["other", *whole["text"].to_pylist()[1:]])))
    assert [(name, scope) for name, scope, _ in faults(check(world, table))] == [("values", "table")]


def test_rows_that_the_log_has_no_more_are_proved_by_the_checksum_of_their_file_then_by_the_ledger_alone(world: PaimonWorld) -> None:
    table = world.log_table("kept", buckets=1, datalake_layout="clean")
    world.storage.alter_table(table.path, {"table.log.ttl": "1 h"})
    for number in range(3):
        rows = pa.table({"id": range(number * 10, number * 10 + 10), "text": ["x"] * 10}, schema=SCHEMA)
        world.storage.append(table.path, rows, "w", number)
        world.clock.advance(60)
        world.tier(table)
    world.clock.advance(3_600 - 150)
    world.storage.maintenance.run()
    [log] = world.storage.offsets(table).values()
    assert 0 < log.log_start < log.log_end
    results = check(world, table)
    assert not faults(results)
    assert answer(results, "checksums") == [("table", True, None)]
    file = file_of(world, table, 0, 0)
    kept = file.read_bytes()
    replace_column(file, "text", ["y", *["x"] * 9])
    assert faults(check(world, table)) == [("checksums", "table", f"the file {file} has other rows than were written to it")]
    file.write_bytes(kept)
    overwrite(world.kit, table, world.kit.read(table))
    results = check(world, table)
    assert not faults(results)
    alone = "by the ledger of rounds alone: the log does not hold all of these rows any more"
    assert answer(results, "values") == [("table", True, alone)]


def test_a_partition_that_was_made_anew_is_told_from_its_former_one_by_the_footers(world: PaimonWorld) -> None:
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("day", pa.string(), nullable=False)])
    visits = world.create("visits", TableSpec(columns, 1, partition_keys=("day",)), datalake_layout="clean")
    for writer, count in (("w", 30), ("x", 20)):
        world.storage.append(visits.path, pa.table({"id": range(count), "day": ["d0"] * count}, schema=columns), writer, 0)
        world.tier(visits)
        assert not faults(check(world, visits))
        if writer == "w":
            world.storage.drop_partition(visits.path, "d0")
            tick(world.coordinator)
    results = check(world, visits)
    text = "30 rows are older than the partition's log: of a former partition of that name, taken as they are"
    assert untold(results) == [("rows", "d0/0", text)]
    assert [result.actual for result in results if result.check == "rows" and result.ok] == ["20"]


def test_columns_of_every_type_that_are_added_later_leave_the_checksums_of_rows_before_them(world: PaimonWorld, table: TableInfo) -> None:
    wider = world.storage.alter_table(table.path, {}, additions([pa.field("note", pa.string()), pa.field("at", pa.timestamp("ms", "UTC"))]))
    rows = pa.table({"id": [900], "text": ["late"], "note": ["new"], "at": [1]}, schema=wider.schema)
    LogWriter(world.storage, table.path, "late").append(rows)
    assert world.tier(table).state is RoundState.SUCCEEDED
    assert world.kit.read(table).column_names == ["id", "text", "note", "at"]
    assert all(result.ok for result in check(world, table))
    overwrite(world.kit, table, world.kit.read(table))
    assert not faults(check(world, table))
