"""Times as the metadata stores them: microseconds since the epoch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_us(moment: datetime) -> int:
    """Microseconds since the epoch."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def from_us(microseconds: int) -> datetime:
    """The inverse, aware, UTC."""
    return _EPOCH + timedelta(microseconds=microseconds)
