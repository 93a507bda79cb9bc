"""Whether work takes time in proportion to its text, told in a way that other work on the machine does not change.

The least of several times counts, of this thread alone and without the garbage collector, and between proportion and a square
lies a factor of eight.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable

SHORT, TIMES = 30_000, 8
"""Characters of the shorter text, and how many times as long the longer one is."""
MOST = 3 * TIMES
"""How many times as long the longer text may take; a square takes TIMES * TIMES."""
LITTLE_SECONDS = 0.02
"""A text that takes less than this cannot be measured and does not matter."""
TRIES = 8


def out_of_proportion(work: Callable[[str], object], unit: str, end: str = "", characters: int = SHORT) -> str | None:
    """Returns None if `work` takes about TIMES as long for TIMES as many units, then `end`; else the measured times."""
    short_text, long_text = (unit * (size // len(unit)) + end for size in (characters, characters * TIMES))
    short = min(_seconds(work, short_text) for _ in range(3))
    long = math.inf
    for _ in range(TRIES):
        short, long = min(short, _seconds(work, short_text)), min(long, _seconds(work, long_text))
        if long <= max(MOST * short, LITTLE_SECONDS):
            return None
    return f"{unit!r}: {short:.4f} s, and {long:.4f} s for {TIMES} times the text"


def _seconds(work: Callable[[str], object], text: str) -> float:
    collects = gc.isenabled()
    gc.disable()
    begun = time.thread_time()
    try:
        work(text)
    finally:
        seconds = time.thread_time() - begun
        if collects:
            gc.enable()
    return seconds
