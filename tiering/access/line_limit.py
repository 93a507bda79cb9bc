"""Limits how many lines callers may cause in a log or in the audit. Further lines are counted, and one line has their number."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

WINDOW_SECONDS = 60.0


class LineLimit:
    """Limits of lines per minute, for one caller and for all. It is thread-safe."""

    def __init__(self, of_caller: int, of_all: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._of_caller = of_caller
        self._of_all = of_all
        self._clock = clock
        self._lock = threading.Lock()
        self._window_began = clock()
        self._lines: Counter[str] = Counter()
        self._left_out = 0

    def admits(self, caller: str) -> bool:
        """Counts a line of the caller. Returns False if the line should be left out."""
        with self._lock:
            if self._lines[caller] >= self._of_caller or self._lines.total() >= self._of_all:
                self._left_out += 1
                return False
            self._lines[caller] += 1
            return True

    def summary(self) -> str | None:
        """Begins a new window if the last one is over, and returns how many lines it left out; None if there is nothing to report."""
        with self._lock:
            since = self._clock() - self._window_began
            if since < WINDOW_SECONDS:
                return None
            left_out, self._left_out = self._left_out, 0
            self._window_began += since
            self._lines.clear()
        return f"{left_out} more calls of the {since:.0f} s before were refused, and have no line of their own" if left_out else None
