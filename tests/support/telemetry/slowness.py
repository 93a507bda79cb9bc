"""How much slower the machine is while other programs use it, seen by a process that does a little work all the time.

A bound in seconds holds for an idle machine. Beside other programs the bound is multiplied by this factor.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_WORK = """
import time
while True:
    began, worked = time.monotonic(), time.process_time()
    while time.process_time() - worked < 0.004:
        pass
    print(began, time.monotonic(), time.process_time() - worked, flush=True)
    time.sleep(0.02)
"""
"""Prints when each piece of work began and ended, by a clock that all processes share, and the seconds of CPU that it took."""


class Slowness:
    """Measurements of the process so far."""

    def __init__(self) -> None:
        self._pieces: list[tuple[float, float, float]] = []

    def add(self, line: str) -> None:
        began, ended, worked = map(float, line.split())
        self._pieces.append((began, ended, worked))

    def between(self, start: float, end: float) -> float:
        """Seconds that a second of work took between `start` and `end` of the monotonic clock; 1.0 on an idle machine."""
        pieces = [piece for piece in self._pieces if piece[1] >= start and piece[0] <= end]
        worked = sum(worked for _, _, worked in pieces)
        return max(1.0, sum(ended - began for began, ended, _ in pieces) / worked) if worked else 1.0


@contextmanager
def watched_slowness() -> Iterator[Slowness]:
    """The process works during the block."""
    slowness = Slowness()
    with subprocess.Popen([sys.executable, "-c", _WORK], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = process.stdout
        reader = threading.Thread(target=lambda: [slowness.add(line) for line in lines if line.count(" ") == 2], daemon=True)
        reader.start()
        try:
            yield slowness
        finally:
            process.kill()
            reader.join()
