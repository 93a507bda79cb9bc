"""The history of a table's rounds in the form in which the console, reports, notebooks and the terminal draw it. Pure.

Its input are rows of `sys.tiering_rounds` about one table, with COLUMNS at least.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tiering.instants import to_milliseconds
from tiering.model.rounds import PART_COLUMNS, RoundState
from tiering.model.status import TableStatus

Round = Mapping[str, Any]
"""A row of `sys.tiering_rounds`."""

PART_COLOURS = {
    "queued_late": "#55606c",
    "backoff": "#8c6d5a",
    "paused": "#6fb3b8",
    "waited_for_slot": "#9aa5b1",
    "plan": "#7b61c9",
    "lease": "#b36ad1",
    "read": "#2f7fd1",
    "write": "#2a9d63",
    "commit": "#d98b1f",
    "ack": "#c4473a",
    "other": "#cfd5db",
}
"""The parts of a round in their order, and their colours. All parts but the last are columns of `sys.tiering_rounds` without `_ms`. "other"
is the time of a round that none of its durations names."""
PART_NAMES = {name: name for name in PART_COLOURS} | {
    "queued_late": "waiting, not queued",
    "backoff": "waiting after a failure",
    "paused": "waiting while paused",
    "waited_for_slot": "waiting for a slot",
    "other": "not measured",
}
"""Names of the parts in pictures."""
WAIT_PARTS = ("queued_late", "backoff", "paused", "waited_for_slot")
"""Parts that are the wait of a round, in the order in which they usually occur."""
LAG_COLOUR, PROMISE_COLOUR, FAILED_COLOUR = "#2f7fd1", "#c4473a", "#e0115f"
WAIT_COLUMNS = (
    *("table_id", "state", "trigger", "pending_time", "finished_time", "duration_ms", "deadline", "missed_by_ms", "records_written"),
)
"""Columns for the lag and the throughput."""
TIMELINE_COLUMNS = (
    *("round_id", "state", "trigger", "pending_time", "started_time", "finished_time", "duration_ms", "earlier_rounds_ms"),
    *(f"{name}_ms" for name in WAIT_PARTS),
    *PART_COLUMNS,
)
"""Columns for the time line of rounds (`round_timeline`)."""
COLUMNS = tuple(dict.fromkeys((*WAIT_COLUMNS, *TIMELINE_COLUMNS)))
"""Columns that all functions of this module need together."""
UPKEEP = "upkeep"
"""Trigger of rounds that rewrite a lake table and bring no rows."""


@dataclass(frozen=True)
class Wait:
    """The time in which rows were missing in the lake: from the commit of the oldest one until a round had brought them, or until now."""

    since: datetime
    until: datetime

    @property
    def lag_ms(self) -> int:
        """The lag at the end, in milliseconds."""
        return to_milliseconds(self.until) - to_milliseconds(self.since)


@dataclass(frozen=True)
class LagPoint:
    """The lag at a moment: the age of the oldest row that the lake lacked then, in milliseconds; 0 without such a row."""

    at: datetime
    lag_ms: int


def waits(rounds: Sequence[Round], freshness_ms: int) -> list[Wait]:
    """Returns the waits that ended, the oldest first. `rounds` in any order.

    A round's deadline is the time when its oldest row had waited for the freshness. So the waits before a change of the freshness are
    shifted by that change.
    """
    ended = []
    for row in rounds:
        if _brought_all_rows(row):
            since = row["deadline"] - timedelta(milliseconds=freshness_ms)
            ended.append(Wait(min(since, row["finished_time"]), row["finished_time"]))
    return sorted(ended, key=lambda wait: wait.until)


def _brought_all_rows(row: Round) -> bool:
    """Returns whether a round brought rows, and the lake had all rows of the log at its end."""
    caught_up = row["missed_by_ms"] is not None and row["deadline"] is not None and row["finished_time"] is not None
    return caught_up and row["state"] == RoundState.SUCCEEDED and row["trigger"] != UPKEEP


def lag_points(rounds: Sequence[Round], status: TableStatus) -> list[LagPoint]:
    """Returns the lag as points of a line until `status` was observed; no point if no round has brought rows yet."""
    points: list[LagPoint] = []
    ended, now = waits(rounds, status.freshness_ms), status.observed_time
    current = Wait(now - timedelta(milliseconds=status.lag_ms or 0), now)
    for wait in [*ended, current] if ended else []:
        before = points[-1].at if points else wait.since
        if before < wait.since:
            points.append(LagPoint(before, 0))
        begin = max(before, wait.since)
        points += [LagPoint(begin, Wait(wait.since, begin).lag_ms), LagPoint(max(before, wait.until), wait.lag_ms)]
    return list(dict.fromkeys(points))


def rows_per_second(rounds: Sequence[Round]) -> list[float]:
    """Returns the rows that each round wrote per second of its duration, the oldest round first. Rounds without rows are left out."""
    written = [row for row in rounds if row["records_written"] and row["duration_ms"] is not None]
    return [row["records_written"] * 1_000 / max(row["duration_ms"], 1) for row in sorted(written, key=lambda row: row["pending_time"])]


def parts_of(row: Round, duration_ms: int) -> dict[str, int]:
    """Returns the milliseconds of each part of a round that ran for `duration_ms`, without its waits. Parts without time are left out.

    Tasks read and write side by side, so their durations are only the proportion in which the rest of the round is split.
    """
    own, unnamed = {}, duration_ms
    for name in ("plan", "lease", "commit", "ack"):  # together at most the duration: another clock may have measured them
        own[name] = min(row[f"{name}_ms"] or 0, unnamed)
        unnamed -= own[name]
    read, write = row["read_ms"] or 0, row["write_ms"] or 0
    of_tasks = read + write
    reading = unnamed * read // of_tasks if of_tasks else 0
    parts = {**own, "read": reading, "write": unnamed - reading if of_tasks else 0, "other": 0 if of_tasks else unnamed}
    return {name: parts[name] for name in PART_COLOURS if parts.get(name)}
