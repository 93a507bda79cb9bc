"""The proof that a Paimon copy of a log table equals the log: on tables that are right, and on tables that were really damaged."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from support.worlds.paimon_world import PaimonWorld
from support.worlds.validated import check, faults, read, replace_column, rewrite, untold
from tiering.cluster.log_writer import LogWriter
from tiering.cluster.registry import EMBEDDED
from tiering.cluster.writable import TableSpec
from tiering.errors import InvalidArgument
from tiering.model.rounds import RoundState
from tiering.model.schema.changes import additions
from tiering.model.tables import TableInfo
from tiering.validate.child import ClusterValidation
from tiering.validate.results import Level


@pytest.fixture
def table(world: PaimonWorld) -> TableInfo:
    """200 rows in two buckets and two rounds, the first 50 of each round to bucket 0."""
    orders = world.log_table("orders")
    for start in (0, 100):
        world.append(orders, start, 100)
        world.tier(orders)
    return orders


def oldest(world: PaimonWorld, table: TableInfo) -> Path:
    """The first round's file of bucket 0."""
    return next(file for file in world.data_files(table) if read(file)["id"][0].as_py() == 0)


def test_a_table_that_is_right_passes_every_check_of_every_level(world: PaimonWorld, table: TableInfo) -> None:
    for level, checks in ((Level.COUNTS, {"rows"}), (Level.OFFSETS, {"rows", "offsets"}), (Level.ROWS, {"rows", "offsets", "values"})):
        results = check(world, table, level)
        assert all(result.ok for result in results), results
        assert {result.check for result in results} == {"base", "files", "places", *checks}
    older = check(world, table, snapshot_id=1)
    assert all(result.ok for result in older), older
    assert {result.expected for result in older if result.check == "rows"} == {"50"}


def doubled(file: Path) -> None:
    rows = read(file)
    rewrite(file, pa.concat_tables([rows, rows.slice(7, 1)]))


