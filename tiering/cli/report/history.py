"""The history of a table's rounds in the form in which the report draws it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tiering.instants import to_milliseconds
from tiering.model.rounds import RoundState

Round = Mapping[str, Any]
"""A row of `sys.tiering_rounds`."""

PARTS = ("waiting", "plan", "lease", "read", "write", "commit", "ack", "other")
"""The parts of a round, in their order. "other" is the time of a round that none of its durations names."""
_CAUGHT_UP = (RoundState.SUCCEEDED, RoundState.EMPTY)


@dataclass(frozen=True)
class AgePoint:
    """The age of the lake copy at a moment, in milliseconds: an upper bound, because nothing may have been written meanwhile."""

    at: datetime
    age_ms: int


def age_points(rounds: Sequence[Round], until: datetime) -> list[AgePoint]:
    """Returns the age of the lake copy as points of a line: it grows with time, and falls when a round has caught up with the log.

    A round brings all rows that the log had when the round began. `rounds` in any order.
    """
    ended = [row for row in rounds if row["state"] in _CAUGHT_UP and row["started_time"] is not None and row["finished_time"] is not None]
    points: list[AgePoint] = []
    fresh_at: datetime | None = None
    for row in sorted(ended, key=lambda row: row["finished_time"]):
        began, end = row["started_time"], row["finished_time"]
        if fresh_at is not None:
            points.append(AgePoint(end, _age(fresh_at, end)))
        fresh_at = began if fresh_at is None else max(began, fresh_at)
        points.append(AgePoint(end, _age(fresh_at, end)))
    if fresh_at is not None and points[-1].at < until:
        points.append(AgePoint(until, _age(fresh_at, until)))
    return points


def _age(fresh_at: datetime, now: datetime) -> int:
    return to_milliseconds(now) - to_milliseconds(fresh_at)


def parts_of(row: Round) -> dict[str, int]:
    """Returns the milliseconds of each part of a round that has ended; parts without time are left out.

    Tasks read and write side by side, so their durations are only the proportion in which the rest of the round is split.
    """
    total = row["duration_ms"] or 0
    own = {name: min(row[f"{name}_ms"] or 0, total) for name in ("plan", "lease", "commit", "ack")}
    unnamed = max(0, total - sum(own.values()))
    read, write = row["read_ms"] or 0, row["write_ms"] or 0
    of_tasks = read + write
    reading = unnamed * read // of_tasks if of_tasks else 0
    parts = {
        "waiting": row["waited_for_slot_ms"] or 0,
        **own,
        "read": reading,
        "write": unnamed - reading if of_tasks else 0,
        "other": 0 if of_tasks else unnamed,
    }
    return {name: parts[name] for name in PARTS if parts[name]}
