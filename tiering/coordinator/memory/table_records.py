"""The records in memory, always behind the store: what a reader sees here is stored already.

All changes go through `put`, under one re-entrant lock; nothing under it talks to the cluster or the lake. Readers take
the mapping as it is and never wait. After a write with an unknown outcome the records are loaded again before the next change.

The store syncs the disk with each write, so changes of several callers share one: who waits for the lock leaves its work to whoever gets it
(`change`). All of it is done by one thread, each part on what those before it put, and nobody is answered before it is stored.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, TypeVar

import structlog

from tiering import crash_points
from tiering.clock import Clock, Ids
from tiering.coordinator.decisions import table_lifecycle
from tiering.coordinator.decisions.change import Change, Context
from tiering.coordinator.decisions.moment import Moment, Timebase
from tiering.coordinator.decisions.records import CommitState, EventRecord, LakeCommitRecord, Level, OperationRecord, TableRecord
from tiering.coordinator.decisions.round_lifecycle import STATE_LOST
from tiering.coordinator.memory.deadlines import Deadlines
from tiering.coordinator.memory.history import HistoryBounds
from tiering.coordinator.memory.record_index import RecordIndex, waits
from tiering.coordinator.memory.store import Store, Writes
from tiering.coordinator.memory.waiting.joint_work import Work
from tiering.coordinator.memory.wake_ups import WakeUps
from tiering.coordinator.options import CoordinatorOptions
from tiering.errors import Fenced, StoreError
from tiering.lake.rules.upkeep.former_rounds import FormerRounds
from tiering.model.tables import TablePath
from tiering.pace import Rest, no_rest
from tiering.validate.results import CheckResult

_log = structlog.get_logger(__name__)

Result = TypeVar("Result")

LEDGER_ROWS = 16
"""Rows of one table's ledger that are read at first. The next ack settles unresolved rows, so they are recent."""


@dataclass
class _Draft:
    """Changes that wait for one write, and their records as they will be then. Only the thread that makes them sees them."""

    records: dict[int, TableRecord] = field(default_factory=dict)
    thread: int = field(default_factory=threading.get_ident)
    changes: list[Change] = field(default_factory=list)
    operations: list[OperationRecord] = field(default_factory=list)
    events: list[EventRecord] = field(default_factory=list)
    failed: BaseException | None = None
    """Why a part of it could not be stored: then nothing more of it is."""


