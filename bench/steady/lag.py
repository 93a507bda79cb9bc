"""How old a lake is while rows come at a constant rate, and the highest rate that it keeps up with. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

SAMPLE_S = 0.25
"""Between two moments at which the lag counts."""


@dataclass(frozen=True)
class Landing:
    """Rows that readers of the lake saw, so many seconds after the writer's start."""

    at: float
    rows: int


@dataclass(frozen=True)
class Step:
    """One rate, kept up for `seconds`. The lags are those of the table with this rate; `small_p99_s` is that of all other tables.

    `behind_s`: how late the writer itself was at its end; that is a part of the lag. `files`: of the table at the end.
    """

    rate: float
    seconds: float
    p50_s: float
    p99_s: float
    max_s: float
    small_p99_s: float | None
    behind_s: float
    files: int | None
    is_whole: bool
    """Whether every row was in the lake in the end, once."""

    def holds(self, limit_s: float) -> bool:
        """Whether the lake kept up: with `limit_s` in 99 of 100 moments."""
        return self.is_whole and self.p99_s < limit_s


def lags(landings: Sequence[Landing], rate: float, begin: float, end: float) -> Iterator[float]:
    """At each moment from `begin` to `end` the seconds since the oldest row was due that was not in the lake; 0 if all were.

    Row k is due k / rate seconds after the start, whether or not the writer was in time: a writer that is held up hides nothing.
    """
    position, rows, moment = 0, 0, begin
    while moment <= end:
        while position < len(landings) and landings[position].at <= moment:
            rows, position = landings[position].rows, position + 1
        yield max(0.0, moment - rows / rate)
        moment += SAMPLE_S


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -int(-len(ordered) * share // 1) - 1)]


def highest_rate(
    rates: Sequence[float], try_rate: Callable[[float, float], Step], limit_s: float, search_s: float, confirm_s: float
) -> tuple[Step | None, list[Step]]:
    """The step of the highest rate that holds for `confirm_s`, and all steps. Rates are tried upwards for `search_s` each, up to the
    first that does not hold, and then downwards for `confirm_s`.
    """
    steps, held = list[Step](), list[float]()
    for rate in sorted(rates):
        steps.append(try_rate(rate, search_s))
        if not steps[-1].holds(limit_s):
            break
        held.append(rate)
    if search_s >= confirm_s:
        return next((step for step in reversed(steps) if step.holds(limit_s)), None), steps
    for rate in reversed(held):
        steps.append(try_rate(rate, confirm_s))
        if steps[-1].holds(limit_s):
            return steps[-1], steps
    return None, steps
