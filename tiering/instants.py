"""Converts times to and from whole numbers since 1970-01-01 UTC, exactly. `datetime.timestamp()` is a float and rounds.

All code that stores or sends a time as a number uses these functions.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MILLISECOND = timedelta(milliseconds=1)


def to_microseconds(instant: datetime) -> int:
    """Returns the microseconds from the epoch to an aware datetime."""
    return (instant - EPOCH) // _MICROSECOND


def from_microseconds(microseconds: int) -> datetime:
    """Returns the time in UTC. Raises OverflowError for a year that Python's datetime cannot represent."""
    return EPOCH + timedelta(microseconds=microseconds)


def to_milliseconds(instant: datetime) -> int:
    """Returns the milliseconds from the epoch to an aware datetime, rounded down."""
    return (instant - EPOCH) // _MILLISECOND


def from_milliseconds(milliseconds: int) -> datetime:
    """Returns the time in UTC. Raises OverflowError for a year that Python's datetime cannot represent."""
    return EPOCH + timedelta(milliseconds=milliseconds)
