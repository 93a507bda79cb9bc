"""The tables that wait for a tierer, in the order in which they get one. The cost of a request does not depend on their number.

The kinds of tables that a request may get are known only when it comes (`table_lifecycle.pick`). So each kind has its own line, and a
request chooses among the first tables of all lines. A table moves up in its line once its deadline has passed. Lines are heaps. Entries of
tables that left the queue or changed their place are removed when they reach the front, or when they are most of a line.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterator
from datetime import datetime

from tiering.coordinator.decisions.moment import Moment
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.decisions.table_lifecycle import QueueKind, QueuePlace, queue_place

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
    """The queue. One thread at a time uses it. `backlog_apart`: tables in backlog wait apart (`BacklogTurns`)."""

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
