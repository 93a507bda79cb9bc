"""Two readings of one moment: wall time for what is shown, steady time for deadlines.

Steady time is the wall time at the start plus what the monotonic clock counted since: a clock that is set does not
end leases or hold up tables. Stored deadlines are steady; after a restart the wall time of then takes over (DESIGN 5).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from tiering.clock import Clock

DRIFT_STEP = timedelta(milliseconds=100)


@dataclass(frozen=True)
class Moment:
    """One moment. Fields named `*_time` hold `wall` values, fields named `*_deadline` and `*_since` steady ones."""

    wall: datetime
    steady: datetime

    def after(self, milliseconds: float) -> datetime:
        """The steady time this much later."""
        return self.steady + timedelta(milliseconds=milliseconds)

    def milliseconds_since(self, start: datetime) -> int:
        """Whole milliseconds from a steady time on, never negative."""
        return milliseconds(self.steady - start)

    def passed(self, deadline: datetime | None) -> bool:
        """Whether a steady deadline is over; no deadline never is."""
        return deadline is not None and self.steady >= deadline

    def to_wall(self, deadline: datetime | None) -> datetime | None:
        """A steady deadline as the wall clock will show it."""
        return None if deadline is None else deadline + self._drift

    def from_wall(self, time: datetime) -> datetime:
        """The steady time of a wall time."""
        return time - self._drift

    @property
    def _drift(self) -> timedelta:
        """How far the wall clock was set or slewed away; in coarse steps, so that a shown deadline does not tremble."""
        return round((self.wall - self.steady) / DRIFT_STEP) * DRIFT_STEP


def milliseconds(span: timedelta) -> int:
    """Whole milliseconds, never negative."""
    return max(0, span // timedelta(milliseconds=1))


class Timebase:
    """Reads wall clock and monotonic clock as one `Moment`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall_at_start = clock.now()
        self._monotonic_at_start = clock.monotonic_ms()

    def now(self) -> Moment:
        """This moment."""
        elapsed = timedelta(milliseconds=self._clock.monotonic_ms() - self._monotonic_at_start)
        return Moment(self._clock.now(), self._wall_at_start + elapsed)
