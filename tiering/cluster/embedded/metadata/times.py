"""The cluster's steady time, which changes of the system clock do not affect."""

from __future__ import annotations

from datetime import datetime, timedelta

from tiering.clock import Clock


class SteadyTime:
    """The wall time at the start plus the monotonic time since then, for durations that must not depend on clock changes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall_at_start = clock.now()
        self._monotonic_at_start = clock.monotonic_ms()

    def now(self) -> datetime:
        """Returns the present steady time."""
        return self._wall_at_start + timedelta(milliseconds=self._clock.monotonic_ms() - self._monotonic_at_start)
