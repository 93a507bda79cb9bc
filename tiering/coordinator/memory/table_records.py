"""The records in memory. They are always behind the store: what a reader sees here is stored already.

All changes go through `put`, under one re-entrant lock. Code under the lock never talks to the cluster or the lake. Readers use the mapping
without a lock and never wait. After a write with an unknown outcome, the records are loaded again before the next change.

The store syncs the disk with each write, so the changes of several callers share one write. A thread that waits for the lock leaves its
work to the thread that gets it (`change`). That thread does all waiting work in order, and no caller gets an answer before its work is
stored.
"""

from __future__ import annotations

import contextvars
import random
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Generic, TypeVar

import structlog

from tiering import crash_points
from tiering.clock import Clock, Ids
from tiering.coordinator.decisions import table_lifecycle
from tiering.coordinator.decisions.change import Change, Context
from tiering.coordinator.decisions.moment import Moment, Timebase
from tiering.coordinator.decisions.records import CommitState, EventRecord, LakeCommitRecord, Level, OperationRecord, ReadHold, TableRecord
from tiering.coordinator.decisions.round_lifecycle import STATE_LOST
from tiering.coordinator.memory.history import HistoryBounds
from tiering.coordinator.memory.record_index import Deadlines, RecordIndex, waits
from tiering.coordinator.memory.store import Store, Writes
from tiering.coordinator.memory.wake_ups import WakeUps
from tiering.coordinator.options import CoordinatorOptions
from tiering.errors import Fenced, StoreError
from tiering.lake.rules.upkeep.former_rounds import FormerRounds
from tiering.model.tables import TablePath
from tiering.procedures.prove_table import TableProof
from tiering.procedures.validate_table import CheckResult
from tiering.throttle import Throttling, unthrottled

_log = structlog.get_logger(__name__)

Result = TypeVar("Result")

LEDGER_ROWS = 16
"""Number of rows of one table's ledger that are read first. The next ack settles unresolved rows, so these are usually recent."""


@dataclass
class _PendingChanges:
    """Changes that wait for one common write, and the records that result from them. Only the thread that makes them sees them."""

    records: dict[int, TableRecord] = field(default_factory=dict)
    thread: int = field(default_factory=threading.get_ident)
    changes: list[Change] = field(default_factory=list)
    operations: list[OperationRecord] = field(default_factory=list)
    events: list[EventRecord] = field(default_factory=list)
    failed: BaseException | None = None
    """Why a part of the draft could not be stored. Then nothing more of it is stored."""


