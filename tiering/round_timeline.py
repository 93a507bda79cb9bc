"""The rounds of a table as bars on a time line. The console, reports and notebooks draw this one picture, each in its own way. Pure.

A bar begins when its table was due and ends with its round. So a gap between two bars is time in which the table was up to date or not yet
due. Bars are as wide as their time is long, but at least as wide as a reader can see and select; the rest of the axis is shortened for
them in proportion. The marks of the axis are placed by the same rule, so each mark is exact.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate, pairwise

from tiering.durations import short_duration
from tiering.instants import from_milliseconds, to_milliseconds
from tiering.model.rounds import RoundState
from tiering.round_history import PART_COLOURS, PART_NAMES, UPKEEP, WAIT_PARTS, Round, parts_of

LEAST_WIDTH = 0.02
"""Least width of a bar, as a part of the axis."""
MOST_WIDENED = 0.6
"""Part of the axis that bars of the least width may fill together, so that gaps stay visible. It reduces their width."""
MARK_DISTANCE, MOST_MARKS, MARGIN = 0.13, 6, 0.05
"""Least distance of two marks of the axis, their largest number, and the part at each end of the axis that has none."""
_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
_STEPS_MS = (
    *(_SECOND * number for number in (1, 2, 5, 10, 15, 30)),
    *(_MINUTE * number for number in (1, 2, 5, 10, 15, 30)),
    *(_HOUR * number for number in (1, 2, 3, 6, 12)),
)
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True)
class Box:
    """A part of a bar. `x` and `width` are parts of the axis; `y` and `height` are parts of the bar's height, from its top."""

    name: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class TimelineBar:
    """A round and its wait. `parts` are milliseconds in their order. `x` and `width` are parts of the axis."""

    row: Round
    since: datetime
    until: datetime
    parts: Mapping[str, int]
    x: float
    width: float
    is_stacked: bool
    """Whether the bar is wider than its time, so that its parts are one above the other, the first at the bottom."""

    @property
    def is_failed(self) -> bool:
        """Whether the round brought nothing because of an error."""
        return self.row["state"] in (RoundState.FAILED, RoundState.FENCED)

    @property
    def boxes(self) -> list[Box]:
        """Returns the parts of the bar."""
        total, begin, boxes = max(1, sum(self.parts.values())), 0, []
        for name, part_ms in self.parts.items():
            begin += part_ms
            if self.is_stacked:
                boxes.append(Box(name, self.x, 1 - begin / total, self.width, part_ms / total))
            else:
                boxes.append(Box(name, self.x + self.width * (begin - part_ms) / total, 0, self.width * part_ms / total, 1))
        return boxes

    @property
    def label(self) -> str:
        """Returns the bar in words: its times, its state, and the duration of each part."""
        words = ", ".join(f"{PART_NAMES[name]} {short_duration(part_ms)}" for name, part_ms in self.parts.items())
        until = "until now" if self.row["finished_time"] is None else f"to {self.until:%H:%M:%S}"
        return f"{self.since:%Y-%m-%d %H:%M:%S} {until} UTC, {self.row['state']}: {words or 'no time'}"


@dataclass(frozen=True)
class Mark:
    """A mark of the axis: its time, its place as a part of the axis, and which parts of the time tell it apart from its neighbours."""

    at: datetime
    x: float
    has_date: bool
    has_seconds: bool

    @property
    def text(self) -> str:
        """Returns the time in UTC."""
        return f"{self.at:{'%m-%d ' if self.has_date else ''}%H:%M{':%S' if self.has_seconds else ''}}"


@dataclass(frozen=True)
class Timeline:
    """The picture. Bars come in the order of time and do not overlap."""

    bars: Sequence[TimelineBar]
    marks: Sequence[Mark]

    @property
    def since(self) -> datetime:
        """Returns the begin of the axis."""
        return self.bars[0].since

    @property
    def until(self) -> datetime:
        """Returns the end of the axis."""
        return self.bars[-1].until

    @property
    def span(self) -> str:
        """Returns the times of the axis in words."""
        return f"{self.since:%Y-%m-%d %H:%M:%S} to {self.until:%Y-%m-%d %H:%M:%S} UTC"

    @property
    def part_names(self) -> list[str]:
        """Returns the parts that a bar has, in their order."""
        return [name for name in PART_COLOURS if any(name in bar.parts for bar in self.bars)]

    @property
    def has_failed(self) -> bool:
        """Whether a round failed."""
        return any(bar.is_failed for bar in self.bars)

    @property
    def label(self) -> str:
        """Returns the picture in words."""
        longest = short_duration(max(sum(bar.parts.values()) for bar in self.bars))
        failed = sum(bar.is_failed for bar in self.bars)
        if len(self.bars) == 1:
            return f"The last round took {longest} with its waiting time" + (" and failed" if failed else "")
        subject = f"The last {len(self.bars)} rounds, the newest on the right; the longest took {longest} with its waiting time"
        return subject + (f"; {failed} failed" if failed else "")

    @property
    def explanation(self) -> str:
        """Returns how rounds that are too short for the axis are drawn; empty without such rounds."""
        if not any(bar.is_stacked for bar in self.bars):
            return ""
        return "Rounds that are too short for the axis are drawn wider, with their parts one above the other, the first at the bottom."


