"""`Change`, the outcome of every decision of the coordinator, and steps that several decisions share.

A decision is a function (context, record, ...) -> `Change`: the new record, and the rows that the store gets with it.
Decisions do no I/O, read no clock and make no ids. `Change.move` is the only place where a table changes its state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from tiering.coordinator.decisions import error_kinds, waits
from tiering.coordinator.decisions.moment import Moment, milliseconds
from tiering.coordinator.decisions.records import (
    CommitState,
    ErrorInfo,
    ErrorRecord,
    EventRecord,
    LakeCommitRecord,
    Level,
    RoundRecord,
    TableRecord,
    Trigger,
)
from tiering.coordinator.options import CoordinatorOptions
from tiering.model.rounds import RoundState, RoundStats
from tiering.model.states import TableState, check_transition

TIERER_FENCED = "TIERER_FENCED"
"""The event type for a tierer that a user took out of service."""


@dataclass(frozen=True)
class Context:
    """The inputs of a decision besides the record. `new_round_id` is an unused id; `jitter` is in [0, 1)."""

    now: Moment
    coordinator_epoch: int
    options: CoordinatorOptions = field(default_factory=CoordinatorOptions)
    new_round_id: str = ""
    jitter: float = 0.0
    principal: str | None = None
    """The caller of the CALL; None if the coordinator acts on its own."""


@dataclass(frozen=True)
class Change:
    """The outcome of a decision. A row replaces the stored row with the same id; events are appended."""

    record: TableRecord
    rounds: Mapping[str, RoundRecord] = field(default_factory=dict)
    commits: Mapping[str, LakeCommitRecord] = field(default_factory=dict)
    events: tuple[EventRecord, ...] = ()
    errors: Mapping[str, ErrorRecord] = field(default_factory=dict)
    durable: bool = True
    """False for changes that a restart may lose: heartbeats and progress."""

    def update(self, **fields: Any) -> Change:
        """Returns the change with these fields of the record."""
        return replace(self, record=replace(self.record, **fields))

    def update_round(self, **fields: Any) -> Change:
        """Returns the change with these fields of the latest round, both in the record and in the round's row."""
        assert self.record.round is not None
        changed = replace(self.record.round, **fields)
        return replace(self, record=replace(self.record, round=changed), rounds={**self.rounds, changed.round_id: changed})

    def update_commit(self, row: LakeCommitRecord) -> Change:
        """Returns the change with this ledger row. If the row is of the record's latest round, the record keeps it, too."""
        record = self.record
        if record.commit is not None and record.commit.round_id == row.round_id:
            record = replace(record, commit=row)
        return replace(self, record=record, commits={**self.commits, row.round_id: row})

    def update_errors(self, errors: tuple[ErrorRecord, ...]) -> Change:
        """Returns the change with these kinds of errors. Only changed rows go into the store."""
        before = set(self.record.errors)
        changed = {row.key: row for row in errors if row not in before}
        return replace(self, record=replace(self.record, errors=errors), errors={**self.errors, **changed})

    def after(self, earlier: Change) -> Change:
        """Combines two changes. This one was made on the record of `earlier`."""
        rounds, commits = {**earlier.rounds, **self.rounds}, {**earlier.commits, **self.commits}
        durable = earlier.durable or self.durable
        events, errors = (*earlier.events, *self.events), {**earlier.errors, **self.errors}
        return replace(self, rounds=rounds, commits=commits, events=events, errors=errors, durable=durable)

    def note(self, ctx: Context, event_type: str, message: str, level: Level = Level.INFO, **details: Any) -> Change:
        """Returns the change with an event about this table and its latest round."""
        record = self.record
        event = EventRecord(
            occurred_at=ctx.now.wall,
            level=level,
            event_type=event_type,
            message=message,
            principal=ctx.principal,
            database_name=record.database_name,
            table_name=record.table_name,
            round_id=record.round.round_id if record.round else None,
            details={"table_id": record.table_id, "tiering_epoch": record.tiering_epoch, **details},
        )
        return replace(self, events=(*self.events, event))

    def move(self, ctx: Context, target: TableState | None, why: str, level: Level = Level.INFO) -> Change:
        """Moves the table to another state. Checks the transition, and adds an event that gives the reason."""
        source = self.record.state
        check_transition(source, target)
        moved = self.update(state=target, status_time=ctx.now.wall)
        name = f"TABLE_{target.upper()}" if target else "TABLE_REMOVED"
        return moved.note(ctx, name, why, level, **{"from": source, "to": target})


