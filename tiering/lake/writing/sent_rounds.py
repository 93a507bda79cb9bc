"""Which rounds' commit requests a process sent."""

from __future__ import annotations

from collections import deque
from threading import Lock

REMEMBERED = 10_000
"""Rounds. An abort comes within the round, so an old one may be forgotten."""


class SentRounds:
    """The rounds for which this process sent a commit request: it never deletes their files.

    A bounded set of round ids; safe to use from several threads.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._order: deque[str] = deque()
        self._ids: set[str] = set()

    def add(self, round_id: str) -> None:
        """Called before the request goes out."""
        with self._lock:
            if round_id in self._ids:
                return
            self._ids.add(round_id)
            self._order.append(round_id)
            if len(self._order) > REMEMBERED:
                self._ids.discard(self._order.popleft())

    def has(self, round_id: str) -> bool:
        """Whether a request may be on its way."""
        with self._lock:
            return round_id in self._ids