def timeline(rounds: Sequence[Round], now: datetime) -> Timeline | None:
    """Returns the picture of rounds, which come with the newest first; None for no round. Open rounds are drawn until `now`."""
    spans: list[tuple[Round, datetime, datetime, dict[str, int]]] = []
    previous: Round | None = None
    for row in reversed(rounds):
        earliest = spans[-1][2] if spans else None
        since, started, until = _times(row, previous, earliest, now)
        parts = _waits(row, previous, since, started) | parts_of(row, _between(started, until))
        spans.append((row, since, until, parts))
        previous = previous if row["trigger"] == UPKEEP else row  # upkeep has no waits
    if not spans:
        return None
    axis = _Axis([(since, until) for _, since, until, _ in spans])
    bars = [TimelineBar(*span, *place) for span, place in zip(spans, axis.places, strict=True)]
    return Timeline(bars, axis.marks())


def _times(row: Round, previous: Round | None, earliest: datetime | None, now: datetime) -> tuple[datetime, datetime, datetime]:
    """Returns when the wait of a round began, when a tierer got the round, and when it ended. Nothing is before `earliest`."""
    until = row["finished_time"] or max(now, row["started_time"] or row["pending_time"])
    started = row["started_time"] or until
    queue_ms = _between(row["pending_time"], row["started_time"] or row["pending_time"])
    since = row["pending_time"] - timedelta(milliseconds=max(0, sum(_own_waits(row, previous).values()) - queue_ms))
    if earliest is not None:
        since, started, until = (max(time, earliest) for time in (since, started, until))
    return min(since, started), started, max(started, until)


def _own_waits(row: Round, previous: Round | None) -> dict[str, int]:
    """Returns the waits of a round without those of earlier rounds.

    The columns count since a round last brought the table up to date. If a round failed since then, the waits of the previous round are
    subtracted; without that round they are unknown, and the bar begins when the round was queued.
    """
    names = {name: f"{name}_ms" for name in WAIT_PARTS}
    if not row["earlier_rounds_ms"]:
        return {name: row[column] or 0 for name, column in names.items()}
    if previous is None:
        return dict.fromkeys(names, 0)
    return {name: max(0, (row[column] or 0) - (previous[column] or 0)) for name, column in names.items()}


def _waits(row: Round, previous: Round | None, since: datetime, started: datetime) -> dict[str, int]:
    """Returns the milliseconds of each wait from `since` to `started`. A pause counts before the queue only if it does not fit into it."""
    waits = _own_waits(row, previous)
    queued = min(max(row["pending_time"], since), started)
    before_ms, queue_ms = _between(since, queued), _between(queued, started)
    slot_ms = waits["waited_for_slot"] if row["started_time"] else queue_ms
    paused_in_queue = min(waits["paused"], max(0, queue_ms - slot_ms))
    backoff = min(waits["backoff"], before_ms)
    paused_before = min(waits["paused"] - paused_in_queue, before_ms - backoff)
    parts = {
        "queued_late": before_ms - backoff - paused_before,
        "backoff": backoff,
        "paused": paused_before + paused_in_queue,
        "waited_for_slot": queue_ms - paused_in_queue,
    }
    return {name: part_ms for name, part_ms in parts.items() if part_ms}


def _between(begin: datetime, end: datetime) -> int:
    return (end - begin) // _MILLISECOND


class _Axis:
    """Places times on the axis: bars and the gaps between them, each in proportion to its time, but bars with a least width."""

    def __init__(self, spans: Sequence[tuple[datetime, datetime]]) -> None:
        edges = [to_milliseconds(time) for span in spans for time in span]
        least = min(LEAST_WIDTH, MOST_WIDENED / len(spans))
        lengths = [end - begin for begin, end in pairwise(edges)]
        widths, widened = _widths(lengths, [0.0 if number % 2 else least for number in range(len(lengths))])
        self._edges, self._places = edges, [0.0, *accumulate(widths)]
        self.places = [(self._places[number], widths[number], number in widened) for number in range(0, len(widths), 2)]

    def marks(self) -> list[Mark]:
        """Returns the marks: round times in UTC that do not come too close to each other or to an end of the axis."""
        first, last = self._edges[0], self._edges[-1]
        step = next((step for step in _STEPS_MS if (last - first) / step <= MOST_MARKS), 0)
        step = step or _DAY * -(-(last - first) // (_DAY * MOST_MARKS))
        marks: list[Mark] = []
        for at in range(-(-first // step) * step, last + 1, step):
            x = self._x(at)
            if MARGIN <= x <= 1 - MARGIN and (not marks or x - marks[-1].x >= MARK_DISTANCE):
                marks.append(Mark(from_milliseconds(at), x, last - first >= _DAY, step < _MINUTE))
        return marks

    def _x(self, at: int) -> float:
        number = min(bisect_right(self._edges, at), len(self._edges) - 1) - 1
        begin, end = self._edges[number], self._edges[number + 1]
        left, right = self._places[number], self._places[number + 1]
        return left + (right - left) * (at - begin) / max(1, end - begin)


def _widths(lengths: Sequence[int], least: Sequence[float]) -> tuple[list[float], set[int]]:
    """Returns widths that together are 1, in proportion to the lengths, but none below its least width; and which of them were widened."""
    widened: set[int] = set()
    while True:
        left = 1 - sum(least[number] for number in widened)
        total = sum(length for number, length in enumerate(lengths) if number not in widened)
        widths = [least[number] if number in widened else left * length / max(1, total) for number, length in enumerate(lengths)]
        narrow = {number for number, width in enumerate(widths) if width < least[number]}
        if not narrow:
            return [width / sum(widths) for width in widths], widened
        widened |= narrow
