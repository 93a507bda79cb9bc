"""Python's garbage collector in a coordinator of very many tables: it stops everything while it walks over their records.

A record that is replaced is freed by its reference count, so the walks find little: a few hundred small objects, in 100 to 160 ms of
standstill every 20 seconds at 10,000 tables and 20 rounds a second.
"""

from __future__ import annotations

import gc

MANY_TABLES = 10_000
"""From so many tables on full collections are rare: one takes nearly a second at 100,000 tables."""

_NEVER = 2**31 - 1


class RareCollections:
    """Full collections at moments of the caller's choice alone, once `begin` was called; small ones go on."""

    def __init__(self) -> None:
        self._former: tuple[int, int, int] | None = None

    def begin(self) -> None:
        """Takes what lives now out of the collector's sight. Harmless to repeat."""
        if self._former is None:
            self._former = gc.get_threshold()
            gc.set_threshold(*self._former[:2], _NEVER)
        self.collect()

    def collect(self) -> None:
        """One full collection of what was made since the last one, if begun; what lives on then is out of its sight, too."""
        if self._former is not None:
            gc.collect()
            gc.freeze()

    def end(self) -> None:
        """As it was before `begin`."""
        if self._former is not None:
            gc.set_threshold(*self._former)
            gc.unfreeze()
            self._former = None
