"""CALL sys.set_freshness over a real cluster: the promise counts at once, and only one that can be kept is taken."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.background import tick
from support.worlds.coordinator_world import World
from support.worlds.lake_world import FRESHNESS_S, LakeWorld
from tiering.coordinator.server.coordinator import Coordinator
from tiering.errors import InvalidArgument, LakeDisabled, UnknownTable
from tiering.model.tables import TablePath
from tiering.procedures.set_freshness import SetFreshness
from tiering.procedures.set_table_option import SetTableOption


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LakeWorld]:
    world = LakeWorld(tmp_path)
    yield world
    world.close()


def set_freshness(coordinator: Coordinator, path: TablePath, freshness: str, **options: Any) -> tuple[int, int]:
    result = asyncio.run(coordinator.control.perform(SetFreshness(path, freshness, caller="ann", **options)))
    return result.previous_ms, result.freshness_ms


def test_a_shorter_promise_makes_the_table_due_by_it(world: LakeWorld) -> None:
    table = world.table("orders")
    assert set_freshness(world.coordinator, table.path, "PT1H") == (FRESHNESS_S * 1_000, 3_600_000)
    world.due()
    assert world.record(table).state == "Scheduled"
    assert set_freshness(world.coordinator, table.path, "30 s") == (3_600_000, 30_000)
    assert world.record(table).freshness_ms == 30_000
    tick(world.coordinator)
    assert world.record(table).state == "Pending"
    newest = world.store.events()[0:5]
    assert ("TABLE_OPTION_SET", "ann", "table.datalake.freshness is '30 s'") in [
        (event.event_type, event.principal, event.message) for event in newest
    ]


def test_the_same_promise_again_is_no_event(world: LakeWorld) -> None:
    table = world.table("orders")
    for _ in range(2):
        set_freshness(world.coordinator, table.path, "300 s")
    assert len([event for event in world.store.events() if event.event_type == "TABLE_OPTION_SET"]) == 1


@pytest.mark.parametrize("freshness", ["soon", "0 s", "", "1 month", "11000 d", "0.5 ms"])
def test_a_freshness_that_no_service_could_keep_is_refused(world: LakeWorld, freshness: str) -> None:
    table = world.table("orders")
    with pytest.raises(InvalidArgument, match="freshness"):
        set_freshness(world.coordinator, table.path, freshness)
    assert world.record(table).freshness_ms == FRESHNESS_S * 1_000


def test_a_table_that_is_not_tiered_has_nothing_to_promise(world: LakeWorld) -> None:
    table = world.table("orders")
    asyncio.run(world.coordinator.control.perform(SetTableOption(table.path, "table.datalake.enabled", "false")))
    with pytest.raises(LakeDisabled):
        set_freshness(world.coordinator, table.path, "5 min")
    with pytest.raises(UnknownTable):
        set_freshness(world.coordinator, TablePath("sales", "nothing"), "5 min")
    other = World()
    with pytest.raises(InvalidArgument, match="does not let Lakeward set table options"):
        set_freshness(other.coordinator, other.table.path, "5 min")
    other.coordinator.close()