def heartbeat_deadline(ctx: Context, record: TableRecord) -> datetime:
    """Returns when the running round times out without a heartbeat. A cancelled round ends then even if heartbeats arrive."""
    cancelled = record.round is not None and record.round.cancelled_by is not None
    timeout_ms = ctx.options.service_timeout_ms
    return ctx.now.after(min(timeout_ms, ctx.options.cancel_ms) if cancelled else timeout_ms)


def cancel_text(row: RoundRecord) -> str:
    """Returns who cancelled the round, and the caller's message."""
    message = f": {row.cancel_message}" if row.cancel_message else ""
    return f"round {row.round_id} of {row.database_name}.{row.table_name} was cancelled by {row.cancelled_by or 'unknown'}{message}"


def enter_pending(change: Change, ctx: Context, trigger: Trigger, why: str) -> Change:
    """Queues the table: creates the next epoch and its round together. The round of a queued CALL has the CALL's round id."""
    deadline = _deadline(ctx, change.record)
    record = _with_waits(ctx, change.record, deadline)
    call = record.call
    queued_round = RoundRecord(
        round_id=call.round_id if call else ctx.new_round_id,
        table_id=record.table_id,
        database_name=record.database_name,
        table_name=record.table_name,
        tiering_epoch=record.highest_epoch + 1,
        coordinator_epoch=ctx.coordinator_epoch,
        trigger=Trigger.CALL if call else trigger,
        state=RoundState.QUEUED,
        pending_time=ctx.now.wall,
        attempt=_attempt(record),
        triggered_by=call.caller if call else None,
        idempotency_key=call.idempotency_key if call else None,
        deadline=deadline,
        queued_late_ms=record.queued_late_ms,
        earlier_rounds_ms=waits.unexplained_ms(ctx.now, record),
        backoff_ms=record.backoff_ms,
        paused_ms=record.paused_ms,
    )
    queued = replace(change, record=record).update(
        tiering_epoch=queued_round.tiering_epoch,
        round=queued_round,
        commit=None,
        call=None,
        pending_since=ctx.now.steady,
        retry_deadline=None,
    )
    return replace(queued, rounds={**queued.rounds, queued_round.round_id: queued_round}).move(ctx, TableState.PENDING, why)


def _with_waits(ctx: Context, record: TableRecord, deadline: datetime | None) -> TableRecord:
    """Returns the record with its waits, as they are when it is queued."""
    record = replace(record, backoff_ms=record.backoff_ms + waits.backoff_ms(ctx.now, record))
    if record.due_time is not None:
        return record
    due = replace(record, due_time=min(deadline or ctx.now.wall, ctx.now.wall))
    return replace(due, queued_late_ms=waits.unexplained_ms(ctx.now, due))


def _deadline(ctx: Context, record: TableRecord) -> datetime | None:
    """Returns when the promise of freshness is broken.

    A round that did not bring the table up to date leaves its earlier deadline in force.
    """
    due, before = ctx.now.to_wall(record.due_deadline), record.round
    if due is None or before is None or before.deadline is None or record.state is not TableState.SCHEDULED:
        return due
    return due if waits.brought_up_to_date(record) else min(due, before.deadline)


