"""Reads of stored history: rounds, the ledger of commits, and events, which outlive the tables that they tell of.

A read draws pages, each of its own moment, so that no transaction waits for a slow reader. A row that changes meanwhile is shown
once, as it stands when its page is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Protocol

from tiering.coordinator.decisions.records import ErrorRecord, EventRecord, LakeCommitRecord, RoundRecord

PAGE_ROWS = 1_000
"""Rows of one page at most: some 20 ms of work."""


TablePathOrNone = tuple[str | None, str | None]
"""Database and name of the table that a row is about; both are None for a row that is about no table."""


class HistoryKind(Enum):
    """What is stored of the past."""

    ROUNDS = "rounds"
    COMMITS = "commits"
    ERRORS = "errors"
    EVENTS = "events"


@dataclass(frozen=True)
class HistoryRange:
    """Which rows are read. Bounds are inclusive; None = no bound, and empty = all."""

    database_name: str | None = None
    table_name: str | None = None
    round_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    """Values that other text fields of the record must have, such as its state."""
    paths: frozenset[TablePathOrNone] | None = None
    """The tables whose rows are read; None = all."""
    by_time: bool = True
    """The newest first by their time, which a clock that is set back makes differ from the order in which they were written. False, of
    events alone: the last written first."""
    page_rows: int = PAGE_ROWS
    """Rows of the first page: as many as the reader is likely to want."""


@dataclass(frozen=True)
class HistoryBounds:
    """How much history is kept. What is not over yet is always kept: rounds that run, grants of which the outcome is unknown."""

    before: datetime
    """What is older goes."""
    rounds: int
    """Rounds of all tables together, with their grants; errors are counted by the same bounds."""
    events: int
    rounds_per_table: int
    """Newest rounds of one table."""
    events_per_table: int
    empty_rounds_per_table: int = 100
    """Newest rounds of one table that found nothing to do. What one of them left as events of level INFO goes with it."""

    def most_rounds(self, counts: Collection[int]) -> int:
        """How many are kept of one table, if the tables have so many."""
        return min(self.rounds_per_table, share_of_a_table(counts, self.rounds))

    def most_events(self, counts: Collection[int]) -> int:
        """The same of events; those of no table count as a table's."""
        return min(self.events_per_table, share_of_a_table(counts, self.events))


def share_of_a_table(counts: Collection[int], total: int) -> int:
    """The most rows that each table may have so that they are `total` together; at least 1.

    Tables with many rows make room, so that one which is tiered once a day keeps its month beside thousands that are tiered every minute.
    """
    left = total
    for place, count in enumerate(ordered := sorted(counts)):
        share = left // (len(ordered) - place)
        if count > share:
            return max(1, share)
        left -= count
    return max(total, 1)


class History(Protocol):
    """What is stored of the past. Each read may raise StoreError while it is drawn."""

    def paths_of(self, kind: HistoryKind) -> Collection[TablePathOrNone]:
        """The tables that there are rows about."""
        ...

    def read_rounds(self, wanted: HistoryRange) -> Iterator[RoundRecord]:
        """Rounds by the time at which they were queued, the newest first."""
        ...

    def read_commits(self, wanted: HistoryRange) -> Iterator[LakeCommitRecord]:
        """Granted commits by the time of their grant, the newest first."""
        ...

    def read_errors(self, wanted: HistoryRange) -> Iterator[ErrorRecord]:
        """Kinds of errors by when they were seen last, the newest first. A `round_id` is that of the last time."""
        ...

    def read_events(self, wanted: HistoryRange) -> Iterator[EventRecord]:
        """Events with their numbers, the newest first."""
        ...
