"""Every procedure that changes something: one effect for one idempotency key, none for a dry run, an event with the caller.

Over the real coordinator and a real lake, whose table failed because a user rolled it back. A new procedure that
changes something fails here until it says how it is called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.lake_world import LakeWorld
from support.sys_catalog import Client, error_of, serving
from sys_tables.registry import default_registry
from tiering.coordinator.operations import KEY_LIMIT
from tiering.errors import InvalidArgument

ARGUMENTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "reconcile_lake": ({"table": "sales.orders", "action": "retier"}, {"action": "accept"}),
    "retry_tiering": ({"table": "sales.orders"}, {"table": "sales.other"}),
    "tier_table": ({"table": "sales.orders", "wait": False}, {"table": "sales.other"}),
}
"""Of each procedure: how it is called with an effect, and what makes that another operation."""

CHANGING = [procedure.name for procedure in default_registry().procedures if procedure.mutates]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LakeWorld]:
    made = LakeWorld(tmp_path)
    orders = made.table("orders")
    for number in range(2):
        made.append(orders, number * 20, 20)
        made.tier(orders)
    loaded = made.iceberg(orders)
    loaded.manage_snapshots().rollback_to_snapshot(loaded.metadata.snapshots[0].snapshot_id).commit()
    made.append(orders, 40, 20)
    made.tier(orders)
    assert made.record(orders).state == "Failed"
    made.table("other")
    yield made
    made.close()


def state(world: LakeWorld) -> list[object]:
    """All that a CALL could change."""
    store, heads = world.store, [world.lake.view(info.path) for info in world.storage.tables()]
    return [store.load(), store.rounds(), store.commits(), store.events(), heads]


def talk(world: LakeWorld, scenario: Callable[[Client], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(60), serving(world.coordinator) as client:
            await scenario(client)

    asyncio.run(whole())


@pytest.mark.parametrize("name", CHANGING)
def test_a_dry_run_answers_and_changes_nothing(world: LakeWorld, name: str) -> None:
    arguments, _ = ARGUMENTS[name]
    before = state(world)

    async def scenario(client: Client) -> None:
        _, rows = await client.call(name, key="k", dry_run=True, **arguments)
        assert rows.num_rows >= 1

    talk(world, scenario)
    assert state(world) == before
    assert world.store.operation("k") is None


@pytest.mark.parametrize("name", CHANGING)
def test_a_key_has_one_effect_and_one_answer_also_after_a_restart(world: LakeWorld, name: str) -> None:
    arguments, _ = ARGUMENTS[name]
    before, seen = state(world), []

    async def call(client: Client) -> None:
        _, rows = await client.call(name, key="k", caller="ann", **arguments)
        answers = rows.to_pylist()
        seen.append([{column: value for column, value in row.items() if column != "duration_ms"} for row in answers])

    talk(world, call)
    after = state(world)
    assert after != before
    assert "ann" in {event.principal for event in world.store.events()}
    talk(world, call)
    assert state(world) == after
    world.restart()
    after = state(world)
    talk(world, call)
    assert state(world) == after
    assert seen[0] == seen[1] == seen[2]


@pytest.mark.parametrize("name", CHANGING)
def test_two_calls_at_once_with_one_key_have_one_effect(world: LakeWorld, name: str) -> None:
    arguments, _ = ARGUMENTS[name]

    async def scenario(client: Client) -> None:
        answers = await asyncio.gather(*(client.call(name, key="k", **arguments) for _ in range(4)))
        assert len({str(rows.drop_columns([c for c in ("duration_ms",) if c in rows.column_names])) for _, rows in answers}) == 1

    talk(world, scenario)
    asked = [event for event in world.store.events() if event.principal == "ann"]
    assert len({(event.event_type, event.message) for event in asked}) == len(asked)


@pytest.mark.parametrize("name", CHANGING)
def test_a_key_names_nothing_else(world: LakeWorld, name: str) -> None:
    arguments, other = ARGUMENTS[name]

    async def scenario(client: Client) -> None:
        await client.call(name, key="k", **arguments)
        before = state(world)
        another = next(each for each in CHANGING if each != name)
        for asked in (
            client.call(name, key="k", **(arguments | other)),
            client.call(name, key="k", caller="mallory", **arguments),
            client.call(another, key="k", **ARGUMENTS[another][0]),
        ):
            error = await error_of(asked)
            assert isinstance(error, InvalidArgument)
            assert f"the idempotency key 'k' already names {name} of" in error.message
        assert state(world) == before

    talk(world, scenario)


@pytest.mark.parametrize("name", CHANGING)
@pytest.mark.parametrize("key", ["", "k" * (KEY_LIMIT + 1)])
def test_a_key_that_cannot_be_is_refused_before_anything_is_done(world: LakeWorld, name: str, key: str) -> None:
    before = state(world)

    async def scenario(client: Client) -> None:
        error = await error_of(client.call(name, idempotency_key=key, **ARGUMENTS[name][0]))
        assert isinstance(error, InvalidArgument)
        assert f"idempotency_key must have 1 to {KEY_LIMIT} characters" in error.message

    talk(world, scenario)
    assert state(world) == before
