"""Small sorted files are merged to larger sorted ones, by rounds and by upkeep rounds, and the proofs of the rows stay."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from support.background import tick
from support.behaviours.deployment import MAX_BACKOFF_S
from support.lakes.foreign.files import delete_at
from support.worlds.lake_world import LakeWorld
from support.worlds.validated import check, data_files, faults, read, replace_column
from tiering.lake.rules.upkeep.small_files import SMALL_FILES
from tiering.lake.table_options import SORT
from tiering.model.rounds import RoundState
from tiering.model.tables import TableInfo
from tiering.model.upkeep import UpkeepOrder, UpkeepStats
from tiering.round.steps import actions as act

ROUNDS = 24


@pytest.fixture
def table(world: LakeWorld) -> TableInfo:
    """A table without merges in rounds."""
    return world.table("orders", datalake_layout="clean", datalake_sort="text", **{"datalake_auto-compaction": "false"})


def rounds(world: LakeWorld, table: TableInfo, first: int, count: int) -> None:
    """Rounds of 20 rows in each of two buckets."""
    for number in range(first, first + count):
        world.append(table, 40 * number, 40)
        assert world.tier(table).error is None


def upkeep(world: LakeWorld, table: TableInfo, *, full: bool = False) -> act.RoundOutcome:
    world.clock.advance(MAX_BACKOFF_S)
    tick(world.coordinator)
    return world.begin(table, upkeep=UpkeepOrder(full=full)).end()


def done(outcome: act.RoundOutcome) -> UpkeepStats:
    assert outcome.state is RoundState.SUCCEEDED, outcome.error
    assert outcome.stats.upkeep is not None
    return outcome.stats.upkeep


def assert_sorted(files: list[Path], column: str = "text") -> None:
    for file in files:
        values = read(file)[column].to_pylist()
        assert values == sorted(values)
        assert (pq.read_metadata(file).metadata or {})[b"lakeward.order"] == b"sorted"


def assert_right(world: LakeWorld, table: TableInfo, rows: int) -> None:
    results = check(world, table)
    assert all(result.ok for result in results), results
    assert sorted(world.iceberg(table).scan().to_arrow()["id"].to_pylist()) == list(range(rows))


def test_a_bucket_never_has_more_small_sorted_files_than_it_may(world: LakeWorld) -> None:
    orders, most = world.table("orders", datalake_layout="clean", datalake_sort="text"), 0
    for number in range(ROUNDS):
        rounds(world, orders, number, 1)
        most = max(most, len(data_files(world, orders)))
    assert SMALL_FILES < most <= 2 * (SMALL_FILES + 1)
    assert_sorted(data_files(world, orders))
    assert_right(world, orders, 40 * ROUNDS)


def test_upkeep_merges_sorted_files_to_one_a_bucket(world: LakeWorld, table: TableInfo) -> None:
    rounds(world, table, 0, 6)
    stats = done(upkeep(world, table))
    assert (stats.files_before, stats.files_after) == (12, 2)
    files = data_files(world, table)
    assert_sorted(files)
    assert {task.file.sort_order_id for task in world.iceberg(table).scan().plan_files()} == {1}
    assert [read(file).num_rows for file in files] == [120, 120]
    assert_right(world, table, 240)
    assert upkeep(world, table, full=True).state is RoundState.EMPTY


def test_upkeep_sorts_small_files_of_before_the_option_and_leaves_those_of_another_order(world: LakeWorld, table: TableInfo) -> None:
    world.storage.set_table_option(table.path, SORT.name, "none")
    rounds(world, table, 0, 3)
    world.storage.set_table_option(table.path, SORT.name, "id DESC")
    rounds(world, table, 3, 3)
    world.storage.set_table_option(table.path, SORT.name, "text")
    rounds(world, table, 6, 3)
    before = set(data_files(world, table))
    done(upkeep(world, table))
    files = set(data_files(world, table))
    assert len(files & before) == 6, "files of the former order stay"
    assert_sorted(list(files - before))
    assert len(files - before) == 4, "for each bucket one of the files without an order, and one of those with this order"
    assert_right(world, table, 360)
    done(upkeep(world, table))
    assert len(data_files(world, table)) == 8, "the new sorted files are merged"
    assert_right(world, table, 360)


def test_without_the_option_sorted_files_stay_and_others_are_merged(world: LakeWorld, table: TableInfo) -> None:
    rounds(world, table, 0, 3)
    world.storage.set_table_option(table.path, SORT.name, "none")
    rounds(world, table, 3, 3)
    done(upkeep(world, table))
    assert len(data_files(world, table)) == 8
    assert_right(world, table, 240)


def test_sorted_files_of_a_partition_with_deleted_rows_stay(world: LakeWorld, table: TableInfo) -> None:
    rounds(world, table, 0, 6)
    delete_at(world, table, range(15))
    before = data_files(world, table)
    upkeep(world, table, full=True)
    assert data_files(world, table) == before


def test_a_damaged_sorted_file_is_not_merged(world: LakeWorld, table: TableInfo) -> None:
    rounds(world, table, 0, 6)
    file = data_files(world, table)[0]
    replace_column(file, "text", ["another text", *read(file)["text"].to_pylist()[1:]])
    assert done(upkeep(world, table)).files_before == 6  # the other bucket's
    assert file in data_files(world, table)
    assert len(data_files(world, table)) == 7
    [(name, scope, details)] = faults(check(world, table))
    assert (name, scope) == ("values", "0")
    assert f"the file {file} lacks the row" in str(details)
