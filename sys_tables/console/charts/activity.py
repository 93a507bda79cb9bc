"""The panels of the overview: broken promises of the last hours, throughput, and tierers with their slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sys_tables.console.charts.time_chart import Line, Segment, TimeChart, segments, sums_over_time
from sys_tables.console.query import Query, equal, newest_first
from sys_tables.console.reader import FilledPanel, Panel, Reader, Row
from sys_tables.declare.scan import Order
from tiering.durations import short_duration
from tiering.instants import to_milliseconds
from tiering.model.reading.conditions import AllOf, AnyOf, Filter, Operator
from tiering.model.sql_types import Instant
from tiering.model.status import Promise

HOURS = 6
CELLS = 36
"""Cells of a strip of freshness: ten minutes each."""
MAX_MISSES = 500
MAX_COMMITS = 500
BINS = 72
SHORTEST = timedelta(minutes=6)
"""Shortest time that the chart of throughput shows: five seconds a bar."""
MAX_TIERERS = 20
NEWEST_ROUNDS = newest_first("pending_time", "round_id")
NEWEST_COMMITS = newest_first("prepared_at", "round_id")

Name = tuple[str, str]
"""Database and name of a table."""


@dataclass(frozen=True)
class Strip:
    """How a table kept its promise in the last hours: coloured cells, the oldest first, and the same in words."""

    segments: Sequence[Segment]
    label: str


@dataclass(frozen=True)
class Activity:
    """The panels that the overview shows above its list."""

    throughput: FilledPanel
    chart: TimeChart | None
    tierers: FilledPanel
    slots: int
    slots_busy: int


def activity(reader: Reader, now: datetime) -> Activity:
    """Reads the panels. Raises only errors that all panels of a page have in common."""
    since = hours_before(now)
    commits = reader.filled(Panel("Throughput", commits_query(since), f"No commit reached the lake in the last {HOURS} hours."))
    tierers = reader.filled(
        Panel("Tierers", TIERERS, "No tierer is connected, so nothing is tiered. The command lakeward tierer starts one.")
    )
    slots, busy = (sum(row[name] for row in tierers.rows) for name in ("slots", "tables_running"))
    chart = throughput(commits.rows, now) if commits.rows else None
    return Activity(commits, chart, tierers, slots, busy)


def hours_before(now: datetime) -> datetime:
    """Returns the beginning of the last hours, at a whole minute, so that the SQL of a page changes once a minute."""
    return (now - timedelta(hours=HOURS)).replace(second=0, microsecond=0)


def commits_query(since: datetime) -> Query:
    """Returns the read of the newest commits that are in the lake."""
    where = (Filter("prepared_at", Operator.GREATER_OR_EQUAL, (Instant.of(since),)), Filter("lake_snapshot_id", Operator.IS_NOT_NULL))
    return Query("lake_commits", ("prepared_at", "database_name", "table_name", "records", "files"), where, NEWEST_COMMITS, MAX_COMMITS)


TIERERS = Query(
    "tierers",
    ("tierer_id", "host", "slots", "tables_running", "records_per_second", "heartbeat_time"),
    (equal("state", "ACTIVE"),),
    (Order("tierer_id"),),
    MAX_TIERERS,
)


def throughput(commits: Sequence[Row], now: datetime) -> TimeChart:
    """Returns the rows that commits added to the lake, from the oldest commit that was read until now."""
    newest, oldest = commits[0]["prepared_at"], commits[-1]["prepared_at"]
    until = max(now, newest + timedelta(milliseconds=1))
    begin = min(oldest, until - SHORTEST)
    values = sums_over_time(commits, "prepared_at", "records", begin, until, BINS)
    times = [begin + (until - begin) * place / BINS for place in range(BINS)]
    span_ms = to_milliseconds(until) - to_milliseconds(begin)
    label = f"{len(commits):,} commits added {sum(values):,.0f} rows to the lake in the last {short_duration(span_ms)}"
    return TimeChart(label, "rows", times, [Line(f"rows in {short_duration(span_ms // BINS)}", values, "value")], has_bars=True)


def misses_query(names: Sequence[Name], since: datetime) -> Query:
    """Returns the read of the rounds after which these tables had missed their promise. The service reads no rounds of other tables."""
    where = (
        Filter("missed_by_ms", Operator.GREATER, (0,)),
        Filter("pending_time", Operator.GREATER_OR_EQUAL, (Instant.of(since),)),
        _among(names),
    )
    columns = ("database_name", "table_name", "pending_time", "deadline", "missed_by_ms")
    return Query("tiering_rounds", columns, where, NEWEST_ROUNDS, MAX_MISSES)


def bounds_query(names: Sequence[Name]) -> Query:
    """Returns the read of how far back the rounds of these tables are kept."""
    return Query("history_bounds", ("database_name", "table_name", "rounds_since"), (_among(names),))


def _among(names: Sequence[Name]) -> AnyOf:
    return AnyOf(tuple(AllOf((equal("database_name", database), equal("table_name", table))) for database, table in names))


def strips(statuses: Sequence[Row], misses: Sequence[Row], bounds: Sequence[Row], now: datetime) -> Mapping[Name, Strip]:
    """Returns the strip of each table, from its broken promises in the past and at present. `bounds`: since when its rounds are kept."""
    broken: dict[Name, list[tuple[datetime, datetime]]] = {(row["database_name"], row["table_name"]): [] for row in statuses}
    for miss in misses:
        end = miss["deadline"] + timedelta(milliseconds=miss["missed_by_ms"])
        broken[miss["database_name"], miss["table_name"]].append((miss["deadline"], end))
    for row in statuses:
        if row["promise"] == Promise.BROKEN:
            late = timedelta(milliseconds=row["lag_ms"] - row["freshness_ms"])
            broken[row["database_name"], row["table_name"]].append((row["observed_time"] - late, now))
    read_since = misses[-1]["pending_time"] if len(misses) >= MAX_MISSES else None
    kept_since = {(row["database_name"], row["table_name"]): row["rounds_since"] for row in bounds}
    return {name: _strip(spans, read_since, kept_since.get(name, now), now) for name, spans in broken.items()}


_CELL = timedelta(hours=HOURS) / CELLS


def _strip(spans: Sequence[tuple[datetime, datetime]], read_since: datetime | None, kept_since: datetime, now: datetime) -> Strip:
    """Returns a strip. Rounds are kept since `kept_since`. Broken promises were read since `read_since`; None = all were read."""
    styles, broken = [], timedelta()
    for place in range(CELLS):
        begin = now - _CELL * (CELLS - place)
        late = min(sum((_overlap(span, begin, begin + _CELL) for span in spans), timedelta()), _CELL)
        broken += late
        if read_since is not None and begin < read_since:
            styles.append("unread")
        elif late:
            styles.append("partly" if late < _CELL / 2 else "broken")
        else:
            styles.append("kept" if kept_since < begin + _CELL else "unrecorded")
    return Strip(segments(styles), _words(styles, broken))


def _words(styles: Sequence[str], broken: timedelta) -> str:
    """Returns what a strip shows, for screen readers."""
    unrecorded, unread = (_CELL * styles.count(style) for style in ("unrecorded", "unread"))
    kept = timedelta(hours=HOURS) - unrecorded - unread
    words = [f"broken for {_duration(broken)} of the last {HOURS} h"] if broken else [f"kept for {_duration(kept)}"] if kept else []
    words += [f"no record of {_duration(unrecorded)}"] if unrecorded else []
    return ", ".join(words + ([f"{_duration(unread)} not read"] if unread else []))


def _duration(time: timedelta) -> str:
    return short_duration(time // timedelta(milliseconds=1))


def _overlap(span: tuple[datetime, datetime], begin: datetime, end: datetime) -> timedelta:
    return max(min(span[1], end) - max(span[0], begin), timedelta())
