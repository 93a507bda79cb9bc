"""The interface of the stores in which the coordinator keeps its records.

One coordinator owns a store at a time. `take_over` creates the next coordinator epoch. Every write names its epoch and is refused (Fenced)
once another coordinator took over. Each take-over also has a random name, so a coordinator with the same epoch is refused, too, after a
backup of the store was restored. A write is atomic.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from tiering.coordinator.decisions.change import Change
from tiering.coordinator.decisions.records import (
    ErrorRecord,
    EventRecord,
    LakeCommitRecord,
    OperationRecord,
    ReadHold,
    RoundRecord,
    TableRecord,
)
from tiering.coordinator.memory.history import History, HistoryBounds
from tiering.lake.rules.upkeep.former_rounds import FormerRounds
from tiering.procedures.prove_table import TableProof
from tiering.procedures.validate_table import CheckResult
from tiering.throttle import Throttling, unthrottled

EPOCHS_LEFT_OUT = 1_000
"""How far the coordinator epoch rises when a store was lost or restored. Older versions, without random names, identify a suspended
coordinator only by its epoch."""

KEY_BYTES = 32
"""Length of a secret key: that of the digest of SHA-256, as RFC 2104 recommends for HMAC."""


@dataclass(frozen=True)
class Writes:
    """Rows to store together. A row replaces the stored row with the same id; if two have one id, the last counts. Events get numbers."""

    tables: tuple[TableRecord, ...] = ()
    rounds: tuple[RoundRecord, ...] = ()
    commits: tuple[LakeCommitRecord, ...] = ()
    events: tuple[EventRecord, ...] = ()
    operations: tuple[OperationRecord, ...] = ()
    errors: tuple[ErrorRecord, ...] = ()
    validations: tuple[CheckResult, ...] = ()
    proofs: tuple[TableProof, ...] = ()
    former_rounds: Mapping[int, FormerRounds] = field(default_factory=dict)
    """A sweep's results about a table's rounds, by table id. They replace earlier results."""
    forgotten_tables: tuple[int, ...] = ()
    """Ids of tables whose records and sweep results are deleted. Their rounds, grants and events stay."""
    read_holds: tuple[ReadHold, ...] = ()
    ended_read_holds: tuple[str, ...] = ()
    """Ids of holds that are deleted."""

    @staticmethod
    def of(changes: Sequence[Change], operations: Sequence[OperationRecord] = (), events: Sequence[EventRecord] = ()) -> Writes:
        """Creates the rows of several changes of different tables."""
        return Writes(
            tables=tuple(change.record for change in changes),
            rounds=tuple(row for change in changes for row in change.rounds.values()),
            commits=tuple(row for change in changes for row in change.commits.values()),
            events=(*(event for change in changes for event in change.events), *events),
            operations=tuple(operations),
            errors=tuple(row for change in changes for row in change.errors.values()),
        )


class Store(History, Protocol):
    """Durable memory. It is safe to call from several threads. Every call may raise StoreError."""

    def take_over(self) -> int:
        """Returns the next coordinator epoch. From now on, only this epoch may write."""

    def rise(self, coordinator_epoch: int, above: int) -> int:
        """Returns a coordinator epoch above `above` for the coordinator with this epoch. From then on, both belong to it alone.

        Raises Fenced if another coordinator took over.
        """

    def key(self, coordinator_epoch: int, name: str) -> bytes:
        """Returns the secret key with this name, of KEY_BYTES random bytes. The first call creates it. Raises Fenced."""

    def load(self) -> Sequence[TableRecord]:
        """Returns all records, including those of removed tables."""

    def apply(self, coordinator_epoch: int, writes: Writes) -> None:
        """Stores all of the rows. Raises Fenced if another coordinator took over; then nothing was stored.

        After a StoreError it is unknown whether they were stored: load again.
        """

    def operation(self, idempotency_key: str) -> OperationRecord | None:
        """Returns the operation that a key names; None if there is none."""

    def round(self, round_id: str) -> RoundRecord | None:
        """Returns a round by its id; None if it is unknown or was pruned."""

    def rounds_by_id(self, round_ids: Collection[str]) -> Mapping[str, RoundRecord]:
        """Returns the rounds with these ids that the store has, with few queries even for many ids."""

    def rounds(self, table_id: int | None = None, limit: int = 1_000) -> Sequence[RoundRecord]:
        """Returns rounds, the newest first. Rounds of one table are sorted by epoch, which does not depend on a clock."""

    def commit(self, round_id: str) -> LakeCommitRecord | None:
        """Returns the grant of a round; None if it is unknown or was pruned."""

    def commits(self, table_id: int | None = None, limit: int = 1_000) -> Sequence[LakeCommitRecord]:
        """Returns the ledger of grants, the newest first. Grants of one table are sorted by epoch, which does not depend on a clock."""

    def former_rounds(self, table_id: int) -> FormerRounds | None:
        """Returns the latest sweep's result about the table's rounds; None if there was no sweep."""

    def read_holds(self) -> Sequence[ReadHold]:
        """Returns what open reads need, also those whose time is over."""

    def events(self, limit: int = 1_000) -> Sequence[EventRecord]:
        """Returns events with their numbers, the newest first."""

    def validations(self, limit: int = 10_000) -> Sequence[CheckResult]:
        """Returns results of validations, the newest first."""

    def proofs(self, limit: int = 10_000) -> Sequence[TableProof]:
        """Returns the proofs of tables, the newest first."""

    def prune(
        self, coordinator_epoch: int, bounds: HistoryBounds, operations_before: datetime, now: datetime, throttle: Throttling = unthrottled
    ) -> None:
        """Deletes history beyond its bounds, and operations that began before a time. Raises Fenced.

        It uses many short writes, with a pause before each, while other threads write; the rows that it deletes no longer change. If
        `throttle` says to stop, the remaining rows are left for the next time.

        Rounds and grants with a date after `now` were written while the clock was ahead. Their true order is unknown, so they are kept
        until that date, and do not displace rows with correct dates.
        """

    def close(self) -> None:
        """Closes files and connections."""
