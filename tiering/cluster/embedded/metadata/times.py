"""Times as the metadata stores them: microseconds since the epoch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tiering.clock import Clock

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_us(moment: datetime) -> int:
    """Microseconds since the epoch."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def from_us(microseconds: int) -> datetime:
    """The inverse, aware, UTC."""
    return _EPOCH + timedelta(microseconds=microseconds)


class SteadyTime:
    """The wall time of a start, plus what the monotonic clock counted since: for what must not end because a clock was set."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall_at_start = clock.now()
        self._monotonic_at_start = clock.monotonic_ms()

    def now(self) -> datetime:
        """This moment."""
        return self._wall_at_start + timedelta(milliseconds=self._clock.monotonic_ms() - self._monotonic_at_start)
