"""Limits Python's garbage collector in a coordinator with very many tables, because it stops all threads while it walks over the records.

A replaced record is freed by its reference count, so the walks find little: a few hundred small objects, in 100 to 160 ms of standstill
every 20 seconds at 10,000 tables and 20 rounds a second.
"""

from __future__ import annotations

import gc
import threading

MANY_TABLES = 10_000
"""From this number of tables on, full collections are rare. One takes nearly a second at 100,000 tables."""

_NEVER = 2**31 - 1


class RareCollections:
    """From `begin` to `end`, full collections run only when the caller asks; small ones continue. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._former: tuple[int, int, int] | None = None
        self._has_ended = False

    def begin(self) -> None:
        """Freezes all living objects, so that the collector skips them. A repeat has no effect, nor has a call after `end`."""
        with self._lock:
            if self._former is None and not self._has_ended:
                self._former = gc.get_threshold()
                gc.set_threshold(*self._former[:2], _NEVER)
        self.collect()

    def collect(self) -> None:
        """Runs one full collection of the objects since the last one, if begun, and freezes the survivors."""
        with self._lock:
            if self._former is not None:
                gc.collect()
                gc.freeze()

    def end(self) -> None:
        """Restores the collector's state from before `begin`."""
        with self._lock:
            self._has_ended = True
            if self._former is not None:
                gc.set_threshold(*self._former)
                gc.unfreeze()
                self._former = None
