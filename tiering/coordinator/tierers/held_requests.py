"""Bounds how many requests for a table are held at a time, per caller and in total.

A held request costs memory, a stream and a check at every tick. A request beyond the bound is not refused. It is answered at once without a
table, and its tierer asks again after a second, as it does while it is busy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tiering.access.identity import quota_owner

MAX_HELD = 2_000
"""Upper bound of held requests of all callers: twice the number of known tierers."""

MAX_HELD_PER_CALLER = 500
"""Upper bound of held requests of one principal, or of one address if the service does not authenticate callers."""


class HeldRequestLimit:
    """Counts held requests by caller. It belongs to one event loop."""

    def __init__(self) -> None:
        self._by_caller: Counter[str] = Counter()

    @contextmanager
    def room(self, peer: str) -> Iterator[bool]:
        """Yields whether one more request may be held. If so, it counts while the block runs. `peer` is gRPC's name of the connection."""
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
