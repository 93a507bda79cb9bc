"""Retention removes no record of a table whose lake table is gone, rolled back or not looked at: the log alone may have the rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.on_call import follow, in_lake
from support.worlds.lake_world import LakeWorld
from tiering.cluster.embedded.kind import EmbeddedKind
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.model.reading.open_reads import READ_TTL
from tiering.model.tables import TableInfo

TWO_DAYS_S = 2 * 86_400
pytestmark = pytest.mark.in_turn("world")


def tiered(world: LakeWorld) -> TableInfo:
    table = world.table("orders", log_ttl="1 d")
    for start in (0, 20):
        world.append(table, start, 20)
        assert world.tier(table).error is None
    return table


def starts(world: LakeWorld, table: TableInfo) -> set[int]:
    return {log.log_start for log in world.storage.offsets(table).values()}


def two_days_pass(world: LakeWorld) -> None:
    world.clock.advance(TWO_DAYS_S)
    world.storage.maintenance.run()


def drop(world: LakeWorld, table: TableInfo) -> None:
    world.by_hand.drop(table.path)


def roll_back(world: LakeWorld, table: TableInfo) -> None:
    former = world.by_hand.former_head(table.path)
    assert former is not None
    world.by_hand.roll_back(table.path, former)


@pytest.mark.parametrize("damage", [drop, roll_back])
def test_what_is_lost_by_mistake_comes_back_two_days_later(world: LakeWorld, damage: Callable[[LakeWorld, TableInfo], None]) -> None:
    table = tiered(world)
    damage(world, table)
    assert world.tier(table).error is not None
    two_days_pass(world)
    assert starts(world, table) == {0}
    world.restart()
    world.storage.maintenance.run()
    assert starts(world, table) == {0}
    follow(world.coordinator, table, in_lake(world))
    world.tier(table)
    assert sorted(world.by_hand.rows(table.path)["id"].to_pylist()) == list(range(40))
    world.clock.advance(READ_TTL.total_seconds())  # a coordinator that took over does not know which reads are open
    world.storage.maintenance.run()
    assert starts(world, table) == {20}


def test_a_table_that_no_round_has_checked_for_days_keeps_its_log(world: LakeWorld) -> None:
    """No tierer ran, or the service did not: the lake table may be gone."""
    table = tiered(world)
    two_days_pass(world)
    assert starts(world, table) == {0}
    world.tier(table)
    world.storage.maintenance.run()
    assert starts(world, table) == {20}


def test_a_log_is_kept_until_the_coordinator_knows_its_tables(tmp_path: Path) -> None:
    with EmbeddedKind().host(tmp_path / "cluster", {}, lambda table: None) as hosted:
        storage = hosted.owner
        assert isinstance(storage, EmbeddedStorage)
        assert not storage.maintenance.lake_is_confirmed(1)
