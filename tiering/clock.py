"""Interfaces for time and for new ids, which the decisions depend on. Tests replace both with controlled ones.

`Store` is in `tiering.coordinator.memory.store`, the cluster protocols are in `tiering.cluster.base`, `Lake` is in `tiering.lake.base`, and
`TaskRunner` and `Transport` are in `tiering.round.ports`.
"""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall-clock time for values that are stored and shown; monotonic time for time-outs."""

    def now(self) -> datetime:
        """Returns the wall-clock time as an aware datetime in UTC."""

    def monotonic_ms(self) -> int:
        """Returns the milliseconds since an arbitrary start. The value never decreases."""


class Ids(Protocol):
    """Source of ids that are never repeated."""

    def new_id(self) -> str:
        """Returns a new id, which can be part of a file name."""


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
