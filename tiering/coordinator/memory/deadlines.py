"""When each record has to be checked again. So the cost of a tick depends on how many records are due, and not on how many there are.

A deadline kept here is a hint. It may be too early, but never too late: it is only lowered while it is kept, and the record is checked once
it has passed. All deadlines are steady times (`moment`).
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Iterable
from datetime import UTC, datetime

from tiering.coordinator.decisions.moment import Moment
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.decisions.waits import begin_deadline
from tiering.model.states import TableState

AT_ONCE = datetime.min.replace(tzinfo=UTC)

SPARE_HINTS = 64
"""Outdated hints that the heap may hold, in addition to twice the number of valid ones, before they are removed."""


def next_check(record: TableRecord, *, needs_turn: bool = False) -> datetime | None:
    """Returns when `round_lifecycle.expire` or `table_lifecycle.due` will first change this record; None if never.

    `needs_turn`: the cluster assigns tables (`CoordinatorOptions.assigned_by_cluster`).
    """
    deadlines = [_round_deadline(record), _upkeep_deadline(record, needs_turn), _rest_deadline(record, needs_turn)]
    return min((deadline for deadline in deadlines if deadline is not None), default=None)


def _round_deadline(record: TableRecord) -> datetime | None:
    return None if record.running is None else record.heartbeat_deadline


def _upkeep_deadline(record: TableRecord, needs_turn: bool) -> datetime | None:
    """Returns when a running upkeep round gives way to a round of its table."""
    if not record.upkeep_runs or record.granted or record.pause is not None:
        return None
    if record.call is not None:
        return AT_ONCE
    return record.upkeep.turn_deadline if needs_turn else begin_deadline(record)


def _rest_deadline(record: TableRecord, needs_turn: bool) -> datetime | None:
    if record.pause is not None:
        return record.pause.until_deadline
    if record.state not in (TableState.SCHEDULED, TableState.FAILED):
        return None
    if record.call is not None:
        return AT_ONCE
    if needs_turn and not record.has_turn:
        return None
    if needs_turn and record.state is TableState.SCHEDULED:
        return record.upkeep.turn_deadline or AT_ONCE
    return begin_deadline(record) if record.state is TableState.SCHEDULED else record.retry_deadline


class Deadlines:
    """The earliest hint of each table. It is thread-safe."""

    def __init__(self, *, needs_turn: bool = False) -> None:
        self._needs_turn = needs_turn
        self._lock = threading.Lock()
        self._hints: dict[int, datetime] = {}
        self._heap: list[tuple[datetime, int]] = []
        """The hints in `_hints`, and outdated ones."""

    def watch(self, records: Iterable[TableRecord]) -> None:
        """Keeps a hint for each record. Call it after the records are shown; a hint taken earlier would be checked against old records."""
        with self._lock:
            for record in records:
                self._lower(record.table_id, None if record.state is None else next_check(record, needs_turn=self._needs_turn))
            if len(self._heap) > 2 * len(self._hints) + SPARE_HINTS:
                self._heap = [(deadline, table_id) for table_id, deadline in self._hints.items()]
                heapq.heapify(self._heap)

    def take(self, now: Moment) -> list[int]:
        """Returns the ids of tables to check now, the longest overdue first. Each is returned once until it is watched again."""
        due_ids = []
        with self._lock:
            while self._heap and now.passed(self._heap[0][0]):
                deadline, table_id = heapq.heappop(self._heap)
                if self._hints.get(table_id) == deadline:
                    del self._hints[table_id]
                    due_ids.append(table_id)
        return due_ids

    def _lower(self, table_id: int, deadline: datetime | None) -> None:
        present = self._hints.get(table_id)
        if deadline is not None and (present is None or deadline < present):
            self._hints[table_id] = deadline
            heapq.heappush(self._heap, (deadline, table_id))
