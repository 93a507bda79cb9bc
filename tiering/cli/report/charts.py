"""Charts of a report as SVG elements. Pure. Each has a title that says in words what it shows, for readers that cannot see it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from xml.etree.ElementTree import Element

from tiering.durations import short_duration
from tiering.html.elements import element
from tiering.instants import from_milliseconds, to_milliseconds
from tiering.round_history import PART_COLOURS, LagPoint, Round, parts_of

WIDTH, HEIGHT = 720, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 16, 12, 28
_BAR, _GAP = 12, 5
_MARKS = 4


def lag_chart(points: Sequence[LagPoint], promise_ms: int) -> Element:
    """Returns the lag over time, against the promise. At least one point."""
    first, last = to_milliseconds(points[0].at), max(to_milliseconds(points[-1].at), to_milliseconds(points[0].at) + 1)
    highest = max(promise_ms, *(point.lag_ms for point in points)) * 1.1
    broken = sum(1 for point in points if point.lag_ms > promise_ms)

    def place(at: int, lag_ms: float) -> str:
        x = _LEFT + (WIDTH - _LEFT - _RIGHT) * (at - first) / (last - first)
        y = HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * lag_ms / highest
        return f"{x:.1f},{y:.1f}"

    line = " ".join(place(to_milliseconds(point.at), point.lag_ms) for point in points)
    (left, y), (right, _) = (place(at, promise_ms).split(",") for at in (first, last))
    label = f"Lag from {_time(points[0].at)} to {_time(points[-1].at)}; promise {short_duration(promise_ms)}; " + (
        "never longer than the promise" if not broken else f"longer than the promise at {broken} of {len(points)} points"
    )
    return _chart(
        label,
        HEIGHT,
        *_scale(highest),
        element("line", {"x1": left, "x2": right, "y1": y, "y2": y, "class": "promise"}),
        element("polyline", {"points": line, "class": "lag"}),
        _text(_LEFT, HEIGHT - 8, _time(points[0].at)),
        _text(WIDTH - _RIGHT, HEIGHT - 8, _time(points[-1].at), "end"),
    )


def rounds_chart(rounds: Sequence[Round]) -> Element:
    """Returns one bar for each round that has ended, split into its parts. The newest round is at the top. At least one round."""
    bars = [(row, parts_of(row)) for row in rounds]
    longest = max(1, *(sum(parts.values()) for _, parts in bars))
    height = _TOP + len(bars) * (_BAR + _GAP) + _BOTTOM
    elements: list[Element] = []
    for number, (row, parts) in enumerate(bars):
        x, y = float(_LEFT), _TOP + number * (_BAR + _GAP)
        elements.append(_text(_LEFT - 6, y + _BAR - 2, f"{row['pending_time']:%H:%M:%S}", "end"))
        for name, milliseconds in parts.items():
            width = (WIDTH - _LEFT - _RIGHT) * milliseconds / longest
            tip = element("title", {}, f"{name} {short_duration(milliseconds)}")
            place = {"x": f"{x:.1f}", "y": str(y), "width": f"{width:.2f}", "height": str(_BAR), "class": name}
            elements.append(element("rect", place, tip))
            x += width
    label = f"The last {len(bars)} rounds, the newest first; the longest took {short_duration(longest)} with its waiting time"
    return _chart(label, height, *elements, *_legend(height - 8))


def _legend(y: int) -> list[Element]:
    elements: list[Element] = []
    for number, name in enumerate(PART_COLOURS):
        x = _LEFT + number * 78
        elements.append(element("rect", {"x": str(x), "y": str(y - 9), "width": "10", "height": "10", "class": name}))
        elements.append(_text(x + 14, y, name))
    return elements


def _scale(highest: float) -> list[Element]:
    elements: list[Element] = []
    for number in range(_MARKS + 1):
        y = HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * number / _MARKS
        elements.append(element("line", {"x1": str(_LEFT), "x2": str(WIDTH - _RIGHT), "y1": f"{y:.1f}", "y2": f"{y:.1f}", "class": "grid"}))
        elements.append(_text(_LEFT - 6, round(y) + 4, short_duration(round(highest * number / _MARKS)), "end"))
    return elements


def _chart(label: str, height: int, *parts: Element) -> Element:
    return element("svg", {"viewBox": f"0 0 {WIDTH} {height}", "role": "img", "aria-label": label}, element("title", {}, label), *parts)


def _text(x: float, y: float, text: str, anchor: str = "start") -> Element:
    return element("text", {"x": str(x), "y": str(y), "text-anchor": anchor}, text)


def _time(at: datetime) -> str:
    return f"{from_milliseconds(to_milliseconds(at)):%Y-%m-%d %H:%M}"
