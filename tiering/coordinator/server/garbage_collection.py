"""Python's garbage collector in a coordinator of very many tables: it stops everything while it walks over their records.

A record that is replaced is freed by its reference count, so the walks find little: a few hundred small objects, in 100 to 160 ms of
standstill every 20 seconds at 10,000 tables and 20 rounds a second.
"""

from __future__ import annotations

import gc
import threading

MANY_TABLES = 10_000
"""From so many tables on full collections are rare: one takes nearly a second at 100,000 tables."""

_NEVER = 2**31 - 1


class RareCollections:
    """Full collections at moments of the caller's choice alone, from `begin` to `end`; small ones go on. Of any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._former: tuple[int, int, int] | None = None
        self._has_ended = False

    def begin(self) -> None:
        """Takes what lives now out of the collector's sight. Harmless to repeat; does nothing after the end."""
        with self._lock:
            if self._former is None and not self._has_ended:
                self._former = gc.get_threshold()
                gc.set_threshold(*self._former[:2], _NEVER)
        self.collect()

    def collect(self) -> None:
        """One full collection of what was made since the last one, if begun; what lives on then is out of its sight, too."""
        with self._lock:
            if self._former is not None:
                gc.collect()
                gc.freeze()

    def end(self) -> None:
        """As it was before `begin`."""
        with self._lock:
            self._has_ended = True
            if self._former is not None:
                gc.set_threshold(*self._former)
                gc.unfreeze()
                self._former = None
