"""Indexes of the records, updated with each change of one: sets of table ids, ids by path, the queue and the deadlines.

They answer a question without a walk over all records. A deadline kept here is a hint. It may be too early, but never too late: it is only
lowered while it is kept, and the record is checked once it has passed. All deadlines are steady times (`moment`).
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Container, Iterable, Iterator, Mapping
from datetime import UTC, datetime

from tiering.coordinator.decisions.backlog import runs_for_throughput
from tiering.coordinator.decisions.moment import Moment
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.decisions.table_lifecycle import QueueKind, QueuePlace, queue_place
from tiering.coordinator.decisions.waits import begin_deadline
from tiering.model.states import TableState
from tiering.model.tables import TablePath


def waits(record: TableRecord, *, needs_turn: bool = False) -> bool:
    """Returns whether the next request may get this table. `needs_turn`: only if the cluster has assigned the table to us."""
    return record.state is TableState.PENDING and record.pause is None and (record.has_turn or not needs_turn)


class RecordIndex:
    """Sets of table ids. One thread at a time changes it and uses the queue; any thread may read the other sets.

    `needs_turn` is that of `waits`, `backlog_apart` that of `WaitingQueue`.
    """

    def __init__(self, records: Iterable[TableRecord] = (), *, needs_turn: bool = False, backlog_apart: bool = True) -> None:
        self._needs_turn = needs_turn
        self.waiting: set[int] = set()
        self.queue = WaitingQueue(backlog_apart=backlog_apart)
        """The tables in `waiting`, in queue order."""
        self.running: set[int] = set()
        self.failing: set[int] = set()
        self.assigned: set[int] = set()
        self.upkeep_requested: set[int] = set()
        """Tables for which callers requested upkeep."""
        self.live: set[int] = set()
        """Tables that have to be fresh: neither in backlog nor paused."""
        self._by_path: dict[tuple[str, str], int] = {}
        self.renew(records, {})

    def renew(self, records: Iterable[TableRecord], before: Mapping[int, TableRecord]) -> None:
        """Takes over these records. `before` has the records that they replace."""
        for record in records:
            self._queue(record)
            _put(self.running, record.table_id, record.running is not None)
            _put(self.failing, record.table_id, record.state is not None and record.consecutive_failures > 0)
            _put(self.assigned, record.table_id, record.assignment is not None)
            _put(self.upkeep_requested, record.table_id, record.state is not None and bool(record.upkeep.requests))
            is_live = record.state is not None and record.pause is None and not runs_for_throughput(record)
            _put(self.live, record.table_id, is_live)
            self._move(record, before.get(record.table_id))

    @property
    def tables(self) -> int:
        """Number of lake tables."""
        return len(self._by_path)

    def by_path(self, path: TablePath) -> int | None:
        """Returns the id of the lake table at this path; None if there is none."""
        return self._by_path.get((path.database_name, path.table_name))

    def _queue(self, record: TableRecord) -> None:
        if waits(record, needs_turn=self._needs_turn):
            self.waiting.add(record.table_id)
            self.queue.put(record)
        elif record.table_id in self.waiting:
            self.waiting.remove(record.table_id)
            self.queue.drop(record.table_id)

    def _move(self, record: TableRecord, before: TableRecord | None) -> None:
        path = None if record.state is None else (record.database_name, record.table_name)
        former = None if before is None else (before.database_name, before.table_name)
        if former is not None and former != path and self._by_path.get(former) == record.table_id:
            del self._by_path[former]
        if path is not None:
            self._by_path[path] = record.table_id


def _put(ids: set[int], table_id: int, member: bool) -> None:
    if member:
        ids.add(table_id)
    else:
        ids.discard(table_id)


SPARE_ENTRIES = 64
"""Outdated entries that a heap may hold, in addition to twice the number of queued tables, before they are removed."""

Entry = tuple[datetime, int, int]
"""The time that orders the entry, the table id, and the number of the table's place. An entry with another number is outdated."""


class _Line:
    """The waiting tables of one kind."""

    def __init__(self) -> None:
        self.by_deadline: list[Entry] = []
        """Tables that were not past their deadline at the last check."""
        self.late: list[Entry] = []
        """Tables past their deadline, by the time since which they wait."""
        self.all: list[Entry] = []
        """All tables, by the time since which they wait."""


class WaitingQueue:
    """The tables that wait for a tierer, in the order in which they get one. The cost of a request does not depend on their number.

    The kinds of tables that a request may get are known only when it comes (`table_lifecycle.pick`). So each kind has its own line, and a
    request chooses among the first tables of all lines. A table moves up in its line once its deadline has passed. Lines are heaps. Entries
    of tables that left the queue or changed their place are removed when they reach the front, or when they are most of a line.

    One thread at a time uses it. `backlog_apart`: tables in backlog wait apart (`BacklogTurns`).
    """

    def __init__(self, *, backlog_apart: bool = True) -> None:
        self._backlog_apart = backlog_apart
        self._places: dict[int, QueuePlace] = {}
        self._numbers: dict[int, int] = {}
        self._next_number = 0
        self._lines: dict[QueueKind, _Line] = {}

    def put(self, record: TableRecord) -> None:
        """Adds the table, or changes its place."""
        table_id, place = record.table_id, queue_place(record, backlog_apart=self._backlog_apart)
        if self._places.get(table_id) == place:
            return
        self._next_number += 1
        self._places[table_id], self._numbers[table_id] = place, self._next_number
        line = self._lines.setdefault(place.kind, _Line())
        self._push(line.all, (place.since, table_id, self._next_number))
        if place.deadline is not None:
            self._push(line.by_deadline, (place.deadline, table_id, self._next_number))

    def drop(self, table_id: int) -> None:
        """Removes the table."""
        self._places.pop(table_id, None)
        self._numbers.pop(table_id, None)

    def first(self, now: Moment, without: Container[int] = ()) -> list[int]:
        """Returns the ids at the front, at most two per kind. For any set of kinds, the first table of the queue is among them."""
        return [table_id for line in self._lines.values() for table_id in self._front(line, now, without)]

    def _front(self, line: _Line, now: Moment, without: Container[int]) -> Iterator[int]:
        while line.by_deadline and now.passed(line.by_deadline[0][0]):
            _, table_id, number = heapq.heappop(line.by_deadline)
            if self._numbers.get(table_id) == number:
                self._push(line.late, (self._places[table_id].since, table_id, number))
        for heap in (line.late, line.all):
            if (first := self._first_of(heap, without)) is not None:
                yield first

    def _first_of(self, heap: list[Entry], without: Container[int]) -> int | None:
        passed_over, first = [], None
        while heap and first is None:
            _, table_id, number = heap[0]
            if self._numbers.get(table_id) != number:
                heapq.heappop(heap)
            elif table_id in without:
                passed_over.append(heapq.heappop(heap))
            else:
                first = table_id
        for entry in passed_over:
            heapq.heappush(heap, entry)
        return first

    def _push(self, heap: list[Entry], entry: Entry) -> None:
        heapq.heappush(heap, entry)
        if len(heap) > 2 * len(self._numbers) + SPARE_ENTRIES:
            heap[:] = [stored for stored in heap if self._numbers.get(stored[1]) == stored[2]]
            heapq.heapify(heap)


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
