"""Async iterators as resources: closed when they are left, never silent for long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

ItemT = TypeVar("ItemT")


@asynccontextmanager
async def closing(items: AsyncIterator[ItemT]) -> AsyncGenerator[AsyncIterator[ItemT], None]:
    """`items`, closed at the end if it can be."""
    try:
        yield items
    finally:
        close = getattr(items, "aclose", None)
        if close is not None:
            await close()


async def with_silence_marked(items: AsyncIterator[ItemT], interval_s: float) -> AsyncGenerator[ItemT | None, None]:
    """The items, and None whenever `interval_s` seconds have brought none. Leaving it ends the wait inside `items` at once."""
    async with closing(items):
        while True:
            waiting = asyncio.ensure_future(anext(items))
            try:
                while not (await asyncio.wait({waiting}, timeout=interval_s))[0]:
                    yield None
                item = waiting.result()
            except StopAsyncIteration:
                return
            finally:
                await _end(waiting)
            yield item


async def _end(waiting: asyncio.Future[ItemT]) -> None:
    """Cancels what is still awaited and lets it unwind: a generator cannot be closed while it runs."""
    if waiting.done():
        return
    waiting.cancel()
    await asyncio.wait({waiting})
    if not waiting.cancelled():
        waiting.exception()  # nobody is left to hear it; looking at it keeps asyncio from reporting it as lost
