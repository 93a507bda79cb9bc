"""Wakes coroutines when something changed: held requests and waiting CALLs. They use no thread while they wait.

Every tick of the coordinator wakes them, too, so that they check the clock. None of them needs a timer of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Subscription:
    """The subscription of one coroutine. A change between two waits is not missed."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    async def wait(self) -> None:
        """Returns at the next change, or at once if there was a change since the last wait."""
        await self._event.wait()
        self._event.clear()

    def wake(self) -> None:
        """Ends the current or the next wait. Call it in the subscription's loop."""
        self._event.set()


class WakeUps:
    """Subscribers that wait for the next change. Subscribe first, then read the state, then wait: so no change is missed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: set[Subscription] = set()
        self._waking: set[asyncio.AbstractEventLoop] = set()

    @contextmanager
    def subscribe(self) -> Iterator[Subscription]:
        """Subscribes the coroutine that enters the block, until its end."""
        subscription = Subscription()
        with self._lock:
            self._waiting.add(subscription)
        try:
            yield subscription
        finally:
            with self._lock:
                self._waiting.discard(subscription)

    def notify(self) -> None:
        """Wakes all subscribers, because something changed or time passed. Call it from any thread.

        A loop is notified once for all changes that come before it runs. A notification takes a system call, and changes come by hundreds.
        """
        with self._lock:
            loops = {subscription.loop for subscription in self._waiting} - self._waking
            self._waking |= loops
        for loop in loops:
            try:
                loop.call_soon_threadsafe(self._wake, loop)
            except RuntimeError:  # the loop was closed, and its waiting coroutines ended
                with self._lock:
                    self._waking.discard(loop)

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            self._waking.discard(loop)  # first, because a later change needs another notification
            waiting = [subscription for subscription in self._waiting if subscription.loop is loop]
        for subscription in waiting:
            subscription.wake()

    @property
    def waiting(self) -> int:
        """Number of coroutines that wait now."""
        with self._lock:
            return len(self._waiting)
