"""How many requests for a table may be held at a time, of one caller and of all.

A held request costs memory, a stream and a look at every tick. One too many is not refused but answered at once, without a
table: its tierer asks again after a second, as it does while it is busy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tiering.access.identity import quota_owner

MAX_HELD = 2_000
"""Held requests of all callers: twice as many as tierers are known at a time."""

MAX_HELD_PER_CALLER = 500
"""Held requests of one principal; of a service that asks nobody who calls, those of one address."""


class HeldRequestLimit:
    """Counts held requests by caller. Belongs to one event loop."""

    def __init__(self) -> None:
        self._by_caller: Counter[str] = Counter()

    @contextmanager
    def room(self, peer: str) -> Iterator[bool]:
        """Whether one more may be held; if so, it counts while the block runs. `peer` is gRPC's name of a connection."""
        caller = quota_owner(peer)
        free = self._by_caller[caller] < MAX_HELD_PER_CALLER and self._by_caller.total() < MAX_HELD
        if free:
            self._by_caller[caller] += 1
        try:
            yield free
        finally:
            if free:
                self._by_caller[caller] -= 1
            if not self._by_caller[caller]:
                del self._by_caller[caller]
