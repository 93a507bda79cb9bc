"""The tables that wait for a tierer, in the order in which they get one: a request costs the same however many of them wait.

Which kinds of tables a request may get is decided when it comes (`table_lifecycle.pick`), so each kind has a line of its own, and a request
chooses among the first of all lines. A table moves up in its line once its deadline has passed. Lines are heaps; entries of tables that
left, or came back with another place, are thrown out when they come to the front, or when they are most of a line.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterator
from datetime import datetime

from tiering.coordinator.decisions.moment import Moment
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.decisions.table_lifecycle import QueueKind, QueuePlace, queue_place

SPARE_ENTRIES = 64
"""Outdated entries that a heap may hold, beside twice as many as there are tables in the queue, before they are thrown out."""

Entry = tuple[datetime, int, int]
"""A time that orders it, table id, and the number of the table's place: another one than the table has now is outdated."""


class _Line:
    """The tables of one kind."""

    def __init__(self) -> None:
        self.by_deadline: list[Entry] = []
        """Those that were not past it when they were looked at last."""
        self.late: list[Entry] = []
        """Those past their deadline, by the time since which they wait."""
        self.all: list[Entry] = []
        """By the time since which they wait."""


class WaitingQueue:
    """One thread at a time uses it. `backlog_apart`: tables in backlog wait apart (`BacklogTurns`)."""

    def __init__(self, *, backlog_apart: bool = True) -> None:
        self._backlog_apart = backlog_apart
        self._places: dict[int, QueuePlace] = {}
        self._numbers: dict[int, int] = {}
        self._next_number = 0
        self._lines: dict[QueueKind, _Line] = {}

    def put(self, record: TableRecord) -> None:
        """The table waits from now on, or waits with another place."""
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
        """The table does not wait any more."""
        self._places.pop(table_id, None)
        self._numbers.pop(table_id, None)

    def first(self, now: Moment, without: Container[int] = ()) -> list[int]:
        """Ids of the tables at the front, two of each kind at most: of any choice of kinds the one that comes first is among them."""
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
            heap[:] = [kept for kept in heap if self._numbers.get(kept[1]) == kept[2]]
            heapq.heapify(heap)
