"""When each record has to be looked at again, so that a tick costs as much as is due and not as much as there is.

A deadline kept here is a hint that may come too early, never too late: it is only ever lowered while it is kept, and what it
is about is checked against the record once it has passed. All are steady times (`moment`).
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
"""Outdated hints that the heap may hold, beside twice those that count, before they are thrown out."""


def first_look(record: TableRecord, *, needs_turn: bool = False) -> datetime | None:
    """The time from which `round_lifecycle.expire` or `table_lifecycle.due` changes the record as it is; None = never.

    `needs_turn`: the cluster assigns tables (`CoordinatorOptions.assigned_by_cluster`).
    """
    deadlines = [_round_deadline(record), _upkeep_deadline(record, needs_turn), _rest_deadline(record, needs_turn)]
    return min((deadline for deadline in deadlines if deadline is not None), default=None)


def _round_deadline(record: TableRecord) -> datetime | None:
    return None if record.running is None else record.heartbeat_deadline


def _upkeep_deadline(record: TableRecord, needs_turn: bool) -> datetime | None:
    """When a running upkeep round gives way to a round of its table."""
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
    """The earliest hint of each table. Thread-safe."""

    def __init__(self, *, needs_turn: bool = False) -> None:
        self._needs_turn = needs_turn
        self._lock = threading.Lock()
        self._hints: dict[int, datetime] = {}
        self._heap: list[tuple[datetime, int]] = []
        """The hints of `_hints`, and outdated ones."""

    def watch(self, records: Iterable[TableRecord]) -> None:
        """Keeps a hint for each record. Call it once the records are shown: a hint taken earlier would be checked against the old ones."""
        with self._lock:
            for record in records:
                self._lower(record.table_id, None if record.state is None else first_look(record, needs_turn=self._needs_turn))
            if len(self._heap) > 2 * len(self._hints) + SPARE_HINTS:
                self._heap = [(deadline, table_id) for table_id, deadline in self._hints.items()]
                heapq.heapify(self._heap)

    def take(self, now: Moment) -> list[int]:
        """Ids of tables to look at now, the longest overdue first. None of them is returned again before it is watched again."""
        taken = []
        with self._lock:
            while self._heap and now.passed(self._heap[0][0]):
                deadline, table_id = heapq.heappop(self._heap)
                if self._hints.get(table_id) == deadline:
                    del self._hints[table_id]
                    taken.append(table_id)
        return taken

    def _lower(self, table_id: int, deadline: datetime | None) -> None:
        known = self._hints.get(table_id)
        if deadline is not None and (known is None or deadline < known):
            self._hints[table_id] = deadline
            heapq.heappush(self._heap, (deadline, table_id))