def _attempt(record: TableRecord) -> int:
    """Returns the number of consecutive attempts; 1 after a success."""
    before = record.round
    return before.attempt + 1 if before is not None and before.state in (RoundState.FAILED, RoundState.FENCED) else 1


def end_round(
    change: Change, ctx: Context, state: RoundState, *, stats: RoundStats | None = None, error: ErrorInfo | None = None
) -> Change:
    """Ends the round. A grant with an unknown outcome stays in the ledger as UNKNOWN."""
    current = change.record.round
    assert current is not None
    began = change.record.checked_since if current.started_time is not None else None
    outlived = outlives_coordinator(ctx, current)
    ended = change.update_round(
        state=state, finished_time=ctx.now.wall, stats=stats or current.stats, error=error, outlived_coordinator=outlived
    )
    ended = ended.update(
        last_round_duration_ms=milliseconds(ctx.now.steady - (began or ctx.now.steady)),
        heartbeat_time=None,
        heartbeat_deadline=None,
        pending_since=None,
    )
    commit = ended.record.commit
    if ended.record.granted and commit is not None and commit.state is CommitState.PREPARED:
        ended = ended.update_commit(replace(commit, state=CommitState.UNKNOWN))
        ended = ended.update(lake=replace(ended.record.lake, unresolved_epoch=commit.tiering_epoch))
    return ended


def outlives_coordinator(ctx: Context, row: RoundRecord) -> bool:
    """Returns whether an earlier coordinator queued or assigned the open round."""
    return row.outlived_coordinator or row.coordinator_epoch != ctx.coordinator_epoch


NO_WAITS: Mapping[str, Any] = {
    "backoff_ms": 0,
    "paused_ms": 0,
    "waited_for_slot_ms": 0,
    "no_tierer_ms": 0,
    "queued_late_ms": 0,
    "due_time": None,
}
"""The waits of a table that was found up to date: none."""


def return_to_scheduled(change: Change, ctx: Context, why: str, *, checked: bool, at_once: bool = False) -> Change:
    """Moves the table to Tiered and on to Scheduled. `checked`: the lake held all that the log held when the round read the log's ends.

    The next due time counts from that moment, or is now (`at_once`).
    """
    record = change.record
    read_time = record.checked_since or ctx.now.steady
    due = ctx.now.steady if at_once else read_time + timedelta(milliseconds=record.freshness_ms)
    resting = change.update(due_deadline=due)
    if checked:
        resting = resting.update(last_checked_time=record.checked_wall or ctx.now.wall)
        resting = resting.update(**NO_WAITS)
    return resting.move(ctx, TableState.TIERED, why).move(ctx, TableState.SCHEDULED, "waits for its next due time")


def clear_error(change: Change, ctx: Context, stopped: ErrorInfo | None = None) -> Change:
    """Clears what success clears (docs/reference.md). The count of errors stays, and so does `stopped`, the error of a stopped bucket."""
    cleared = change.update(error=stopped, consecutive_failures=0, consecutive_fences=0, retry_deadline=None)
    return cleared.update_errors(error_kinds.resolved(change.record.errors, ctx.now.wall, stopped))


def settle_errors(change: Change, ctx: Context, reported: ErrorInfo | None) -> Change:
    """Clears what success clears after a successful round, except for the error of a bucket that still stops at a record.

    Each round that reports such an error counts it. Only the first report adds an event.
    """
    before, stopped = change.record.error, error_kinds.stopped_after(change.record, reported)
    change = clear_error(change, ctx, stopped)
    if stopped is None or reported is None:
        return change
    change = change.update(error_count=change.record.error_count + 1).update_round(error=stopped)
    change = change.update_errors(error_kinds.with_failure(change.record, stopped))
    if error_kinds.is_same_stop(before, stopped):
        return change
    place = {name: stopped.ids[name] for name in ("bucket", "partition_name", "offset") if name in stopped.ids}
    return change.note(ctx, "BUCKET_STOPPED", stopped.message, Level.ERROR, **place)
