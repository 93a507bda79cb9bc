"""Threads for work that may be slow, with limits in total and per kind of work: a slow table cannot starve the others."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tiering.library_guards.panics import contained
from tiering.log_context import carried

ResultT = TypeVar("ResultT")


class FairPool:
    """At most `threads` threads at once, and at most `share` of them for one key. Belongs to one event loop."""

    def __init__(self, name: str, threads: int, share: int) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._shares: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(share))

    async def run(self, key: str, work: Callable[[], ResultT]) -> ResultT:
        """Returns what `work` returns, or raises what it raises. Cancelling ends the wait. The thread continues and keeps its share until
        it has finished."""
        share = self._shares[key]
        await share.acquire()
        running = asyncio.get_running_loop().run_in_executor(self._executor, carried(contained(work)))
        running.add_done_callback(lambda done: _settle(done, share))
        return await asyncio.shield(running)

    async def draw(self, key: str, items: Iterator[ResultT]) -> AsyncGenerator[ResultT, None]:
        """Yields the items. Each is made in a thread when the caller requests it: a caller who reads slowly occupies no thread."""
        end = object()
        while (item := await self.run(key, lambda: next(items, end))) is not end:
            yield item  # type: ignore[misc]  # mypy does not narrow by identity with `end`

    def close(self) -> None:
        """Starts no more work, and does not wait for running work."""
        self._executor.shutdown(wait=False, cancel_futures=True)


def _settle(done: asyncio.Future[ResultT], share: asyncio.Semaphore) -> None:
    share.release()
    if not done.cancelled():
        done.exception()  # the caller may be gone; reading the result keeps asyncio from reporting it as lost