DAMAGES: dict[str, tuple[Callable[[Path], None], list[tuple[str, str, str | None]]]] = {
    "a gap": (
        lambda file: rewrite(file, pa.concat_tables([read(file).slice(0, 20), read(file).slice(21)])),
        [("rows", "0", "1 row missing"), ("offsets", "0", "bucket 0: offset 20 is missing")],
    ),
    "a doubled row": (
        doubled,
        [("rows", "0", "1 row too many"), ("offsets", "0", "bucket 0: offset 7 occurs 2 times")],
    ),
    "a changed value": (
        lambda file: replace_column(file, "text", ["wrong", *read(file)["text"].to_pylist()[1:]]),
        [("values", "0", "bucket 0: offset 0 has other values in the lake than in the log, in text")],
    ),
    "another time": (
        lambda file: replace_column(file, "__timestamp", [0, *read(file)["__timestamp"].cast(pa.int64()).to_pylist()[1:]]),
        [("values", "0", "bucket 0: offset 0 has other values in the lake than in the log, in __timestamp")],
    ),
    "another bucket": (
        lambda file: replace_column(file, "__bucket", [1, *read(file)["__bucket"].to_pylist()[1:]]),
        [
            ("rows", "0", "1 row missing"),
            ("rows", "1", "1 row too many"),
            ("offsets", "0", "bucket 0: offset 0 is missing"),
            ("offsets", "1", "bucket 1: offset 0 occurs 2 times"),
        ],
    ),
    "no offset": (
        lambda file: replace_column(file, "__offset", [*read(file)["__offset"].to_pylist()[:-1], None]),
        [("offsets", "0", "bucket 0: 1 row without an offset (NULL)")],
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_named(world: PaimonWorld, table: TableInfo, damage: str) -> None:
    spoil, expected = DAMAGES[damage]
    spoil(oldest(world, table))
    differences = faults(check(world, table))
    assert all(entry in differences for entry in expected), differences


def test_files_that_are_gone_and_files_that_cannot_be_read_are_named(world: PaimonWorld, table: TableInfo) -> None:
    file = oldest(world, table)
    kept = file.read_bytes()
    file.unlink()
    assert faults(check(world, table)) == [("files", "table", f"1 file of the snapshot not there; the first is {file}")]
    file.write_bytes(kept[: len(kept) // 2])
    [(name, scope, details)] = faults(check(world, table))
    assert (name, scope) == ("files", "table")
    assert f"the lake file {file} cannot be read" in str(details)


def test_a_gap_of_a_whole_round_and_rows_of_another_program_are_named(world: PaimonWorld, table: TableInfo) -> None:
    builder = world.kit.by_pypaimon(table).new_batch_write_builder()
    write, commit = builder.new_write(), builder.new_commit()
    write.write_arrow(world.kit.read(table).slice(0, 3))
    commit.commit(write.prepare_commit())
    differences = faults(check(world, table))
    assert any(name == "rows" and "rows too many" in str(details) for name, _, details in differences), differences
    world.kit.roll_back(table, 1)
    [(name, scope, details)] = faults(check(world, table))
    assert (name, scope) == ("base", "table")
    assert "recorded as tiered" in str(details)


def test_bucket_keys_and_partitions_are_compared_by_their_places_and_files_in_another_one_are_named(world: PaimonWorld) -> None:
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("day", pa.date32(), nullable=False)])
    table = world.create("visits", TableSpec(columns, 2, ("id",), partition_keys=("day",)))
    days = [18_000 + number % 2 for number in range(60)]
    LogWriter(world.storage, table.path, "w").append(pa.table({"id": range(60), "day": pa.array(days, pa.date32())}, schema=columns))
    world.tier(table)
    results = check(world, table)
    assert all(result.ok for result in results), results
    assert {result.scope for result in results if result.check == "values"} == {f"2019-04-{day}/{n}" for day in (14, 15) for n in (0, 1)}
    mine, other = (file for file in world.data_files(table) if "bucket-0" in str(file.parent))
    kept = mine.read_bytes()
    shutil.copy(other, mine)
    count = read(mine).num_rows
    details = f"{count} rows of the file {mine} belong to another partition or bucket than the lake has the file in"
    assert ("places", "table", details) in faults(check(world, table))
    mine.write_bytes(kept)
    assert not faults(check(world, table))


def test_added_columns_and_times_in_microseconds_are_compared(world: PaimonWorld, table: TableInfo) -> None:
    wider = world.storage.alter_table(table.path, {}, additions([pa.field("note", pa.string())]))
    world.clock.advance(0.000_123)
    rows = pa.table({"id": [900], "text": ["late"], "note": ["new"]}, schema=wider.schema)
    LogWriter(world.storage, table.path, "late").append(rows)
    assert world.tier(table).state is RoundState.SUCCEEDED
    results = check(world, table)
    assert all(result.ok for result in results), results
    newest = max(world.data_files(table), key=lambda file: file.stat().st_mtime_ns)
    replace_column(newest, "note", ["other"])
    [(name, _, details)] = faults(check(world, table))
    assert name == "values"
    assert str(details).endswith("in note")


def test_what_cannot_be_read_from_files_is_refused_by_name(world: PaimonWorld, table: TableInfo) -> None:
    schema = world.kit.folder(table) / "schema" / "schema-0"
    schema.write_text(schema.read_text().replace('"file.format": "parquet"', '"file.format": "parquet", "merge-engine": "aggregation"'))
    with pytest.raises(InvalidArgument, match="merge-engine = aggregation: this version cannot read its rows from its files"):
        check(world, table)


def test_a_child_process_does_the_same_with_nothing_running(world: PaimonWorld, table: TableInfo, tmp_path: Path) -> None:
    """The table says which format its copy has; the lake of the data folder has all of them."""
    validation = ClusterValidation(EMBEDDED, tmp_path / "cluster", "iceberg", world.lake_properties)
    assert [result.ok for result in validation.run(table.path, "rows")] == [True] * 9
    doubled(oldest(world, table))
    assert faults(list(validation.run(table.path, "rows")))
    assert not untold(list(validation.run(table.path, "rows")))
