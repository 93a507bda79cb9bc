"""The proof of Paimon tables survives upkeep: after merges in rounds and after an upkeep round it shows each offset once."""

from __future__ import annotations

import pyarrow as pa
import pytest

from support.background import tick
from support.worlds.paimon_world import PaimonWorld
from support.worlds.validated import check, faults, read, replace_column
from tiering.model.rounds import RoundState
from tiering.model.tables import TableInfo
from tiering.model.upkeep import UpkeepOrder
from tiering.validate.results import Level

ROUNDS = 12
KINDS = pytest.mark.parametrize("is_keyed", [False, True], ids=["log", "primary-key"])
LAYOUTS = pytest.mark.parametrize("layout", ["clean", "system-columns"])


def aged_table(world: PaimonWorld, layout: str, *, is_keyed: bool) -> TableInfo:
    """Rounds with a small file each, of which some are merged; in a primary-key table each updates and deletes keys of the one before."""
    if not is_keyed:
        table = world.log_table("flights", buckets=1, datalake_layout=layout)
        for number in range(ROUNDS):
            world.append(table, number * 10, 10)
            assert world.tier(table).state is RoundState.SUCCEEDED
        return table
    table = world.keyed_table("planes", buckets=1, datalake_layout=layout)
    key = pa.schema([table.schema.field("id")])
    for number in range(ROUNDS):
        ids = range(number * 5, number * 5 + 10)
        rows = pa.table({"id": ids, "text": [f"{key} in round {number}" for key in ids]}, schema=table.schema)
        world.storage.upsert(table.path, rows, "w", 2 * number)
        world.storage.delete(table.path, pa.table({"id": [number * 5]}, schema=key), "w", 2 * number + 1)
        assert world.tier(table).state is RoundState.SUCCEEDED
    return table


def compact(world: PaimonWorld, table: TableInfo) -> None:
    """An upkeep round that rewrites all files."""
    world.clock.advance(600)
    tick(world.coordinator)
    assert world.begin(table, upkeep=UpkeepOrder(full=True)).end().state is RoundState.SUCCEEDED


def assert_proved(world: PaimonWorld, table: TableInfo) -> None:
    for level in (Level.COUNTS, Level.OFFSETS, Level.ROWS):
        results = check(world, table, level)
        assert all(result.ok for result in results), [result for result in results if not result.ok]


@KINDS
@LAYOUTS
def test_every_check_of_every_level_passes_after_merges_and_after_an_upkeep_round(world: PaimonWorld, layout: str, is_keyed: bool) -> None:
    table = aged_table(world, layout, is_keyed=is_keyed)
    operations = {snapshot.operation for snapshot in world.kit.view(table).snapshots.values()}
    assert operations == {"APPEND", "COMPACT"}
    assert len(world.data_files(table)) > 0
    assert_proved(world, table)
    compact(world, table)
    assert_proved(world, table)


@LAYOUTS
def test_a_changed_value_in_a_merged_file_is_found(world: PaimonWorld, layout: str) -> None:
    table = aged_table(world, layout, is_keyed=False)
    compact(world, table)
    merged = max(world.data_files(table), key=lambda file: file.stat().st_mtime)
    replace_column(merged, "text", ["changed", *read(merged)["text"].to_pylist()[1:]])
    assert "values" in {name for name, _, _ in faults(check(world, table, Level.ROWS))}


def test_a_bucket_without_a_living_row_is_proved_too(world: PaimonWorld) -> None:
    table = world.keyed_table("planes", buckets=1, datalake_layout="clean")
    rows = pa.table({"id": range(5), "text": ["x"] * 5}, schema=table.schema)
    world.storage.upsert(table.path, rows, "w", 0)
    world.tier(table)
    world.storage.delete(table.path, rows.select(["id"]), "w", 1)
    world.tier(table)
    compact(world, table)
    assert world.kit.read(table).num_rows == 0
    assert_proved(world, table)
