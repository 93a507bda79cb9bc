"""Charts over time: their points for static/charts.js, and a picture of the same points for readers without scripts. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tiering.durations import short_duration
from tiering.instants import to_milliseconds

WIDTH, HEIGHT = 640, 160
"""Size of a picture, in its own units."""


@dataclass(frozen=True)
class Line:
    """A line of a chart, with a value for each of its times; None = unknown. `style` is the class of the line in console.css."""

    name: str
    values: Sequence[float | None]
    style: str


@dataclass(frozen=True)
class TimeChart:
    """A chart with at least one time, in their order. `label` says in words what it shows.

    `unit` is ms for durations, otherwise a noun, or empty. With `joins_gaps`, a line connects its values across
    unknown ones; otherwise it has a gap there.
    """

    label: str
    unit: str
    at: Sequence[datetime]
    lines: Sequence[Line]
    has_bars: bool = False
    joins_gaps: bool = False
    width = WIDTH
    height = HEIGHT

    @property
    def data(self) -> str:
        """Returns the points as JSON: times in seconds since the epoch."""
        lines = [{"name": line.name, "style": line.style, "values": list(line.values)} for line in self.lines]
        times = [to_milliseconds(at) / 1_000 for at in self.at]
        return json.dumps({"unit": self.unit, "hasBars": self.has_bars, "joinsGaps": self.joins_gaps, "times": times, "lines": lines})

    @property
    def highest(self) -> float:
        """Returns the largest value, at least 1."""
        return max(1, *self._values())

    @property
    def lowest(self) -> float:
        """Returns the smallest value, at most 0."""
        return min(0, *self._values())

    @property
    def range_text(self) -> str:
        """Returns the range of values, with their unit."""
        return f"up to {self._text(self.highest)}" if self.lowest == 0 else f"{self._text(self.lowest)} to {self._text(self.highest)}"

    def _text(self, value: float) -> str:
        return short_duration(round(value)) if self.unit == "ms" else f"{value:,.0f} {self.unit}".strip()

    def _values(self) -> list[float]:
        return [value for line in self.lines for value in line.values if value is not None] or [0]

    def x(self, at: datetime) -> float:
        """Returns the place of a time in the picture."""
        return round(WIDTH * ((at - self.at[0]) / max(self.at[-1] - self.at[0], timedelta(milliseconds=1))), 1)

    def points(self, line: Line) -> list[str]:
        """Returns the points of each part of a line in the picture. A part of one point has it twice, so that it is drawn."""
        parts: list[list[str]] = [[]]
        for at, value in zip(self.at, line.values, strict=True):
            if value is not None:
                height = HEIGHT * (self.highest - value) / (self.highest - self.lowest)
                parts[-1].append(f"{self.x(at)},{height:.1f}")
            elif parts[-1] and not self.joins_gaps:
                parts.append([])
        return [" ".join(part if len(part) > 1 else part * 2) for part in parts if part]

    def bars(self, line: Line) -> list[tuple[float, float]]:
        """Returns the place and the height of each bar of a line in the picture; bars of 0 are left out."""
        places = zip(self.at, line.values, strict=True)
        return [(self.x(at) * (1 - 1 / len(self.at)), round(HEIGHT * value / self.highest, 1)) for at, value in places if value]


@dataclass(frozen=True)
class Segment:
    """A part of a strip: where it begins, how long it is, in cells, and the class of its colour."""

    begin: int
    cells: int
    style: str


def segments(styles: Sequence[str]) -> list[Segment]:
    """Returns the cells of a strip, equal neighbours joined."""
    joined: list[Segment] = []
    for place, style in enumerate(styles):
        if joined and joined[-1].style == style:
            joined[-1] = Segment(joined[-1].begin, joined[-1].cells + 1, style)
        else:
            joined.append(Segment(place, 1, style))
    return joined


def sums_over_time(rows: Sequence[Mapping[str, Any]], time: str, value: str, since: datetime, until: datetime, bins: int) -> list[float]:
    """Returns the sum of a column in each of `bins` equal parts of a time."""
    totals = [0.0] * bins
    for row in rows:
        place = int((row[time] - since) / (until - since) * bins)
        totals[min(max(place, 0), bins - 1)] += row[value] or 0
    return totals
