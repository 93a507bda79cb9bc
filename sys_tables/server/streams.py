"""A stream that is never silent for long, so that its reader knows that it is alive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

ItemT = TypeVar("ItemT")


async def with_silence_marked(items: AsyncGenerator[ItemT, None], interval_s: float) -> AsyncGenerator[ItemT | None, None]:
    """Yields the items, and None whenever `interval_s` seconds have brought none. Leaving it ends the wait inside `items` at once."""
    async with aclosing(items):
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
        waiting.exception()  # reading it keeps asyncio from reporting an exception that was never retrieved
