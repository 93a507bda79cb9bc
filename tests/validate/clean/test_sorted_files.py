"""Log tables with `table.datalake.sort`: each file is sorted, and the proof of its rows is by file."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.transforms import IdentityTransform

from support.lakes.foreign.files import delete_at
from support.worlds.lake_world import SCHEMA, LakeWorld
from support.worlds.validated import check, data_files, faults, read, replace_column, rewrite
from tiering.cluster.log_writer import LogWriter
from tiering.errors import InvalidArgument, SchemaDrift
from tiering.lake.iceberg.writing import writer
from tiering.lake.schema.file_order import parse_sort
from tiering.lake.table_options import SORT
from tiering.lake.writing.sorted_rows import sorted_rows
from tiering.model.tables import TableInfo
from tiering.procedures.reconcile_lake import ReconcileLake
from tiering.validate.results import Level

WIDE = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("customer", pa.string()),
        pa.field("price", pa.float64()),
        pa.field("ts", pa.timestamp("us", "UTC")),
        pa.field("tags", pa.list_(pa.string())),
    ]
)
ORDERS = ("customer, ts DESC", "price", "price DESC NULLS FIRST, id", "ts NULLS LAST, customer DESC NULLS LAST", "id desc")


@pytest.fixture
def table(world: LakeWorld) -> TableInfo:
    """Two buckets with the offsets 0 to 99 in one file each, 100 to 149 in another, whose rows are in the order of their texts."""
    orders = world.table("orders", datalake_layout="clean", datalake_sort="text")
    for start, count in ((0, 200), (200, 100)):
        world.append(orders, start, count)
        assert world.tier(orders).error is None
    return orders


def footer(file: Path) -> dict[bytes, bytes]:
    return dict(pq.read_metadata(file).metadata or {})


def file_of(world: LakeWorld, table: TableInfo, bucket: int, offsets: str) -> Path:
    [file] = [
        file
        for file in data_files(world, table)
        if (footer(file)[b"lakeward.bucket"], footer(file)[b"lakeward.offsets"]) == (str(bucket).encode(), offsets.encode())
    ]
    return file


def wide_rows(rng: random.Random, first: int, count: int) -> pa.Table:
    """Rows with NULL, NaN and many equal values."""
    return pa.table(
        {
            "id": range(first, first + count),
            "customer": [rng.choice([None, "", "a", "b", "é"]) for _ in range(count)],
            "price": [rng.choice([None, float("nan"), -0.0, 0.0, 1.5, float("inf")]) for _ in range(count)],
            "ts": [rng.choice([None, datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=rng.randrange(50))]) for _ in range(count)],
            "tags": [rng.choice([None, [], ["x"]]) for _ in range(count)],
        },
        schema=WIDE,
    )


def assert_sorted(world: LakeWorld, table: TableInfo, files: Sequence[Path], option: str) -> None:
    for file in files:
        rows = read(file)
        assert repr(rows.to_pylist()) == repr(sorted_rows(rows, parse_sort(option, SORT.name)).to_pylist()), file  # NaN is equal to none
        assert footer(file)[b"lakeward.order"] == b"sorted"
        assert footer(file)[b"lakeward.footer"] == b"2"


def test_files_are_sorted_and_say_so(world: LakeWorld, table: TableInfo) -> None:
    loaded = world.iceberg(table)
    assert str(loaded.sort_order()) == "[\n  2 ASC NULLS FIRST\n]"
    files = [task.file for task in loaded.scan().plan_files()]
    assert {file.sort_order_id for file in files} == {loaded.sort_order().order_id} == {1}
    assert_sorted(world, table, data_files(world, table), "text")
    texts = read(file_of(world, table, 0, "0-100"))["text"].to_pylist()
    assert texts[:3] == ["row 0", "row 1", "row 10"]
    assert sorted(loaded.scan().to_arrow()["id"].to_pylist()) == list(range(300))


def test_a_sorted_table_that_is_right_passes_every_check_of_every_level(world: LakeWorld, table: TableInfo) -> None:
    offsets = {"rows", "chain", "cover", "offsets"}
    for level, checks in ((Level.COUNTS, {"rows"}), (Level.OFFSETS, offsets), (Level.ROWS, {*offsets, "values"})):
        results = check(world, table, level)
        assert all(result.ok for result in results), results
        assert {result.check for result in results} == {"base", "files", "footers", *checks}


def test_a_changed_value_of_a_sorted_file_is_named_with_its_file_and_offset(world: LakeWorld, table: TableInfo) -> None:
    file = file_of(world, table, 0, "0-100")
    replace_column(file, "text", ["not what was written", *read(file)["text"].to_pylist()[1:]])
    assert not faults(check(world, table, Level.OFFSETS))
    assert faults(check(world, table)) == [("values", "0", f"bucket 0: the file {file} lacks the row of offset 0 as the log has it")]


def test_a_missing_row_of_a_sorted_file_is_named_with_its_file(world: LakeWorld, table: TableInfo) -> None:
    file = file_of(world, table, 0, "0-100")
    rows = read(file)
    rewrite(file, pa.concat_tables([rows.slice(0, 50), rows.slice(51)]))
    differences = faults(check(world, table))
    assert differences[0] == ("rows", "0", "1 row missing")
    assert ("offsets", "0", f"bucket 0: the file {file} has 99 rows for 100 offsets") in differences
    gone = rows["id"][50].as_py()
    assert ("values", "0", f"bucket 0: the file {file} lacks the row of offset {gone} as the log has it") in differences


def test_a_doubled_row_of_a_sorted_file_is_named(world: LakeWorld, table: TableInfo) -> None:
    file = file_of(world, table, 1, "100-150")
    rows = read(file)
    rewrite(file, pa.concat_tables([rows.slice(0, 20), rows.slice(7, 1), rows.slice(21)]))
    [(check_name, scope, details)] = faults(check(world, table))
    lost = rows["id"][20].as_py() - 250 + 100
    assert (check_name, scope, details) == ("values", "1", f"bucket 1: the file {file} lacks the row of offset {lost} as the log has it")
    rewrite(file, pa.concat_tables([rows, rows.slice(7, 1)]))
    differences = faults(check(world, table))
    assert differences[0] == ("rows", "1", "1 row too many")
    assert ("offsets", "1", f"bucket 1: the file {file} has 51 rows for 50 offsets") in differences
    assert ("values", "1", f"bucket 1: the file {file} has 1 row more than the log has for its offsets") in differences


def test_rows_that_changed_places_between_sorted_files_are_found(world: LakeWorld, table: TableInfo) -> None:
    first, second = file_of(world, table, 0, "0-100"), file_of(world, table, 0, "100-150")
    mine, other = read(first), read(second)
    rewrite(first, pa.concat_tables([mine.slice(0, 99), other.slice(0, 1).cast(mine.schema)]))
    rewrite(second, pa.concat_tables([mine.slice(99).cast(other.schema), other.slice(1)]))
    assert [name for name, _, _ in faults(check(world, table))] == ["values"]


def test_a_sorted_file_with_rows_that_the_log_no_longer_has_is_proved_by_its_checksum(world: LakeWorld) -> None:
    orders = world.table("orders", datalake_layout="clean", datalake_sort="text", log_ttl="90 s")
    world.append(orders, 0, 100)
    world.clock.advance(60)
    world.append(orders, 100, 100)
    world.tier(orders)
    world.storage.maintenance.run()
    world.append(orders, 200, 100)
    world.tier(orders)
    assert {offsets.log_start for offsets in world.storage.offsets(orders).values()} == {50}  # amid the files of the first round
    results = check(world, orders)
    assert not faults(results)
    compared = [(result.scope, result.ok) for result in results if result.check == "values"]
    assert compared == [("0", None), ("0", True), ("1", None), ("1", True)]
    first, second = file_of(world, orders, 0, "0-100"), file_of(world, orders, 0, "100-150")
    for file in (first, second):
        replace_column(file, "text", ["not what was written", *read(file)["text"].to_pylist()[1:]])
    [(name, scope, details), damaged] = faults(check(world, orders))
    assert (name, scope) == ("values", "0")
    assert details is not None
    assert details.startswith(f"bucket 0: the file {second} lacks the row of offset 100")
    assert damaged == ("checksums", "table", f"the file {first} has other rows than were written to it")


def test_a_row_that_a_user_deletes_in_a_sorted_file_is_missing(world: LakeWorld, table: TableInfo) -> None:
    loaded = world.iceberg(table)
    loaded.delete(EqualTo("id", 7))  # pyiceberg rewrites the file
    differences = faults(check(world, table))
    assert ("rows", "0", "1 row missing") in differences or ("rows", "table", "1 row missing; another program") in [
        (name, scope, (text or "")[:30]) for name, scope, text in differences
    ]


def test_rows_that_a_user_deletes_by_position_leave_no_offset_known(world: LakeWorld, table: TableInfo) -> None:
    delete_at(world, table, range(3))
    differences = faults(check(world, table))
    assert differences[0][2] == "3 rows missing"
    assert any(name == "offsets" and " has 97 rows for 100 offsets" in (text or "") for name, _, text in differences)
    with pytest.raises(SchemaDrift, match="which is sorted and has deleted rows") as refused:
        world.lake.row_offsets(table, world.view(table), {})
    assert "reconcile_lake('sales.orders', 'accept')" in str(refused.value.hint)
    delete_at(world, table, range(3, 100))
    left = {place: offsets.runs(place) for offsets in [world.lake.row_offsets(table, world.view(table), {})] for place in offsets.places}
    assert sorted(left.values()) == [[(0, 100), (100, 150)], [(100, 150)]]
    world.append(table, 300, 100)
    assert world.tier(table).error is None  # rounds do not need these offsets


def test_retier_continues_at_the_border_of_a_sorted_file(world: LakeWorld, table: TableInfo) -> None:
    loaded, gone = world.iceberg(table), file_of(world, table, 0, "100-150")
    with loaded.transaction() as transaction, transaction.update_snapshot().overwrite() as overwrite:
        for task in loaded.scan().plan_files():
            if task.file.file_path.endswith(gone.name):
                overwrite.delete_data_file(task.file)
    assert ("cover", "0", "bucket 0: no file has the offsets 100 to 149") in faults(check(world, table))
    result = asyncio.run(world.coordinator.control.perform(ReconcileLake(table.path, "retier", caller="alice")))
    assert dict(result.offsets) == {"0": 100, "1": 150}
    world.due()
    assert world.begin(table).end().error is None
    assert not faults(check(world, table))
    assert sorted(world.iceberg(table).scan().to_arrow()["id"].to_pylist()) == list(range(300))


def test_offsets_of_sorted_files_are_surveyed_as_sets(world: LakeWorld, table: TableInfo) -> None:
    offsets = world.lake.row_offsets(table, world.view(table), {})
    assert {place: offsets.runs(place) for place in offsets.places} == {(None, bucket): [(0, 100), (100, 150)] for bucket in (0, 1)}


@pytest.mark.parametrize("seed", range(6))
def test_random_rows_and_changes_of_the_sort_are_proved_and_each_file_is_sorted(world: LakeWorld, seed: int) -> None:
    rng = random.Random(seed)
    option = rng.choice(ORDERS)
    orders = world.table("orders", schema=WIDE, buckets=2, datalake_layout="clean", datalake_sort=option)
    expected: list[Any] = []
    known: set[Path] = set()
    for number in range(5):
        rows = wide_rows(rng, 1_000 * number, rng.randrange(1, 400))
        LogWriter(world.storage, orders.path, f"w{number}").append(rows)
        expected += rows.to_pylist()
        assert world.tier(orders).error is None
        new = set(data_files(world, orders)) - known
        known |= new
        if option == "none":
            assert all(b"lakeward.order" not in footer(file) for file in new)
        else:
            assert_sorted(world, orders, sorted(new), option)
        results = check(world, orders)
        assert all(result.ok for result in results), results
        option = rng.choice([*ORDERS, "none", option])
        world.storage.set_table_option(orders.path, SORT.name, option)
    rows_of_lake = world.iceberg(orders).scan().to_arrow().to_pylist()
    assert sorted(map(repr, rows_of_lake)) == sorted(map(repr, expected))


def test_a_change_of_the_sort_is_a_commit_of_its_own_and_leaves_older_files(world: LakeWorld, table: TableInfo) -> None:
    before = world.iceberg(table).metadata
    world.storage.set_table_option(table.path, SORT.name, "id DESC")
    world.append(table, 300, 100)
    world.tier(table)
    after = world.iceberg(table)
    assert [str(order) for order in after.metadata.sort_orders] == ["[\n  2 ASC NULLS FIRST\n]", "[\n  1 DESC NULLS LAST\n]"]
    assert {file.file.sort_order_id for file in after.scan().plan_files()} == {1, 2}
    assert after.metadata.current_schema_id == before.current_schema_id
    world.storage.set_table_option(table.path, SORT.name, "text")  # the former order is used again
    world.append(table, 400, 100)
    world.tier(table)
    again = world.iceberg(table).metadata
    assert (len(again.sort_orders), again.default_sort_order_id) == (2, 1)
    assert not faults(check(world, table))


def test_a_sort_order_of_a_user_is_replaced_by_the_option_and_kept_without_one(world: LakeWorld, table: TableInfo) -> None:
    with world.iceberg(table).update_sort_order() as update:
        update.desc("id", IdentityTransform())
    world.append(table, 300, 100)
    world.tier(table)
    assert str(world.iceberg(table).sort_order()) == "[\n  2 ASC NULLS FIRST\n]"
    assert_sorted(world, table, data_files(world, table), "text")
    plain = world.table("plain", datalake_layout="clean")
    world.append(plain, 0, 100)
    world.tier_all()
    with world.iceberg(plain).update_sort_order() as update:
        update.desc("id", IdentityTransform())
    world.append(plain, 100, 100)
    world.tier_all()
    assert str(world.iceberg(plain).sort_order()) == "[\n  1 DESC NULLS LAST\n]"
    assert all(b"lakeward.order" not in footer(file) for file in data_files(world, plain))


def test_a_sort_by_a_nested_column_is_refused(world: LakeWorld) -> None:
    with pytest.raises(InvalidArgument, match="'tags' of type list"):
        world.table("orders", schema=WIDE, datalake_layout="clean", datalake_sort="tags")


def test_row_groups_of_a_sorted_file_have_ranges_that_readers_can_skip(world: LakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "SORTED_GROUP_ROWS", 1_000)
    orders = world.table("orders", buckets=1, datalake_layout="clean", datalake_sort="id")
    numbers = list(range(5_000))
    random.Random(1).shuffle(numbers)
    LogWriter(world.storage, orders.path, "w").append(pa.table({"id": numbers, "text": map(str, numbers)}, schema=SCHEMA))
    world.tier(orders)
    [file] = data_files(world, orders)
    metadata = pq.read_metadata(file)
    bounds = [metadata.row_group(number).column(0).statistics for number in range(metadata.num_row_groups)]
    assert [(bound.min, bound.max) for bound in bounds] == [(first, first + 999) for first in range(0, 5_000, 1_000)]
    assert [row for (row,) in duckdb.sql(f"SELECT id FROM read_parquet('{file}')").fetchall()] == sorted(numbers)
    assert world.iceberg(orders).scan(row_filter=EqualTo("id", 77)).to_arrow()["text"].to_pylist() == ["77"]
    assert not faults(check(world, orders))
