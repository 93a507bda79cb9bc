"""One lock per table for all code that changes what is recorded of its lake: acks and reconciliations take turns.

Each holder talks to the lake, which may hang. So a wait is short, and its error gives the reason.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakValueDictionary

from tiering.errors import TableBusy

WAIT_SECONDS = 10.0
"""Longest wait for a lock.

It is longer than a healthy lake takes, and shorter than a client waits (30 s), so the client gets the reason.
"""


class TableLocks:
    """The locks of all tables. A lock exists only while it is held or waited for, so invented table ids leave nothing behind."""

    def __init__(self, wait_seconds: float = WAIT_SECONDS) -> None:
        self.wait_seconds = wait_seconds
        self._guard = threading.Lock()
        self._locks: WeakValueDictionary[int, threading.Lock] = WeakValueDictionary()

    @contextmanager
    def held(self, table_id: int) -> Iterator[None]:
        """Runs the block with the table's lock. Raises TableBusy if another holder keeps it for too long."""
        with self._guard:
            lock = self._locks.get(table_id)
            if lock is None:
                lock = self._locks[table_id] = threading.Lock()
        if not lock.acquire(timeout=self.wait_seconds):
            raise TableBusy(
                f"another acknowledgement or reconciliation of table {table_id} has not ended within {self.wait_seconds:g} s",
                table_id=table_id,
            )
        try:
            yield
        finally:
            lock.release()

    def __len__(self) -> int:
        return len(self._locks)
