"""Divides background work into short pieces with rests between them, so that other threads run at any moment and not only on average.

Python runs one thread at a time. So a query waits during a part of every long piece of work, however long the rest after it is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Throttling = Callable[[], bool]
"""A function that is called between pieces of work. It returns whether the work shall continue."""

PIECE_S = 0.002
"""Shorter work needs no rest: a pass over a few tables runs without one."""


LONGEST_REST_S = 30.0
"""The longest rest in seconds. Work that would need a longer one has mostly waited for an external system that hangs, which uses no CPU."""


def pieces(items: Iterable[Item], size: int) -> Iterator[tuple[Item, ...]]:
    """Yields the items in order, `size` at a time; the last piece may have fewer. Yields nothing for no items."""
    remaining = iter(items)
    return iter(lambda: tuple(islice(remaining, size)), ())


def unthrottled() -> bool:
    """Returns True at once. It is for work that a caller waits for."""
    return True


def pause_after(worked: float, share: float) -> float:
    """Returns the seconds to rest after `worked` seconds of work that may take `share` of the time (0 to 1)."""
    return min(worked / share - worked, LONGEST_REST_S)


class Throttle:
    """The rests of one pass, which takes at most `share` of the time (0 to 1) from now on.

    `wait` waits for the given seconds and returns whether it ended early. `now` returns the seconds of a steady clock.
    """

    def __init__(self, share: float, wait: Callable[[float], bool], now: Callable[[], float] = time.monotonic) -> None:
        self._share = share
        self._wait = wait
        self._now = now
        self._since = now()

    @classmethod
    def until(cls, ended: threading.Event, share: float) -> Throttle:
        """Returns a throttle that waits in real time. Its pauses end early when `ended` is set."""
        return cls(share, ended.wait)

    def pause(self) -> bool:
        """Waits in proportion to the work since the last pause. Returns whether the work shall continue. It is a `Throttling` function."""
        worked = self._now() - self._since
        if worked < PIECE_S:
            return True
        ended = self._wait(pause_after(worked, self._share))
        self._since = self._now()
        return not ended