class TableRecords:
    """Takes the store over when made, and restores what is in it."""

    def __init__(
        self, store: Store, clock: Clock, ids: Ids, options: CoordinatorOptions, jitter: Callable[[], float] = random.random
    ) -> None:
        self.store = store
        self.options = options
        self.wake_ups = WakeUps()
        self.fenced: Fenced | None = None
        self.events_stored: Callable[[Sequence[EventRecord]], None] = lambda events: None
        """Called with events that were stored just now, under the lock."""
        self._timebase = Timebase(clock)
        self._ids = ids
        self._jitter = jitter
        self._lock = threading.RLock()
        self._holder: int | None = None
        """The thread that is inside `changing`."""
        self._doubtful = False
        self._draft: _Draft | None = None
        self._work_guard = threading.Lock()
        self._work: list[Work[Any]] = []
        """What waits to be done."""
        self._work_led = False
        """Whether the work of some thread is done, or about to be: others wait for that thread."""
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
        """A context for one decision: this moment, a fresh round id and jitter."""
        return Context(self.now(), self.epoch, self.options, self._ids.new_id(), self._jitter(), principal)

    def all(self) -> Mapping[int, TableRecord]:
        """All records by table id, those of removed tables included. The mapping returned never changes."""
        version, shown = self._shown
        if version != self._version:
            # The version before the copy: what is shown while it is made makes the next reader copy again, and is not missed.
            version = self._version
            shown = self._records.copy()
            self._shown = version, shown
        return shown

    def live(self) -> list[TableRecord]:
        """The records of all lake tables that are not removed."""
        drafted = self._drafted()
        records = {**self.all(), **drafted} if drafted else self.all()
        return [record for record in records.values() if record.state is not None]

    def get(self, table_id: int) -> TableRecord | None:
        """The record of a lake table; None if there is none, or it was removed."""
        record = self._drafted().get(table_id) or self._records.get(table_id)
        return record if record is not None and record.state is not None else None

    def waiting(self) -> list[TableRecord]:
        """The tables that could be assigned now, in no order. Call it inside `changing`, as `running`."""
        needs_turn = self.options.assigned_by_cluster
        return [record for record in self._among(self._index.waiting) if waits(record, needs_turn=needs_turn)]

    def first_waiting(self, now: Moment) -> list[TableRecord]:
        """Some of the tables that could be assigned now, in no order: whichever kinds of them a request may get, the one that comes first
        is among them. However many wait, these are few. Call it inside `changing`."""
        needs_turn, drafted = self.options.assigned_by_cluster, self._drafted()
        in_draft = (record for record in drafted.values() if waits(record, needs_turn=needs_turn))
        return [*in_draft, *(self._records[table_id] for table_id in self._index.queue.first(now, drafted))]

    def running(self) -> list[TableRecord]:
        """The tables that a tierer has now, sorted by table id."""
        running = [record for record in self._among(self._index.running) if record.running is not None]
        return sorted(running, key=lambda record: record.table_id)

    def assigned(self) -> list[TableRecord]:
        """The tables with an assignment of the cluster, sorted by table id."""
        assigned = [record for record in self._among(self._index.assigned) if record.assignment is not None]
        return sorted(assigned, key=lambda record: record.table_id)

    def failing(self) -> tuple[int, int]:
        """How many tables failed with their latest rounds, and how many tables there are."""
        return len(self._index.failing), self._index.tables

    def work_waits(self) -> bool:
        """Whether any table could be assigned now. Cheap: held requests ask at every tick."""
        return bool(self._index.waiting)

    def upkeep_requested(self) -> list[int]:
        """Ids of the tables of which callers want upkeep."""
        return list(self._index.upkeep_requested)

    def any_live(self) -> bool:
        """Whether any table is to be fresh, rather than all of them paused or in backlog."""
        return bool(self._index.live)

    def by_path(self, path: TablePath) -> TableRecord | None:
        """The record of the lake table of that exact path."""
        table_id = self._index.by_path(path)
        record = None if table_id is None else self._records.get(table_id)
        return record if record is not None and record.state is not None and record.path == path else None

    @contextmanager
    def overdue(self) -> Iterator[list[int]]:
        """Ids of tables of which a deadline may have passed; their records decide.

        They are looked at again when their records say so then, however the block ends. Waits for no lock.
        """
        table_ids = self._deadlines.take(self.now())
        try:
            yield table_ids
        finally:
            records = self._records
            self._deadlines.watch(records[table_id] for table_id in table_ids if table_id in records)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Holds the lock: read, decide and `put` inside. Raises Fenced once another coordinator took over."""
        with self._lock:
            if self.fenced is not None:
                raise self.fenced
            if self._doubtful:
                self._reload()
            outer, self._holder = self._holder, threading.get_ident()
            try:
                yield
            finally:
                self._holder = outer

    def change(self, work: Callable[[], Result]) -> Result:
        """The result of `work`, which runs inside `changing` and `together`, maybe in another thread; all that it put is stored by then.

        Whoever gets the lock does all the work that waits for it, in one write: all of it is stored, or none, and then everybody gets the
        error. Raises what the work raises, Fenced, StoreError.
        """
        if self._holder == threading.get_ident():  # who has the lock must not wait for others
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
        """Does all work that waits by the time the lock is free, and leaves what came meanwhile to whoever brought the first of it."""
        taken: list[Work[Any]] = []
        try:
            with self._lock:
                with self._work_guard:
                    taken = [*self._work]
                    self._work.clear()
                self._do(taken)
        finally:
            with self._work_guard:
                following = self._work[0] if self._work else None
                self._work_led = following is not None
            for work in taken if following is None else (*taken, following):
                work.wake()

    def _do(self, taken: Sequence[Work[Any]]) -> None:
        try:
            with self.changing(), self.together() as draft:
                for work in taken:
                    if draft.failed is None:
                        work.do()
        except BaseException as error:  # whatever it is, each of them has to hear that nothing was stored for sure
            for work in taken:
                work.fail(error)

    @contextmanager
    def together(self) -> Iterator[_Draft]:
        """Inside `changing`: what is put within goes to the store in one write at the end, and is shown then.

        Only who puts it sees it before. What was put before an error is stored all the same. Within another one it is a part of that.
        """
        if (outer := self._own_draft()) is not None:
            yield outer
            return
        draft = self._draft = _Draft()
        try:
            yield draft
        finally:
            self._draft = None
            self._store(draft)

    def store_with(self, table_id: int) -> Store:
        """The store, for a read of rows of a table inside `changing`: with all that was put of it. Raises Fenced, StoreError."""
        draft = self._own_draft()
        if draft is not None and any(change.durable and change.record.table_id == table_id for change in draft.changes):
            self._draft = None
            try:
                self._store(draft)
            finally:
                self._draft = draft
        return self.store

    def newest_commits(self, table_id: int) -> list[LakeCommitRecord]:
        """The newest rows of the table's ledger, back to a commit that is known to be in the lake, or to the first row.

        That commit settled all rows before it. Where no commit went through for days, the ledger has very many unresolved rows. Call it
        inside `changing`. Raises Fenced, StoreError.
        """
        limit = LEDGER_ROWS
        while True:
            rows = list(self.store_with(table_id).commits(table_id, limit))
            if len(rows) < limit or rows[-1].state in (CommitState.ACKED, CommitState.RECONCILED):
                return rows
            limit *= 2

    def _store(self, draft: _Draft) -> None:
        """Stores and shows what was drafted, and empties the draft."""
        if draft.failed is not None:
            raise draft.failed
        changes, operations, events = draft.changes, draft.operations, draft.events
        draft.records, draft.changes, draft.operations, draft.events = {}, [], [], []
        try:
            self.put(*changes, operations=operations, events=events)
        except BaseException as error:
            draft.failed = error
            raise

    def _own_draft(self) -> _Draft | None:
        """That of this thread."""
        draft = self._draft
        return draft if draft is not None and draft.thread == threading.get_ident() else None

    def _drafted(self) -> Mapping[int, TableRecord]:
        """Records that this thread sees in place of those that are shown."""
        draft = self._own_draft()
        return {} if draft is None else draft.records

    def _among(self, table_ids: Collection[int]) -> list[TableRecord]:
        drafted, records = self._drafted(), self._records
        return [*drafted.values(), *(records[table_id] for table_id in table_ids if table_id not in drafted)]

    def put(
        self,
        *changes: Change,
        operations: Sequence[OperationRecord] = (),
        events: Sequence[EventRecord] = (),
        validations: Sequence[CheckResult] = (),
    ) -> None:
        """Stores the changes and then shows them; of several of one table, each made on the one before. Call it inside `changing`.

        `events`: those of no table. `validations` are no part of a draft.
        """
        if self._draft is not None:
            self._draft.changes += changes
            self._draft.operations += operations
            self._draft.events += events
            self._draft.records.update({change.record.table_id: change.record for change in changes})
            return
        durable = [change for change in changes if change.durable]
        if durable or operations or events or validations:
            self._apply(replace(Writes.of(durable, operations, events), validations=tuple(validations)))
        if stored := [*(event for change in durable for event in change.events), *events]:
            self.events_stored(stored)
        if changes:
            self._show({change.record.table_id: change.record for change in changes})
        if durable:
            self.wake_ups.notify()

    def note_former_rounds(self, table_id: int, note: FormerRounds) -> None:
        """Stores what a sweep noted of a table's rounds. Raises StoreError, Fenced."""
        with self.changing():
            self._apply(Writes(former_rounds={table_id: note}))

    def rise_above(self, named: int) -> None:
        """Goes on under a coordinator epoch above `named`, which is above this one: durably, when it returns. Call it inside `changing`."""
        former = self.epoch
        with self._storing():
            self.epoch = self.store.rise(former, named)
        message = (
            f"a tierer was assigned a round by coordinator {named}, this one was {former}: the state store was lost, or is from a backup"
        )
        self.put(events=[EventRecord(self.now().wall, Level.WARN, STATE_LOST, message, details={"coordinator_epoch": self.epoch})])

    def prune(self, rest: Rest = no_rest) -> None:
        """Forgets what the options do not keep, also the records of dropped tables; in pieces, with rests before them.

        An idempotency key is kept for its time by the wall clock and by the steady one: a clock that is set ahead does not make a
        repeated CALL a second one.
        """
        now = self.now()
        before = min(now.wall, now.steady) - timedelta(milliseconds=self.options.keep_operations_ms)
        if self.fenced is not None:
            raise self.fenced
        # Outside the lock: it takes a while, and touches nothing that anybody changes.
        self.store.prune(self.epoch, self._history_bounds(now), before, now.wall, rest)
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
        """Deletes the records of tables that were dropped long enough ago, in the store and here."""
        kept = {table_id: record for table_id, record in self._records.items() if not table_lifecycle.may_be_forgotten(now, record)}
        if len(kept) < len(self._records):
            self._apply(Writes(forgotten_tables=tuple(self._records.keys() - kept.keys())))
            self._records = kept
            self._version += 1

    def _show(self, renewed: Mapping[int, TableRecord]) -> None:
        """Changes the records in place: a copy of very many, each time that one changes, is made only for who reads all of them."""
        before = {table_id: self._records[table_id] for table_id in renewed if table_id in self._records}
        self._records.update(renewed)
        self._version += 1
        self._index.renew(renewed.values(), before)
        self._deadlines.watch(renewed.values())

    def _reload(self) -> None:
        """Loads what was really stored; heartbeats, which are in memory only, stay as they are now."""
        ctx, before = self.context(), self._records
        self._records = {record.table_id: table_lifecycle.reread(ctx, record, before.get(record.table_id)) for record in self.store.load()}
        self._index = self._indexed(self._records.values())
        self._version += 1
        self._deadlines.watch(self._records.values())
        self._doubtful = False

    def _indexed(self, records: Iterable[TableRecord]) -> RecordIndex:
        options = self.options
        return RecordIndex(records, needs_turn=options.assigned_by_cluster, backlog_apart=options.backlog_waits_apart)

    def _apply(self, writes: Writes) -> None:
        with self._storing():
            self.store.apply(self.epoch, writes)

    @contextmanager
    def _storing(self) -> Iterator[None]:
        """Notes that another coordinator took over, and that nobody knows what became of a write."""
        try:
            yield
        except Fenced as error:
            self.fenced = error
            self.wake_ups.notify()
            _log.error("another coordinator took over the store: this one stops", coordinator_epoch=self.epoch)
            raise
        except StoreError:
            self._doubtful = True
            raise
