"""The rounds whose commit requests a process sent."""

from __future__ import annotations

from threading import Lock

REMEMBERED = 10_000
"""Upper bound of the remembered rounds. An abort comes within its round, so the process may forget old rounds."""


class SentRounds:
    """The rounds for which this process sent a commit request. The process never deletes their files.

    A bounded set of round ids. Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._ids: dict[str, None] = {}

    def add(self, round_id: str) -> None:
        """Adds a round. The caller does so before it sends the request."""
        with self._lock:
            self._ids[round_id] = None
            if len(self._ids) > REMEMBERED:
                del self._ids[next(iter(self._ids))]

    def has(self, round_id: str) -> bool:
        """Whether a request of the round may have been sent."""
        with self._lock:
            return round_id in self._ids
