"""CALL sys.tier_database: a row a table, a choice that a key fixes, and no table that holds up another."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.background import tick
from support.clusters.memory_cluster import log_table
from support.operators import pause
from support.worlds.coordinator_world import World
from tiering.errors import InvalidArgument, UnknownDatabase
from tiering.model.tables import TablePath
from tiering.procedures.base import Progress
from tiering.procedures.tier_database import TierDatabase, TierDatabaseResult


@pytest.fixture
def world() -> World:
    names = ("orders", "orders_old", "planes", "tmp_1")
    return World(tuple(log_table(number, TablePath("sales", name)) for number, name in enumerate(names, 1)))


def call(world: World, database: str = "sales", **more: Any) -> dict[str, tuple[str, str | None]]:
    """By table name the state and the error."""
    return asyncio.run(calling(world, database, **more))


async def calling(world: World, database: str = "sales", run_rounds: bool = False, **more: Any) -> dict[str, tuple[str, str | None]]:
    request = TierDatabase(database, caller="ann", **({"wait": False} | more))
    result: TierDatabaseResult | None = None
    rounds = asyncio.ensure_future(asyncio.to_thread(tier_all, world)) if run_rounds else None
    async with asyncio.timeout(30):
        async for step in world.coordinator.control.perform_with_progress(request):
            if isinstance(step, Progress):
                world.progress_lines.append(step.message)
            else:
                result = step
    if rounds is not None:
        await rounds
    assert result is not None
    assert [row.tiered.path for row in result.rows] == sorted(row.tiered.path for row in result.rows)
    return {row.tiered.path.table_name: (row.tiered.state, row.error) for row in result.rows}


def tier_all(world: World) -> None:
    """Runs what is queued, until nothing of `orders` waits any more."""
    tierer = world.tierer()
    while world.record().lake.snapshot_id is None:
        if tierer.beat(request=True).HasField("tiering_table"):
            tierer.run(*tierer.running.values())
        tick(world.coordinator)


def test_only_tables_whose_copy_lacks_rows_are_tiered_and_the_call_waits_for_them(world: World) -> None:
    world.append()
    assert call(world, run_rounds=True, wait=True, timeout_ms=20_000) == {"orders": ("SUCCEEDED", None)}
    assert world.progress_lines[-1] == "1 of 1 table of sales: sales.orders is SUCCEEDED"
    assert call(world) == {}
    events = [(event.event_type, event.principal, event.message) for event in world.store.events()]
    assert ("DATABASE_CALLED", "ann", "CALL by ann: 1 table of sales") in events


def test_patterns_choose_by_name(world: World) -> None:
    everything = call(world, only_stale=False, dry_run=True)
    assert set(everything) == {"orders", "orders_old", "planes", "tmp_1"}
    assert set(call(world, only_stale=False, dry_run=True, include="orders%", exclude="%old")) == {"orders"}
    assert set(call(world, only_stale=False, dry_run=True, include="tmp\\_1")) == {"tmp_1"}
    assert set(call(world, only_stale=False, dry_run=True, include="ORDERS")) == set()
    assert not [event for event in world.store.events() if event.principal == "ann"]


@pytest.mark.parametrize("pattern", ["a\\", "\\a"])
def test_a_backslash_before_anything_else_is_refused(world: World, pattern: str) -> None:
    with pytest.raises(InvalidArgument, match="has a backslash before"):
        call(world, include=pattern)


def test_a_paused_table_has_its_error_and_holds_up_no_other(world: World) -> None:
    for table in world.tables[:2]:
        world.append(table=table)
    pause(world.coordinator, world.tables[1].path, "bob", "moving")
    rows = call(world)
    assert rows["orders"] == ("Pending", None)
    assert rows["orders_old"] == ("Scheduled", "sales.orders_old was paused by bob: moving")


def test_a_failed_table_is_tried_again_though_nothing_is_new(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.fail(assignment)
    assert call(world) == {"orders": ("Pending", None)}


def test_a_key_fixes_the_choice_over_a_restart_and_has_one_round_a_table(world: World) -> None:
    world.append()
    assert set(call(world, idempotency_key="k")) == {"orders"}
    round_ids = {row.round_id for row in world.store.rounds()}
    world.append(table=world.tables[2])
    world.restart()
    assert call(world, idempotency_key="k") == {"orders": ("Pending", None)}
    assert {row.round_id for row in world.store.rounds()} == round_ids
    assert len([event for event in world.store.events() if event.event_type == "DATABASE_CALLED"]) == 1
    done = call(world, idempotency_key="k", run_rounds=True, wait=True, timeout_ms=20_000)
    assert done == {"orders": ("SUCCEEDED", None)}
    world.append()
    assert call(world, idempotency_key="k") == done, "the stored answer"
    with pytest.raises(InvalidArgument, match="already names tier_database"):
        call(world, idempotency_key="k", include="planes")


def test_what_cannot_be_called_is_said(world: World) -> None:
    with pytest.raises(UnknownDatabase):
        call(world, "nowhere")
    with pytest.raises(InvalidArgument, match="negative"):
        call(world, timeout_ms=-1)


def test_a_pattern_of_many_wildcards_is_answered(world: World) -> None:
    """With a backtracking engine this call would not end, and it would hold the interpreter's lock."""
    assert set(call(world, only_stale=False, dry_run=True, include="%" * 2_000 + "x")) == set()
    assert set(call(world, only_stale=False, dry_run=True, exclude="%o" * 1_000)) == {table.path.table_name for table in world.tables}
