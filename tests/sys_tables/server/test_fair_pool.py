from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sys_tables.server.fair_pool import FairPool

Run = Callable[[Any], None]


@pytest.fixture
def pool() -> Iterator[FairPool]:
    pool = FairPool("test", threads=3, share=2)
    yield pool
    pool.close()


def test_one_kind_of_work_never_takes_more_than_its_share(run: Run, pool: FairPool) -> None:
    async def scenario() -> None:
        release, started = threading.Event(), threading.Semaphore(0)

        def slow() -> str:
            started.release()
            assert release.wait(60)
            return "slow"

        slow_ones = [asyncio.create_task(pool.run("slow", slow)) for _ in range(6)]
        try:
            await asyncio.to_thread(started.acquire)
            await asyncio.to_thread(started.acquire)
            assert await pool.run("quick", lambda: "quick") == "quick"
            assert not started.acquire(blocking=False), "a third slow one has begun"
        finally:
            release.set()
        assert await asyncio.gather(*slow_ones) == ["slow"] * 6

    run(scenario())


def test_a_share_is_kept_until_the_thread_is_done_even_if_no_caller_waits(run: Run, pool: FairPool) -> None:
    async def scenario() -> None:
        release, started = threading.Event(), threading.Semaphore(0)

        def slow() -> None:
            started.release()
            assert release.wait(60)

        abandoned = [asyncio.create_task(pool.run("slow", slow)) for _ in range(2)]
        await asyncio.to_thread(started.acquire)
        await asyncio.to_thread(started.acquire)
        for task in abandoned:
            task.cancel()
        await asyncio.wait(abandoned)
        next_one = asyncio.create_task(pool.run("slow", lambda: "next"))
        for _ in range(3):  # long enough for next_one to be done, if it had been let in
            assert await pool.run("quick", lambda: "quick") == "quick"
        assert not next_one.done()
        release.set()
        assert await next_one == "next"

    run(scenario())


def test_an_error_comes_out_and_gives_the_share_back(run: Run, pool: FairPool) -> None:
    def broken() -> None:
        raise KeyError("broken")

    async def scenario() -> None:
        for _ in range(5):
            with pytest.raises(KeyError, match="broken"):
                await pool.run("broken", broken)

    run(scenario())


def test_items_are_drawn_only_when_they_are_wanted(run: Run, pool: FairPool) -> None:
    drawn: list[int] = []

    def items() -> Iterator[int]:
        for number in range(1_000):
            drawn.append(number)
            yield number

    async def scenario() -> None:
        async for item in pool.draw("items", items()):
            if item == 2:
                break
        assert drawn == [0, 1, 2]
        assert [item async for item in pool.draw("items", iter([None, 0]))] == [None, 0]

    run(scenario())
