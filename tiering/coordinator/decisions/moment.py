"""Two readings of one moment: wall time for display, steady time for deadlines.

Steady time is the wall time at the start plus the time that the monotonic clock has counted since then. So a clock that is set neither ends
leases nor delays tables. Stored deadlines are steady times. After a restart, steady time starts from the new wall time (DESIGN 5).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from tiering.clock import Clock

DRIFT_STEP = timedelta(milliseconds=100)
"""Resolution of the difference between wall and steady time."""


@dataclass(frozen=True)
class Moment:
    """One moment. Fields named `*_time` hold `wall` values. Fields named `*_deadline` and `*_since` hold `steady` values."""

    wall: datetime
    steady: datetime

    def after(self, milliseconds: float) -> datetime:
        """Returns the steady time this many milliseconds later."""
        return self.steady + timedelta(milliseconds=milliseconds)

    def milliseconds_since(self, start: datetime) -> int:
        """Returns the whole milliseconds since a steady time; never negative."""
        return milliseconds(self.steady - start)

    def passed(self, deadline: datetime | None) -> bool:
        """Returns whether a steady deadline has passed; False without a deadline."""
        return deadline is not None and self.steady >= deadline

    def to_wall(self, deadline: datetime | None) -> datetime | None:
        """Returns the wall time at which a steady deadline passes."""
        return None if deadline is None else deadline + self._drift

    def from_wall(self, time: datetime) -> datetime:
        """Returns the steady time of a wall time."""
        return time - self._drift

    @property
    def _drift(self) -> timedelta:
        """Returns how far the wall clock was set or slewed away, in coarse steps, so that a displayed deadline does not jitter."""
        return round((self.wall - self.steady) / DRIFT_STEP) * DRIFT_STEP


def milliseconds(span: timedelta) -> int:
    """Returns the whole milliseconds of a time span; never negative."""
    return max(0, span // timedelta(milliseconds=1))


class Timebase:
    """Reads the wall clock and the monotonic clock as one `Moment`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall_at_start = clock.now()
        self._monotonic_at_start = clock.monotonic_ms()

    def now(self) -> Moment:
        """Returns the present moment."""
        elapsed = timedelta(milliseconds=self._clock.monotonic_ms() - self._monotonic_at_start)
        return Moment(self._clock.now(), self._wall_at_start + elapsed)
