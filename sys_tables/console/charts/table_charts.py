"""The charts on the page of a table: its lag against the promise, and its buckets. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sys_tables.console.charts.time_chart import Line, TimeChart
from sys_tables.console.reader import Row
from tiering.durations import short_duration
from tiering.model.status import TableStatus
from tiering.round_history import lag_points


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
