from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import pytest

from sys_tables.server.calls import with_silence_marked

Run = Callable[[Any], None]
LONG_S = 3_600.0
SHORT_S = 0.01


def test_items_pass_through_and_silence_is_marked(run: Run) -> None:
    async def scenario() -> None:
        go_on = asyncio.Event()

        async def items() -> AsyncGenerator[int, None]:
            yield 1
            await go_on.wait()
            yield 2

        received: list[int | None] = []
        async for item in with_silence_marked(items(), SHORT_S):
            received.append(item)
            if received.count(None) == 3:
                go_on.set()
        assert received[0] == 1
        assert received[-1] == 2
        assert set(received[1:-1]) == {None}

    run(scenario())


def test_an_error_inside_comes_out_as_it_is(run: Run) -> None:
    async def broken() -> AsyncGenerator[int, None]:
        yield 1
        raise KeyError("inside")

    async def scenario() -> None:
        with pytest.raises(KeyError, match="inside"):
            _ = [item async for item in with_silence_marked(broken(), LONG_S)]

    run(scenario())


def test_leaving_ends_the_wait_inside_and_hides_its_last_words(run: Run) -> None:
    async def scenario() -> None:
        reported: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
        ended = asyncio.Event()

        async def items() -> AsyncGenerator[int, None]:
            try:
                await asyncio.Event().wait()
                yield 1
            finally:
                ended.set()
                raise KeyError("too late")

        async with aclosing(with_silence_marked(items(), SHORT_S)) as marked:
            async for _ in marked:
                break
        assert ended.is_set()
        assert reported == []

    run(scenario())
