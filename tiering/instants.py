"""Instants as whole numbers since 1970-01-01 UTC, exactly: `datetime.timestamp()` is a float, and rounds.

Every place that stores or sends a time as a number goes by these.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MILLISECOND = timedelta(milliseconds=1)


def to_microseconds(instant: datetime) -> int:
    """Microseconds from the epoch to an aware datetime."""
    return (instant - EPOCH) // _MICROSECOND


def from_microseconds(microseconds: int) -> datetime:
    """The inverse, in UTC. Raises OverflowError for a year that Python has not."""
    return EPOCH + timedelta(microseconds=microseconds)


def to_milliseconds(instant: datetime) -> int:
    """Milliseconds from the epoch to an aware datetime, rounded down."""
    return (instant - EPOCH) // _MILLISECOND


def from_milliseconds(milliseconds: int) -> datetime:
    """The instant in UTC. Raises OverflowError for a year that Python has not."""
    return EPOCH + timedelta(milliseconds=milliseconds)
