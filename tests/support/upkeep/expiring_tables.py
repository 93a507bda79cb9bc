"""A table whose snapshots expire, and rounds of it."""

from __future__ import annotations

from support.worlds.lake_world import LakeWorld
from tiering.lake.table_options import SNAPSHOT_MIN_COUNT
from tiering.model.rounds import RoundState
from tiering.model.tables import TableInfo


def expiring_table(world: LakeWorld) -> TableInfo:
    table = world.table("orders")
    world.storage.set_table_option(table.path, SNAPSHOT_MIN_COUNT.name, "1")
    return table


def tier(world: LakeWorld, table: TableInfo, rounds: int, first: int = 0) -> None:
    for number in range(first, first + rounds):
        world.append(table, number * 10, 10)
        assert world.tier(table).state is RoundState.SUCCEEDED
