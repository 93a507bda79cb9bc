"""Background work in short pieces with rests between them, so that others get their turn at any moment and not only on average.

Python runs one thread at a time: a second of work in one piece is a second that a question waits for, in part, however
long the rest after it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Rest = Callable[[], bool]
"""Called between pieces of work. False = stop here."""

PIECE_S = 0.002
"""Shorter work needs no rest of its own: a pass over a few tables is done at once."""


LONGEST_REST_S = 30.0
"""Work that asks for a longer rest has mostly waited, for something outside that hangs: that takes nobody's time."""


def pieces(items: Iterable[Item], size: int) -> Iterator[tuple[Item, ...]]:
    """Yields the items in order, `size` at a time; the last piece may have fewer. Yields nothing for no items."""
    remaining = iter(items)
    return iter(lambda: tuple(islice(remaining, size)), ())


def no_rest() -> bool:
    """For work that somebody waits for."""
    return True


def rest_after(worked: float, share: float) -> float:
    """Seconds to rest after so many of work that may take `share` of the time (0 to 1)."""
    return min(worked / share - worked, LONGEST_REST_S)


class Pace:
    """The rests of one pass, which takes at most `share` of the time (0 to 1) from here on.

    `wait` waits for so many seconds and tells whether it ended early; `now` is seconds of a steady clock.
    """

    def __init__(self, share: float, wait: Callable[[float], bool], now: Callable[[], float] = time.monotonic) -> None:
        self._share = share
        self._wait = wait
        self._now = now
        self._since = now()

    @classmethod
    def until(cls, ended: threading.Event, share: float) -> Pace:
        """A real one."""
        return cls(share, ended.wait)

    def rest(self) -> bool:
        """As long as the work since the last rest asks for; a `Rest`."""
        worked = self._now() - self._since
        if worked < PIECE_S:
            return True
        ended = self._wait(rest_after(worked, self._share))
        self._since = self._now()
        return not ended
