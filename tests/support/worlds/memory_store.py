"""A store that forgets when the process ends: for the simulator and unit tests. Keeps all promises of `Store` but durability."""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from tiering.coordinator.decisions.records import (
    ErrorRecord,
    EventRecord,
    LakeCommitRecord,
    Level,
    OperationRecord,
    ReadHold,
    RoundRecord,
    TableRecord,
)
from tiering.coordinator.memory.history import HistoryBounds, HistoryKind, HistoryRange, TablePathOrNone
from tiering.coordinator.memory.store import EPOCHS_LEFT_OUT, KEY_BYTES, Writes
from tiering.errors import Fenced
from tiering.lake.rules.upkeep.former_rounds import FormerRounds
from tiering.model.rounds import RoundState
from tiering.procedures.prove_table import TableProof
from tiering.procedures.validate_table import CheckResult
from tiering.throttle import Throttling, unthrottled

RowT = TypeVar("RowT", RoundRecord, LakeCommitRecord, EventRecord, ErrorRecord)

ALL_ROWS = 10_000_000
"""More than there are."""


class MemoryStore:
    """See `Store`. Several coordinators may share one: the newest epoch owns it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._epoch = 0
        self._own = {0}
        """Epochs of the coordinator that has the store."""
        self._tables: dict[int, TableRecord] = {}
        self._rounds: dict[str, RoundRecord] = {}
        self._commits: dict[str, LakeCommitRecord] = {}
        self._operations: dict[str, OperationRecord] = {}
        self._errors: dict[str, ErrorRecord] = {}
        self._events: list[EventRecord] = []
        self._keys: dict[str, bytes] = {}
        self._next_event_id = 1
        self._validations: list[CheckResult] = []
        self._proofs: list[TableProof] = []
        self._former_rounds: dict[int, FormerRounds] = {}
        self._read_holds: dict[str, ReadHold] = {}

    def take_over(self) -> int:
        with self._lock:
            self._epoch += 1
            self._own = {self._epoch}
            return self._epoch

    def rise(self, coordinator_epoch: int, above: int) -> int:
        with self._lock:
            self._check(coordinator_epoch)
            self._epoch = above + EPOCHS_LEFT_OUT
            self._own |= {self._epoch}
            return self._epoch

    def key(self, coordinator_epoch: int, name: str) -> bytes:
        with self._lock:
            self._check(coordinator_epoch)
            return self._keys.setdefault(name, secrets.token_bytes(KEY_BYTES))

    def load(self) -> Sequence[TableRecord]:
        with self._lock:
            return list(self._tables.values())

    def apply(self, coordinator_epoch: int, writes: Writes) -> None:
        with self._lock:
            self._check(coordinator_epoch)
            self._tables.update({row.table_id: row for row in writes.tables})
            self._tables = {table_id: row for table_id, row in self._tables.items() if table_id not in writes.forgotten_tables}
            self._rounds.update({row.round_id: row for row in writes.rounds})
            self._commits.update({row.round_id: row for row in writes.commits})
            self._operations.update({row.idempotency_key: row for row in writes.operations})
            self._validations += writes.validations
            self._proofs += writes.proofs
            self._former_rounds.update(writes.former_rounds)
            self._former_rounds = {key: note for key, note in self._former_rounds.items() if key not in writes.forgotten_tables}
            self._read_holds.update({row.hold_id: row for row in writes.read_holds})
            self._read_holds = {hold_id: row for hold_id, row in self._read_holds.items() if hold_id not in writes.ended_read_holds}
            self._errors.update({row.key: row for row in writes.errors})
            for event in writes.events:
                self._events.append(replace(event, event_id=self._next_event_id))
                self._next_event_id += 1

    def paths_of(self, kind: HistoryKind) -> Collection[TablePathOrNone]:
        rows: dict[HistoryKind, Iterable[RoundRecord | LakeCommitRecord | ErrorRecord | EventRecord]] = {
            HistoryKind.ROUNDS: self._rounds.values(),
            HistoryKind.COMMITS: self._commits.values(),
            HistoryKind.ERRORS: self._errors.values(),
            HistoryKind.EVENTS: self._events,
        }
        with self._lock:
            return {(row.database_name, row.table_name) for row in rows[kind]}

    def oldest_rounds(self, paths: Collection[TablePathOrNone]) -> Mapping[TablePathOrNone, datetime]:
        oldest: dict[TablePathOrNone, tuple[bool, datetime]] = {}
        for row in self.rounds(limit=ALL_ROWS):
            path, place = (row.database_name, row.table_name), (row.state is RoundState.EMPTY, row.pending_time)
            if path in paths:
                oldest[path] = min(oldest.get(path, place), place)
        return {path: pending_time for path, (_, pending_time) in oldest.items()}

    def read_rounds(self, history_range: HistoryRange) -> Iterator[RoundRecord]:
        rounds = [row for row in self.rounds(limit=ALL_ROWS) if row.missed_by_ms or not history_range.is_missed]
        rows = [row for row in rounds if _is_selected(row, row.pending_time, history_range)]
        return iter(sorted(rows, key=lambda row: (row.pending_time, row.round_id), reverse=True))

    def read_commits(self, history_range: HistoryRange) -> Iterator[LakeCommitRecord]:
        rows = [row for row in self.commits(limit=ALL_ROWS) if _is_selected(row, row.prepared_at, history_range)]
        return iter(sorted(rows, key=lambda row: (row.prepared_at, row.round_id), reverse=True))

    def read_errors(self, history_range: HistoryRange) -> Iterator[ErrorRecord]:
        rows = [row for row in self._errors.values() if _is_selected(row, row.last_seen, history_range)]
        return iter(sorted(rows, key=lambda row: (row.last_seen, row.key), reverse=True))

    def read_events(self, history_range: HistoryRange) -> Iterator[EventRecord]:
        rows = [row for row in self.events(limit=ALL_ROWS) if _is_selected(row, row.occurred_at, history_range)]
        return iter(sorted(rows, key=lambda row: row.occurred_at, reverse=True) if history_range.by_time else rows)

    def operation(self, idempotency_key: str) -> OperationRecord | None:
        with self._lock:
            return self._operations.get(idempotency_key)

    def round(self, round_id: str) -> RoundRecord | None:
        with self._lock:
            return self._rounds.get(round_id)

    def rounds_by_id(self, round_ids: Collection[str]) -> Mapping[str, RoundRecord]:
        with self._lock:
            return {round_id: self._rounds[round_id] for round_id in round_ids if round_id in self._rounds}

    def rounds(self, table_id: int | None = None, limit: int = 1_000) -> Sequence[RoundRecord]:
        with self._lock:
            rows = [row for row in self._rounds.values() if table_id in (None, row.table_id)]
        by_epoch = table_id is not None
        return sorted(rows, key=lambda row: (by_epoch and row.tiering_epoch, row.pending_time, row.tiering_epoch), reverse=True)[:limit]

    def commit(self, round_id: str) -> LakeCommitRecord | None:
        with self._lock:
            return self._commits.get(round_id)

    def commits(self, table_id: int | None = None, limit: int = 1_000) -> Sequence[LakeCommitRecord]:
        with self._lock:
            rows = [row for row in self._commits.values() if table_id in (None, row.table_id)]
        by_epoch = table_id is not None
        return sorted(rows, key=lambda row: (by_epoch and row.tiering_epoch, row.prepared_at, row.tiering_epoch), reverse=True)[:limit]

    def former_rounds(self, table_id: int) -> FormerRounds | None:
        with self._lock:
            return self._former_rounds.get(table_id)

    def read_holds(self) -> Sequence[ReadHold]:
        with self._lock:
            return list(self._read_holds.values())

    def events(self, limit: int = 1_000) -> Sequence[EventRecord]:
        with self._lock:
            return self._events[::-1][:limit]

    def events_after(self, event_id: int) -> Sequence[EventRecord]:
        """Returns the events with higher numbers, the oldest first."""
        with self._lock:
            return [event for event in self._events[-1_000:] if (event.event_id or 0) > event_id]

    def validations(self, limit: int = 10_000) -> Sequence[CheckResult]:
        with self._lock:
            return self._validations[::-1][:limit]

    def proofs(self, limit: int = 10_000) -> Sequence[TableProof]:
        with self._lock:
            return self._proofs[::-1][:limit]

    def prune(
        self, coordinator_epoch: int, bounds: HistoryBounds, operations_before: datetime, now: datetime, throttle: Throttling = unthrottled
    ) -> None:
        if not throttle():
            return
        rounds = _beyond(self.read_rounds(HistoryRange()), lambda row: row.pending_time, bounds, now)
        commits = _beyond(self.read_commits(HistoryRange()), lambda row: row.prepared_at, bounds, now)
        errors = _beyond(self.read_errors(HistoryRange()), lambda row: row.last_seen, bounds, now)
        events = _beyond(self.read_events(HistoryRange()), lambda row: row.occurred_at, bounds, now)
        empty = _empty_beyond(self.read_rounds(HistoryRange()), bounds.empty_rounds_per_table, now)
        with self._lock:
            self._check(coordinator_epoch)
            self._events = [row for row in self._events if row.round_id not in empty or row.level is not Level.INFO]
            self._rounds = {round_id: row for round_id, row in self._rounds.items() if round_id not in empty}
            for round_id in [row.round_id for row in rounds if row.state.is_final]:
                self._rounds.pop(round_id, None)
            # A round without its grant would count as one that was never granted.
            for round_id in [row.round_id for row in commits if row.state.is_resolved and row.round_id not in self._rounds]:
                del self._commits[round_id]
            for key in [row.key for row in errors if row.resolved_at is not None]:
                del self._errors[key]
            self._operations = {key: row for key, row in self._operations.items() if row.started_time >= operations_before}
            old = {row.event_id for row in events}
            self._events = [row for row in self._events if row.event_id not in old]

    def close(self) -> None:
        """Nothing to let go of."""

    def _check(self, coordinator_epoch: int) -> None:
        if coordinator_epoch not in self._own:
            raise Fenced(
                f"another coordinator took over the store: its epoch is {self._epoch}, ours {coordinator_epoch}",
                hint="Run one coordinator per store; this one stops.",
            )


def _empty_beyond(newest_first: Iterable[RoundRecord], most: int, now: datetime) -> set[str]:
    """Ids of rounds without rows beyond the newest of their table."""
    places: Counter[tuple[str, str]] = Counter()
    beyond: set[str] = set()
    for row in newest_first:
        if row.state is RoundState.EMPTY and row.pending_time <= now:
            places[row.database_name, row.table_name] += 1
            if places[row.database_name, row.table_name] > most:
                beyond.add(row.round_id)
    return beyond


def _beyond(newest_first: Iterable[RowT], time_of: Callable[[RowT], datetime], bounds: HistoryBounds, now: datetime) -> list[RowT]:
    """Rows that are older than the bounds, or beyond the newest of their table."""
    rows = [row for row in newest_first if time_of(row) <= now]
    counts = Counter((row.database_name, row.table_name) for row in rows)
    is_event = any(isinstance(row, EventRecord) for row in rows)
    most = bounds.most_events(counts.values()) if is_event else bounds.most_rounds(counts.values())
    places: Counter[tuple[str | None, str | None]] = Counter()
    beyond: list[RowT] = []
    for row in rows:
        places[row.database_name, row.table_name] += 1
        if time_of(row) < bounds.before or places[row.database_name, row.table_name] > most:
            beyond.append(row)
    return beyond


def _is_selected(row: RoundRecord | LakeCommitRecord | EventRecord | ErrorRecord, time: datetime, history_range: HistoryRange) -> bool:
    within = (history_range.since is None or time >= history_range.since) and (history_range.until is None or time <= history_range.until)
    round_field = "last_round_id" if isinstance(row, ErrorRecord) else "round_id"
    named = {"database_name": history_range.database_name, "table_name": history_range.table_name, round_field: history_range.round_id}
    is_about = history_range.paths is None or (row.database_name, row.table_name) in history_range.paths
    return within and is_about and all(value in (None, getattr(row, name)) for name, value in {**history_range.fields, **named}.items())
