"""The backlog of a table: what was already in the log when a round first planned to read a bucket (FLIP-309).

A backlog maps buckets to the offset where it ends. It begins once per bucket and ends when the lake has passed that offset.
"""

from __future__ import annotations

from tiering.coordinator.decisions.records import TableRecord, TextOffsets


def backlog_begun(backlog: TextOffsets | None, tiered: TextOffsets | None, planned_stops: TextOffsets) -> TextOffsets:
    """The backlog once a round planned to read up to `planned_stops`: buckets that were never tiered begin theirs."""
    begun = {bucket: stop for bucket, stop in planned_stops.items() if bucket not in (tiered or {})}
    return {**begun, **(backlog or {})}


def backlog_left(backlog: TextOffsets | None, tiered: TextOffsets) -> TextOffsets | None:
    """The part of a backlog that a lake lacks which holds `tiered`. A vanished bucket has none."""
    return None if backlog is None else {bucket: stop for bucket, stop in backlog.items() if tiered.get(bucket, stop) < stop}


def is_backlog(record: TableRecord) -> bool | None:
    """Whether tiering still works through a backlog; None before the first round looked. A round that was EMPTY had none."""
    if record.lake.backlog is None:
        return None if record.last_checked_time is None else False
    return bool(record.lake.backlog)
