"""Calls of `tier_table` that wait, and what happens meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from support.worlds.coordinator_world import World
from tiering.procedures.tier_table import TierTableResult


async def until(condition: Callable[[], bool]) -> None:
    """Waits for a condition that work in another thread brings about."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


def during(world: World, act: Callable[[], Awaitable[None]], **arguments: Any) -> TierTableResult:
    """The result of a CALL that waits; `act` runs once the CALL has reported that it waits."""
    world.progress_lines.clear()

    async def both() -> TierTableResult:
        call = asyncio.create_task(world.calling(**arguments))
        await until(lambda: bool(world.progress_lines) or call.done())
        await act()
        return await asyncio.wait_for(call, 60)

    return asyncio.run(both())


def connect(world: World) -> None:
    """Connects a tierer that requests no table."""
    world.tierer("other").beat()
