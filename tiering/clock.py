"""The small interfaces through which decisions meet the world: time and names. Tests drive them by hand.

`Store` is in `tiering.coordinator.memory.store`, the cluster protocols in `tiering.cluster.base`, `Lake` in `tiering.lake.base`,
`TaskRunner` and `Transport` in `tiering.round.ports`.
"""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall time for what is stored and shown; monotonic time for time-outs."""

    def now(self) -> datetime:
        """Wall time, aware, UTC."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds from an arbitrary start; never goes back."""
        ...


class Ids(Protocol):
    """Names that are unique for ever."""

    def new_id(self) -> str:
        """A fresh identifier, safe in a file name."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class RandomIds:
    """Random UUIDs."""

    def new_id(self) -> str:
        return str(uuid.uuid4())
