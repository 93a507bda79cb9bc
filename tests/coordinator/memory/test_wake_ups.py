"""Each change wakes every subscriber that could have missed it, and the loop is notified no more often than it looks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from support.clusters.memory_cluster import log_table
from support.worlds.coordinator_world import World
from tiering.coordinator.memory.wake_ups import WakeUps
from tiering.model.tables import TablePath


def test_a_loop_is_told_once_of_many_changes_and_wakes_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        loop, calls = asyncio.get_running_loop(), list[object]()
        call_soon = loop.call_soon_threadsafe

        def counted(callback: Callable[..., object], *args: Any, **options: Any) -> asyncio.Handle:
            calls.append(callback)
            return call_soon(callback, *args, **options)

        monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
        wake_ups = WakeUps()
        with wake_ups.subscribe() as first, wake_ups.subscribe() as second:
            for _ in range(100):
                wake_ups.notify()
            await asyncio.wait_for(asyncio.gather(first.wait(), second.wait()), 5)
            assert len(calls) == 1
            wake_ups.notify()
            await asyncio.wait_for(asyncio.gather(first.wait(), second.wait()), 5)
            assert len(calls) == 2

    asyncio.run(test())


def test_no_change_is_missed_between_two_waits_whatever_thread_makes_it() -> None:
    async def test() -> None:
        wake_ups, noticed, changed = WakeUps(), 0, 0

        def change() -> None:
            nonlocal changed
            for _ in range(2_000):
                changed += 1
                wake_ups.notify()

        with wake_ups.subscribe() as changes:
            changing = asyncio.create_task(asyncio.to_thread(change))
            while noticed < 2_000:
                await asyncio.wait_for(changes.wait(), 5)
                noticed = changed
            await changing

    asyncio.run(test())


def test_a_loop_that_ended_delays_no_other() -> None:
    wake_ups = WakeUps()

    async def subscribe_for_ever() -> None:
        wake_ups.subscribe().__enter__()

    asyncio.run(subscribe_for_ever())
    wake_ups.notify()

    async def test() -> None:
        with wake_ups.subscribe() as changes:
            wake_ups.notify()
            await asyncio.wait_for(changes.wait(), 5)

    asyncio.run(test())


def test_the_records_that_a_reader_has_stay_as_they_were() -> None:
    world = World((log_table(), log_table(2, TablePath("sales", "second"))))
    before = world.coordinator.table_records.all()
    state = before[1].state
    assert world.coordinator.table_records.all() is before, "nothing changed, so nothing is copied"
    world.due()
    after = world.coordinator.table_records.all()
    assert before[1].state is state
    assert after[1].state is not state
