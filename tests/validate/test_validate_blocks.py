"""Damage at the borders of the blocks of offsets that are checked at once, and damage that leaves all sums as they were."""

from __future__ import annotations

import pyarrow as pa
import pytest

from support.worlds.lake_world import LakeWorld
from support.worlds.validated import check, data_files, faults, read, replace_column, rewrite
from tiering.model.tables import TableInfo
from tiering.validate.log_checks import BLOCK_OFFSETS
from tiering.validate.results import Level

ROWS = 2 * BLOCK_OFFSETS + 100


@pytest.fixture
def table(world: LakeWorld) -> TableInfo:
    """All rows in one bucket and file, over three blocks."""
    orders = world.table("orders", buckets=1)
    world.append(orders, 0, ROWS)
    world.tier(orders)
    assert len(data_files(world, orders)) == 1
    return orders


def put(rows: pa.Table, place: int, source: int) -> pa.Table:
    """The row at `source` also stands where the one at `place` was."""
    return pa.concat_tables([rows.slice(0, place), rows.slice(source, 1), rows.slice(place + 1)])


@pytest.mark.parametrize("lost", [0, BLOCK_OFFSETS - 1, BLOCK_OFFSETS, 2 * BLOCK_OFFSETS, ROWS - 1])
def test_an_offset_that_is_lost_at_a_border_is_named_though_the_count_is_right(world: LakeWorld, table: TableInfo, lost: int) -> None:
    file = data_files(world, table)[0]
    rewrite(file, put(read(file), lost, BLOCK_OFFSETS + 5))
    first = min(lost, BLOCK_OFFSETS + 5)
    message = f"offset {lost} is missing" if first == lost else f"offset {first} occurs 2 times"
    assert faults(check(world, table, Level.OFFSETS)) == [("offsets", "0", f"bucket 0: {message}")]


@pytest.mark.parametrize("last", [BLOCK_OFFSETS - 1, BLOCK_OFFSETS])
def test_a_whole_block_that_is_lost_is_named_by_its_first_offset(world: LakeWorld, table: TableInfo, last: int) -> None:
    file = data_files(world, table)[0]
    rewrite(file, read(file).slice(last + 1))
    assert ("offsets", "0", "bucket 0: offset 0 is missing") in faults(check(world, table, Level.OFFSETS))


@pytest.mark.parametrize("offset", [ROWS, ROWS + 50])
def test_an_offset_beyond_the_end_is_named_though_it_lies_in_the_last_block(world: LakeWorld, table: TableInfo, offset: int) -> None:
    file = data_files(world, table)[0]
    replace_column(file, "__offset", [*range(ROWS - 1), offset])
    assert faults(check(world, table, Level.OFFSETS)) == [("offsets", "0", f"bucket 0: offset {ROWS - 1} is missing")]


def test_values_that_two_rows_changed_with_each_other_are_found(world: LakeWorld, table: TableInfo) -> None:
    file = data_files(world, table)[0]
    rows = read(file)
    texts = rows["text"].to_pylist()
    first, second = BLOCK_OFFSETS + 1, BLOCK_OFFSETS + 2
    texts[first], texts[second] = texts[second], texts[first]
    rewrite(file, rows.set_column(rows.schema.get_field_index("text"), rows.schema.field("text"), pa.array(texts)))
    [fault] = faults(check(world, table))
    assert fault == ("values", "0", f"bucket 0: offset {first} has other values in the lake than in the log, in text")


def test_rows_of_primary_keys_that_changed_values_with_each_other_are_found(world: LakeWorld) -> None:
    table = world.primary_key_table("planes", buckets=1)
    world.storage.upsert(table.path, pa.table({"id": [1, 2], "text": ["one", "two"]}, schema=table.schema), "w", 0)
    world.tier(table)
    file = data_files(world, table)[0]
    rows = read(file)
    swapped = pa.array(reversed(rows["text"].to_pylist()))
    rewrite(file, rows.set_column(rows.schema.get_field_index("text"), rows.schema.field("text"), swapped))
    assert not faults(check(world, table, Level.OFFSETS))
    [fault] = faults(check(world, table))
    assert fault == ("values", "0", "bucket 0: key 1, last changed at offset 0, has other values in the lake")


def test_a_key_that_is_missing_is_not_made_up_for_by_one_older_than_the_log(world: LakeWorld) -> None:
    """The lake keeps two rows, and two keys live by the log: but one of the rows is of a key that the log no longer has."""
    table = world.primary_key_table("planes", buckets=1, log_ttl="1 s")
    for sequence, rows in enumerate(({"id": [0, 1], "text": ["old", "old"]}, {"id": [2, 3], "text": ["new", "new"]})):
        world.storage.upsert(table.path, pa.table(rows, schema=table.schema), "w", sequence)
        world.storage.take_kv_snapshots(table.path)
        world.tier(table)
        world.clock.advance(60 * (1 - sequence))
    world.storage.maintenance.run()
    assert [log.log_start for log in world.storage.offsets(table).values()] == [2]
    for file in data_files(world, table):
        rewrite(file, read(file).slice(0, 1))
    [fault] = faults(check(world, table, Level.COUNTS))
    assert fault[:2] == ("rows", "0")