class TableRecords:
    """Holds the records of all tables. The constructor takes the store over and restores its records."""

    def __init__(
        self, store: Store, clock: Clock, ids: Ids, options: CoordinatorOptions, jitter: Callable[[], float] = random.random
    ) -> None:
        self.store = store
        self.options = options
        self.wake_ups = WakeUps()
        self.fenced: Fenced | None = None
        self.events_stored: Callable[[Sequence[EventRecord]], None] = lambda events: None
        """Called with events that were just stored, under the lock."""
        self.changes_stored: Callable[[Sequence[Change]], None] = lambda changes: None
        """Called with changes that were just stored, in order, under the lock. `get` still returns the records before them."""
        self._timebase = Timebase(clock)
        self._ids = ids
        self._jitter = jitter
        self._lock = threading.RLock()
        self._holder: int | None = None
        """The thread that is inside of `changing`."""
        self._unverified = False
        self._draft: _PendingChanges | None = None
        self._work_guard = threading.Lock()
        self._work: list[Work[Any]] = []
        """Work that waits for the lock."""
        self._work_led = False
        """Whether one thread does the waiting work, or is about to. Other threads wait for it."""
        self._deadlines = Deadlines(needs_turn=options.assigned_by_cluster)
        self._records: dict[int, TableRecord] = {}
        self._version = 0
        self._shown: tuple[int, Mapping[int, TableRecord]] = (0, {})
        self._index = self._indexed(())
        self.epoch = store.take_over()
        with self.changing():
            ctx = self.context()
            self.put(*[table_lifecycle.restore(ctx, record) for record in store.load()])
        crash_points.reach(crash_points.TAKE_OVER_RESTORED)

    def now(self) -> Moment:
        return self._timebase.now()

    def context(self, principal: str | None = None) -> Context:
        """Returns a context for one decision: the present moment, a new round id and jitter."""
        return Context(self.now(), self.epoch, self.options, self._ids.new_id(), self._jitter(), principal)

    def all(self) -> Mapping[int, TableRecord]:
        """Returns all records by table id, including those of removed tables. The returned mapping never changes."""
        version, shown = self._shown
        if version != self._version:
            # Read the version before the copy. A change during the copy then makes the next reader copy again, and is not missed.
            version = self._version
            shown = self._records.copy()
            self._shown = version, shown
        return shown

    def live(self) -> list[TableRecord]:
        """Returns the records of all lake tables that are not removed."""
        drafted = self._drafted()
        records = {**self.all(), **drafted} if drafted else self.all()
        return [record for record in records.values() if record.state is not None]

    def get(self, table_id: int) -> TableRecord | None:
        """Returns the record of a lake table; None if there is none, or it was removed."""
        record = self._drafted().get(table_id) or self._records.get(table_id)
        return record if record is not None and record.state is not None else None

    def waiting(self) -> list[TableRecord]:
        """Returns the tables that could be assigned now, in no order. Call it inside of `changing`; this also holds for `running`."""
        needs_turn = self.options.assigned_by_cluster
        return [record for record in self._records_of(self._index.waiting) if waits(record, needs_turn=needs_turn)]

    def first_waiting(self, now: Moment) -> list[TableRecord]:
        """Returns candidates for the next assignment, in no order. Call it inside of `changing`.

        For any set of kinds that a request may get, the first table of the queue is among them. They are few, even if many tables wait.
        """
        needs_turn, drafted = self.options.assigned_by_cluster, self._drafted()
        in_draft = (record for record in drafted.values() if waits(record, needs_turn=needs_turn))
        return [*in_draft, *(self._records[table_id] for table_id in self._index.queue.first(now, drafted))]

    def running(self) -> list[TableRecord]:
        """Returns the tables that a tierer runs now, sorted by table id."""
        running = [record for record in self._records_of(self._index.running) if record.running is not None]
        return sorted(running, key=lambda record: record.table_id)

    def assigned(self) -> list[TableRecord]:
        """Returns the tables with an assignment of the cluster, sorted by table id."""
        assigned = [record for record in self._records_of(self._index.assigned) if record.assignment is not None]
        return sorted(assigned, key=lambda record: record.table_id)

    def failing(self) -> tuple[int, int]:
        """Returns how many tables failed with their latest rounds, and how many tables there are."""
        return len(self._index.failing), self._index.tables

    def work_waits(self) -> bool:
        """Returns whether any table could be assigned now. It is cheap, because held requests ask at every tick."""
        return bool(self._index.waiting)

    def upkeep_requested(self) -> list[int]:
        """Returns the ids of tables for which callers requested upkeep."""
        return list(self._index.upkeep_requested)

    def any_live(self) -> bool:
        """Returns whether any table has to be fresh, that is, is neither paused nor in backlog."""
        return bool(self._index.live)

    def by_path(self, path: TablePath) -> TableRecord | None:
        """Returns the record of the lake table with exactly this path; None if there is none."""
        table_id = self._index.by_path(path)
        record = None if table_id is None else self._records.get(table_id)
        return record if record is not None and record.state is not None and record.path == path else None

    @contextmanager
    def overdue(self) -> Iterator[list[int]]:
        """Yields the ids of tables with a deadline that may have passed; their records decide.

        However the block ends, these tables are watched again for the deadlines of their records. It waits for no lock.
        """
        table_ids = self._deadlines.take(self.now())
        try:
            yield table_ids
        finally:
            records = self._records
            self._deadlines.watch(records[table_id] for table_id in table_ids if table_id in records)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Holds the lock. Read, decide and `put` inside of it. Raises Fenced once another coordinator took over."""
        with self._lock:
            if self.fenced is not None:
                raise self.fenced
            if self._unverified:
                self._reload()
            outer, self._holder = self._holder, threading.get_ident()
            try:
                yield
            finally:
                self._holder = outer

    def change(self, work: Callable[[], Result]) -> Result:
        """Runs `work` inside of `changing` and `together`, maybe in another thread, and returns its result once its changes are stored.

        The thread that gets the lock does all waiting work in one write. Either all of it is stored, or none, and then every caller gets
        the error. Raises what the work raises, Fenced, StoreError.
        """
        if self._holder == threading.get_ident():  # the thread with the lock must not wait for other threads
            with self.together():
                return work()
        own = Work(work)
        with self._work_guard:
            self._work.append(own)
            waits, self._work_led = self._work_led, True
        if waits:
            own.wait()
        if not own.is_done:
            self._lead()
        return own.result()

    def _lead(self) -> None:
        """Does all work that waits when the lock is free.

        Work that arrives meanwhile is left to the thread that brought the first of it.
        """
        batch: list[Work[Any]] = []
        try:
            with self._lock:
                with self._work_guard:
                    batch = [*self._work]
                    self._work.clear()
                self._do(batch)
        finally:
            with self._work_guard:
                following = self._work[0] if self._work else None
                self._work_led = following is not None
            for work in batch if following is None else (*batch, following):
                work.wake()

    def _do(self, batch: Sequence[Work[Any]]) -> None:
        try:
            with self.changing(), self.together() as draft:
                for work in batch:
                    if draft.failed is None:
                        work.do()
        except BaseException as error:  # for any error, each waiting thread has to learn that its work may not be stored
            for work in batch:
                work.fail(error)

    @contextmanager
    def together(self) -> Iterator[_PendingChanges]:
        """Collects changes inside of `changing` and stores them in one write at the end. Then readers see them.

        Only this thread sees them before. Changes that were put before an error are stored, too. A nested block joins the outer one.
        """
        if (outer := self._own_draft()) is not None:
            yield outer
            return
        draft = self._draft = _PendingChanges()
        try:
            yield draft
        finally:
            self._draft = None
            self._store(draft)

    def store_with(self, table_id: int) -> Store:
        """Returns the store to read rows of a table inside of `changing`. Stores the table's draft first. Raises Fenced, StoreError."""
        draft = self._own_draft()
        if draft is not None and any(change.durable and change.record.table_id == table_id for change in draft.changes):
            self._draft = None
            try:
                self._store(draft)
            finally:
                self._draft = draft
        return self.store

    def newest_commits(self, table_id: int) -> list[LakeCommitRecord]:
        """Returns the newest rows of the table's ledger, back to a commit that is known to be in the lake, or to the first row.

        That commit settled all rows before it. The ledger has very many unresolved rows if no commit succeeded for days. Call it inside
        `changing`. Raises Fenced, StoreError.
        """
        limit = LEDGER_ROWS
        while True:
            rows = list(self.store_with(table_id).commits(table_id, limit))
            if len(rows) < limit or rows[-1].state in (CommitState.ACKED, CommitState.RECONCILED):
                return rows
            limit *= 2

    def _store(self, draft: _PendingChanges) -> None:
        """Stores the draft, shows its changes, and empties it."""
        if draft.failed is not None:
            raise draft.failed
        changes, operations, events = draft.changes, draft.operations, draft.events
        draft.records, draft.changes, draft.operations, draft.events = {}, [], [], []
        try:
            self.put(*changes, operations=operations, events=events)
        except BaseException as error:
            draft.failed = error
            raise

    def _own_draft(self) -> _PendingChanges | None:
        """Returns the draft of this thread; None if it has none."""
        draft = self._draft
        return draft if draft is not None and draft.thread == threading.get_ident() else None

    def _drafted(self) -> Mapping[int, TableRecord]:
        """Returns the records that this thread sees instead of the shown ones."""
        draft = self._own_draft()
        return {} if draft is None else draft.records

    def _records_of(self, table_ids: Collection[int]) -> list[TableRecord]:
        drafted, records = self._drafted(), self._records
        return [*drafted.values(), *(records[table_id] for table_id in table_ids if table_id not in drafted)]

    def put(
        self,
        *changes: Change,
        operations: Sequence[OperationRecord] = (),
        events: Sequence[EventRecord] = (),
        validations: Sequence[CheckResult] = (),
        proofs: Sequence[TableProof] = (),
    ) -> None:
        """Stores the changes and then shows them. Several changes of one table build on each other. Call it inside of `changing`.

        `events` are events without a table. `validations` and `proofs` are not part of a draft.
        """
        if self._draft is not None:
            self._draft.changes += changes
            self._draft.operations += operations
            self._draft.events += events
            self._draft.records.update({change.record.table_id: change.record for change in changes})
            return
        durable = [change for change in changes if change.durable]
        if durable or operations or events or validations or proofs:
            writes = Writes.of(durable, operations, events)
            self._apply(replace(writes, validations=tuple(validations), proofs=tuple(proofs)))
        if stored := [*(event for change in durable for event in change.events), *events]:
            self.events_stored(stored)
        if durable:
            self.changes_stored(durable)
        if changes:
            self._show({change.record.table_id: change.record for change in changes})
        if durable:
            self.wake_ups.notify()

    def note_former_rounds(self, table_id: int, note: FormerRounds) -> None:
        """Stores the result of a sweep about a table's rounds. Raises StoreError, Fenced."""
        with self.changing():
            self._apply(Writes(former_rounds={table_id: note}))

    def change_read_holds(self, added: Sequence[ReadHold] = (), ended: Iterable[str] = ()) -> None:
        """Stores what open reads need, and deletes the holds with the ids `ended`. Raises StoreError, Fenced."""
        with self.changing():
            self._apply(Writes(read_holds=tuple(added), ended_read_holds=tuple(ended)))

    def rise_above(self, named: int) -> None:
        """Continues under a coordinator epoch above `named`, which is above the present one.

        It is stored on return. Call it in `changing`.
        """
        former = self.epoch
        with self._storing():
            self.epoch = self.store.rise(former, named)
        message = (
            f"a tierer was assigned a round by coordinator {named}, this one was {former}: the state store was lost, or is from a backup"
        )
        self.put(events=[EventRecord(self.now().wall, Level.WARN, STATE_LOST, message, details={"coordinator_epoch": self.epoch})])

    def prune(self, throttle: Throttling = unthrottled) -> None:
        """Deletes history that the options do not keep, and the records of dropped tables, in small steps with pauses.

        An idempotency key is kept for its time by both the wall clock and the steady clock. So a clock that is set ahead does not make a
        repeated CALL a second one.
        """
        now = self.now()
        before = min(now.wall, now.steady) - timedelta(milliseconds=self.options.keep_operations_ms)
        if self.fenced is not None:
            raise self.fenced
        # Outside of the lock, because it takes a while, and only touches rows that no longer change.
        self.store.prune(self.epoch, self._history_bounds(now), before, now.wall, throttle)
        with self.changing():
            self._forget_dropped(now)

    def _history_bounds(self, now: Moment) -> HistoryBounds:
        options = self.options
        return HistoryBounds(
            before=min(now.wall, now.steady) - timedelta(milliseconds=options.keep_history_ms),
            rounds=options.keep_rounds,
            events=options.keep_events,
            rounds_per_table=options.keep_table_rounds,
            events_per_table=options.keep_table_events,
        )

    def _forget_dropped(self, now: Moment) -> None:
        """Deletes the records of tables that were dropped long enough ago, in the store and in memory."""
        remaining = {table_id: record for table_id, record in self._records.items() if not table_lifecycle.may_be_forgotten(now, record)}
        if len(remaining) < len(self._records):
            self._apply(Writes(forgotten_tables=tuple(self._records.keys() - remaining.keys())))
            self._records = remaining
            self._version += 1

    def _show(self, renewed: Mapping[int, TableRecord]) -> None:
        """Changes the records in place. Only a reader of all records pays for a copy of them."""
        before = {table_id: self._records[table_id] for table_id in renewed if table_id in self._records}
        self._records.update(renewed)
        self._version += 1
        self._index.renew(renewed.values(), before)
        self._deadlines.watch(renewed.values())

    def _reload(self) -> None:
        """Loads what was really stored. Heartbeats are only in memory, so they stay as they are."""
        ctx, before = self.context(), self._records
        self._records = {record.table_id: table_lifecycle.reread(ctx, record, before.get(record.table_id)) for record in self.store.load()}
        self._index = self._indexed(self._records.values())
        self._version += 1
        self._deadlines.watch(self._records.values())
        self._unverified = False

    def _indexed(self, records: Iterable[TableRecord]) -> RecordIndex:
        options = self.options
        return RecordIndex(records, needs_turn=options.assigned_by_cluster, backlog_apart=options.backlog_waits_apart)

    def _apply(self, writes: Writes) -> None:
        with self._storing():
            self.store.apply(self.epoch, writes)

    @contextmanager
    def _storing(self) -> Iterator[None]:
        """Notes a take-over by another coordinator, or a write with an unknown outcome."""
        try:
            yield
        except Fenced as error:
            self.fenced = error
            self.wake_ups.notify()
            _log.error("another coordinator took over the store: this one stops", coordinator_epoch=self.epoch)
            raise
        except StoreError:
            self._unverified = True
            raise


class Work(Generic[Result]):
    """One piece of work that one thread submits and another thread may do, in the log context of the submitting thread.

    The submitting thread waits until it is done, or until that thread has to do it.
    """

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work = work
        self._context = contextvars.copy_context()
        self._results: list[Result] = []
        self._error: BaseException | None = None
        self._woken = threading.Event()

    @property
    def is_done(self) -> bool:
        """Whether the work has a result or an error."""
        return bool(self._results) or self._error is not None

    def wait(self) -> None:
        """Returns once the work is done, or this thread has to do it."""
        self._woken.wait()

    def wake(self) -> None:
        """Ends the wait."""
        self._woken.set()

    def do(self) -> None:
        """Does the work and keeps its outcome for `result`."""
        try:
            self._results = [self._context.run(self._work)]
        except BaseException as error:  # the submitting thread gets any error, even one that is no Exception
            self._error = error

    def fail(self, error: BaseException) -> None:
        """Marks the work as failed: its changes may not be stored."""
        self._results, self._error = [], error

    def result(self) -> Result:
        """Returns the work's result. Raises its error, or the reason for `fail`."""
        if self._error is not None:
            raise self._error
        return self._results[0]
