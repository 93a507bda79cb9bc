"""Charts of a report as SVG elements. Pure. Each has a title that says in words what it shows, for readers that cannot see it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from xml.etree.ElementTree import Element

from tiering.durations import short_duration
from tiering.html.elements import element
from tiering.instants import from_milliseconds, to_milliseconds
from tiering.round_history import PART_NAMES, LagPoint
from tiering.round_timeline import Box, Timeline

WIDTH, HEIGHT = 720, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 16, 12, 28
_BAR = 64
_LEGEND_COLUMNS = 5
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


def rounds_chart(picture: Timeline) -> Element:
    """Returns the time line of rounds."""
    inner = WIDTH - 2 * _RIGHT
    elements: list[Element] = []
    for mark in picture.marks:
        place = f"{_RIGHT + inner * mark.x:.1f}"
        elements.append(element("line", {"x1": place, "x2": place, "y1": str(_TOP), "y2": str(_TOP + _BAR + 8), "class": "grid"}))
        elements.append(_text(float(place), _TOP + _BAR + 22, mark.text, "middle"))
    for bar in picture.bars:
        boxes = [*bar.boxes, Box("frame", bar.x, 0, bar.width, 1)]
        boxes += [Box("failed", bar.x, 1 + 1 / _BAR, bar.width, 4 / _BAR)] if bar.is_failed else []
        elements.append(element("g", {}, element("title", {}, bar.label), *(_drawn(box, inner) for box in boxes)))
    names = [(name, PART_NAMES[name]) for name in picture.part_names] + ([("failed", "failed")] if picture.has_failed else [])
    return _chart(picture.label, _TOP + _BAR + 40 + 18 * _rows(names), *elements, *_legend(names, _TOP + _BAR + 46))


def _drawn(box: Box, inner: int) -> Element:
    place = {"x": _RIGHT + inner * box.x, "y": _TOP + _BAR * box.y, "width": inner * box.width, "height": _BAR * box.height}
    return element("rect", {name: f"{value:.2f}" for name, value in place.items()} | {"class": box.name})


def _rows(names: Sequence[tuple[str, str]]) -> int:
    return -(-len(names) // _LEGEND_COLUMNS)


def _legend(names: Sequence[tuple[str, str]], top: int) -> list[Element]:
    elements: list[Element] = []
    for number, (name, words) in enumerate(names):
        x, y = _RIGHT + number % _LEGEND_COLUMNS * (WIDTH // _LEGEND_COLUMNS), top + number // _LEGEND_COLUMNS * 18
        elements.append(element("rect", {"x": str(x), "y": str(y - 9), "width": "10", "height": "10", "class": name}))
        elements.append(_text(x + 14, y, words))
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
