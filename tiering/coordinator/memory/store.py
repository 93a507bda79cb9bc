"""The interface of the stores in which the coordinator keeps its records.

One coordinator owns a store at a time. `take_over` makes the next coordinator epoch; every write names the epoch it was
made under and is refused (Fenced) once another coordinator took over: also one that has the same epoch in a store that was set
back to a backup, for each take-over has a random name beside its number. A write is atomic: all of it or nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from tiering.coordinator.decisions.change import Change
from tiering.coordinator.decisions.records import ErrorRecord, EventRecord, LakeCommitRecord, OperationRecord, RoundRecord, TableRecord
from tiering.coordinator.memory.history import History, HistoryBounds
from tiering.lake.rules.upkeep.former_rounds import FormerRounds
from tiering.pace import Rest, no_rest
from tiering.validate.results import CheckResult

EPOCHS_LEFT_OUT = 1_000
"""What goes on where a store was lost or restored does so that many coordinator epochs later: versions before the random names know a
coordinator that sleeps by its number alone."""


@dataclass(frozen=True)
class Writes:
    """Rows to store together. A row with the id of a stored one replaces it, of two here the last; events are added and numbered."""

    tables: tuple[TableRecord, ...] = ()
    rounds: tuple[RoundRecord, ...] = ()
    commits: tuple[LakeCommitRecord, ...] = ()
    events: tuple[EventRecord, ...] = ()
    operations: tuple[OperationRecord, ...] = ()
    errors: tuple[ErrorRecord, ...] = ()
    validations: tuple[CheckResult, ...] = ()
    former_rounds: Mapping[int, FormerRounds] = field(default_factory=dict)
    """By table id what a sweep noted of its rounds; takes the place of an earlier note."""
    forgotten_tables: tuple[int, ...] = ()
    """Ids of tables whose records and notes are deleted; their rounds, grants and events stay."""

    @staticmethod
    def of(changes: Sequence[Change], operations: Sequence[OperationRecord] = (), events: Sequence[EventRecord] = ()) -> Writes:
        """The rows of several changes of different tables."""
        return Writes(
            tables=tuple(change.record for change in changes),
            rounds=tuple(row for change in changes for row in change.rounds.values()),
            commits=tuple(row for change in changes for row in change.commits.values()),
            events=(*(event for change in changes for event in change.events), *events),
            operations=tuple(operations),
            errors=tuple(row for change in changes for row in change.errors.values()),
        )


class Store(History, Protocol):
    """Durable memory. Safe to call from several threads; every call may raise StoreError."""

    def take_over(self) -> int:
        """The next coordinator epoch, from now on the only one that may write."""
        ...

    def rise(self, coordinator_epoch: int, above: int) -> int:
        """A coordinator epoch above `above` for the coordinator that has this one: both are its own from then on, no other's.

        Raises Fenced if another coordinator took over.
        """
        ...

    def load(self) -> Sequence[TableRecord]:
        """All records, removed tables included."""
        ...

    def apply(self, coordinator_epoch: int, writes: Writes) -> None:
        """Stores all of it. Raises Fenced if another coordinator took over; then nothing was stored.

        After a StoreError it is unknown whether it was stored: load again.
        """
        ...

    def operation(self, idempotency_key: str) -> OperationRecord | None:
        """The operation that a key names."""
        ...

    def round(self, round_id: str) -> RoundRecord | None:
        """A round by its id; None if it is unknown, or pruned."""
        ...

    def rounds_by_id(self, round_ids: Collection[str]) -> Mapping[str, RoundRecord]:
        """Those of the named rounds that are known, in a few queries however many are named."""
        ...

    def rounds(self, table_id: int | None = None, limit: int = 1_000) -> Sequence[RoundRecord]:
        """Rounds, the newest first; of one table by epoch, which no clock can set back."""
        ...

    def commit(self, round_id: str) -> LakeCommitRecord | None:
        """The grant of a round; None if it is unknown, or pruned."""
        ...

    def commits(self, table_id: int | None = None, limit: int = 1_000) -> Sequence[LakeCommitRecord]:
        """The ledger of grants, the newest first; of one table by epoch, which no clock can set back."""
        ...

    def former_rounds(self, table_id: int) -> FormerRounds | None:
        """What the latest sweep of the table noted of its rounds; None = no sweep did."""
        ...

    def events(self, limit: int = 1_000) -> Sequence[EventRecord]:
        """Events with their numbers, the newest first."""
        ...

    def validations(self, limit: int = 10_000) -> Sequence[CheckResult]:
        """Results of validations, the newest first."""
        ...

    def prune(
        self, coordinator_epoch: int, bounds: HistoryBounds, operations_before: datetime, now: datetime, rest: Rest = no_rest
    ) -> None:
        """Forgets the history beyond its bounds, and operations begun before a time. Raises Fenced.

        Takes many short writes, with a rest before each, while others write: what it forgets, nobody changes any more. Told to stop,
        it leaves the others to the next time.

        Rounds and grants dated after `now` are from when the clock was ahead: nobody knows their place, so they are kept until
        then, and push out none that is dated rightly.
        """
        ...

    def close(self) -> None:
        """Lets go of files and connections."""
        ...
