"""The charts on the page of a table: its lag against the promise, where the time of its rounds went, and its buckets. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sys_tables.console.charts.time_chart import HEIGHT, Line, TimeChart
from sys_tables.console.reader import Row
from tiering.durations import short_duration
from tiering.model.rounds import RoundState
from tiering.model.status import TableStatus
from tiering.round_history import PART_COLOURS, lag_points, parts_of

BAR_WIDTH, BAR_GAP = 22, 6
ROUND_PARTS = tuple(PART_COLOURS)
"""The parts of a round, in their order."""


def lag_chart(rounds: Sequence[Row], status: TableStatus) -> TimeChart | None:
    """Returns the lag over time and the promise; None if no round has brought rows yet."""
    points = lag_points(rounds, status)
    if not points:
        return None
    lags, promise_ms = [point.lag_ms for point in points], status.freshness_ms
    label = f"The longest lag is {short_duration(max(lags))}, and the promise is {short_duration(promise_ms)}"
    lines = [Line("lag", lags, "value"), Line("promise", [promise_ms] * len(points), "limit")]
    return TimeChart(label, "ms", [point.at for point in points], lines)


@dataclass(frozen=True)
class BarPart:
    """A part of a round in a picture: its name, its place from the top, and its height."""

    name: str
    y: float
    height: float


@dataclass(frozen=True)
class RoundBar:
    """A round in a picture: its place, its parts, the lowest first, and all of it in words."""

    round_id: str
    x: int
    parts: Sequence[BarPart]
    is_failed: bool
    label: str


@dataclass(frozen=True)
class RoundBars:
    """One bar a round, the newest on the right, as high as its longest round was long."""

    bars: Sequence[RoundBar]
    longest: str
    label: str

    @property
    def width(self) -> int:
        """Returns the width of the picture."""
        return len(self.bars) * (BAR_WIDTH + BAR_GAP)


def round_bars(rounds: Sequence[Row]) -> RoundBars | None:
    """Returns the bars of rounds that come with the newest first; None if none of them has ended."""
    ended = [(row, parts_of(row)) for row in reversed(rounds) if row["duration_ms"] is not None]
    if not ended:
        return None
    longest_ms = max(1, *(sum(parts.values()) for _, parts in ended))
    bars = [_bar(row, parts, place, longest_ms) for place, (row, parts) in enumerate(ended)]
    longest = short_duration(longest_ms)
    subject = "The last round" if len(bars) == 1 else f"The last {len(bars)} rounds, the newest on the right; the longest"
    label = f"{subject} took {longest} with its waiting time"
    return RoundBars(bars, longest, label)


def _bar(row: Row, parts: dict[str, int], place: int, longest_ms: int) -> RoundBar:
    drawn: list[BarPart] = []
    top = float(HEIGHT)
    for name, part_ms in parts.items():
        height = HEIGHT * part_ms / longest_ms
        top -= height
        drawn.append(BarPart(name, round(top, 1), round(height, 1)))
    words = ", ".join(f"{name} {short_duration(part_ms)}" for name, part_ms in parts.items())
    label = f"{row['pending_time']:%Y-%m-%d %H:%M:%S} UTC, {row['state']}: {words or 'no time'}"
    is_failed = row["state"] in (RoundState.FAILED, RoundState.FENCED)
    return RoundBar(row["round_id"], place * (BAR_WIDTH + BAR_GAP), drawn, is_failed, label)


@dataclass(frozen=True)
class BucketCell:
    """A bucket in a grid: its name, the shares of its records that only the log has, that both have and that only the lake has."""

    name: str
    row: Row
    shares: Sequence[tuple[str, float, float]]
    """For each kind of records: its name, where its part of the bar begins, and how long it is, in percent."""


def bucket_cells(buckets: Sequence[Row]) -> list[BucketCell]:
    """Returns a cell a bucket, in their order."""
    return [BucketCell(_bucket_name(row), row, _shares(row)) for row in buckets]


def _bucket_name(row: Row) -> str:
    return f"{row['bucket_id']}" if row["partition_name"] is None else f"{row['partition_name']}/{row['bucket_id']}"


def _shares(row: Row) -> list[tuple[str, float, float]]:
    counts = {"hot": row["log_only_records"], "warm": row["both_records"], "cold": row["lake_only_records"]}
    present = {name: count for name, count in counts.items() if count}
    total, begin, shares = sum(present.values()), 0.0, []
    for name, count in present.items():
        share = round(100 * count / total, 2)
        shares.append((name, round(begin, 2), share))
        begin += share
    return shares
