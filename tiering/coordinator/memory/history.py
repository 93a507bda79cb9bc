"""Reads of stored history: rounds, the ledger of commits, and events. They outlive the tables that they are about.

A read fetches pages, each from its own moment, so that no transaction waits for a slow reader. A row that changes meanwhile is returned
once, in the state that it has when its page is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Protocol

from tiering.coordinator.decisions.records import ErrorRecord, EventRecord, LakeCommitRecord, RoundRecord

PAGE_ROWS = 1_000
"""Upper bound of rows in one page: some 20 ms of work."""


TablePathOrNone = tuple[str | None, str | None]
"""Database and name of the table that a row is about. Both are None for a row without a table."""


class HistoryKind(Enum):
    """The kinds of stored history."""

    ROUNDS = "rounds"
    COMMITS = "commits"
    ERRORS = "errors"
    EVENTS = "events"


@dataclass(frozen=True)
class HistoryRange:
    """The rows to read. Bounds are inclusive. None means no bound; an empty range means all rows."""

    database_name: str | None = None
    table_name: str | None = None
    round_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    """Required values of other text fields of the record, for example its state."""
    paths: frozenset[TablePathOrNone] | None = None
    """The tables whose rows are read; None for all."""
    is_missed: bool = False
    """Only for rounds: whether only those that missed their deadline are read."""
    by_time: bool = True
    """True: the newest first by their time, which differs from the order of writing if the clock was set back. False, only for events: the
    last written first."""
    page_rows: int = PAGE_ROWS
    """Rows of the first page: as many as the reader will probably need."""


@dataclass(frozen=True)
class HistoryBounds:
    """How much history is kept. Running rounds and grants with an unknown outcome are always kept."""

    before: datetime
    """Older rows are deleted."""
    rounds: int
    """Rounds of all tables together, with their grants. The same bounds hold for kinds of errors."""
    events: int
    rounds_per_table: int
    """Newest rounds per table."""
    events_per_table: int
    empty_rounds_per_table: int = 100
    """Newest EMPTY rounds per table. The INFO events of an older one are deleted with it."""

    def most_rounds(self, counts: Collection[int]) -> int:
        """Returns how many rounds are kept per table, if the tables have these counts of rounds."""
        return min(self.rounds_per_table, share_of_a_table(counts, self.rounds))

    def most_events(self, counts: Collection[int]) -> int:
        """Returns how many events are kept per table. Events without a table count as those of one table."""
        return min(self.events_per_table, share_of_a_table(counts, self.events))


def share_of_a_table(counts: Collection[int], total: int) -> int:
    """Returns the largest number of rows per table so that all tables together have at most `total`; at least 1.

    Only tables with many rows are cut. So a table that is tiered once a day keeps its month beside thousands that are tiered every minute.
    """
    remaining = total
    for place, count in enumerate(ordered := sorted(counts)):
        share = remaining // (len(ordered) - place)
        if count > share:
            return max(1, share)
        remaining -= count
    return max(total, 1)


class History(Protocol):
    """Stored history. Each read may raise StoreError while it is iterated."""

    def paths_of(self, kind: HistoryKind) -> Collection[TablePathOrNone]:
        """Returns the tables that have rows of this kind."""

    def oldest_rounds(self, paths: Collection[TablePathOrNone]) -> Mapping[TablePathOrNone, datetime]:
        """Returns when the oldest kept round of each table was queued, without tables that have no round.

        EMPTY rounds count only where there is no other, because most of them are deleted soon.
        """

    def read_rounds(self, history_range: HistoryRange) -> Iterator[RoundRecord]:
        """Yields rounds, the most recently queued first."""

    def read_commits(self, history_range: HistoryRange) -> Iterator[LakeCommitRecord]:
        """Yields granted commits, the most recently granted first."""

    def read_errors(self, history_range: HistoryRange) -> Iterator[ErrorRecord]:
        """Yields kinds of errors, the most recently seen first. A `round_id` selects by the latest round with the error."""

    def read_events(self, history_range: HistoryRange) -> Iterator[EventRecord]:
        """Yields events with their numbers, the newest first."""
