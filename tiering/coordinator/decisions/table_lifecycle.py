"""Pure decisions about a whole table: it appears, is restored after a restart, is redefined, becomes due, or is removed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tiering.coordinator.decisions import backlog, error_kinds, retries, waits
from tiering.coordinator.decisions.assignments import end_session
from tiering.coordinator.decisions.change import NO_WAITS, Change, Context, end_round, enter_pending, heartbeat_deadline
from tiering.coordinator.decisions.lake_acks import record_passed_head
from tiering.coordinator.decisions.moment import Moment
from tiering.coordinator.decisions.records import Pause, TableRecord, Trigger, UpkeepRecord
from tiering.coordinator.decisions.upkeep.rounds import give_way
from tiering.coordinator.decisions.upkeep.schedule import LONGEST_REST_MS, end_kept_turn, is_over
from tiering.coordinator.options import CoordinatorOptions
from tiering.model.rounds import RoundState
from tiering.model.splits import BacklogCause
from tiering.model.states import RESTORED_AS_STORED, TableState
from tiering.model.tables import TableInfo


def fingerprint(info: TableInfo) -> str:
    """Returns a hash of everything in the source table's definition that can cause or repair a tiering failure."""
    parts = (str(info.schema), info.bucket_count, info.bucket_keys, info.primary_key, info.partition_keys, sorted(info.properties.items()))
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def discover(ctx: Context, info: TableInfo, earlier: TableRecord | None = None) -> Change:
    """Creates the record of a new lake-enabled table.

    `earlier` is its record from before its lake was disabled. The new record continues the epochs of that record.
    """
    since = info.lake_enabled_at or info.created_at
    record = TableRecord(
        table_id=info.table_id,
        database_name=info.path.database_name,
        table_name=info.path.table_name,
        table_type=info.table_type.value,
        lake_format=info.lake_format,
        freshness_ms=info.freshness_ms,
        round_bytes=info.round_bytes,
        dead_letters_per_hour=info.dead_letters_per_hour,
        definition=fingerprint(info),
        state=None,
        status_time=ctx.now.wall,
        tiering_epoch=earlier.tiering_epoch if earlier else 0,
        named_epoch=earlier.named_epoch if earlier else 0,
        # A creation time in the future counts as now. Otherwise a wrong clock would delay the first round.
        due_deadline=min(ctx.now.from_wall(since), ctx.now.steady) + timedelta(milliseconds=info.freshness_ms),
        last_tiered_time=earlier.last_tiered_time if earlier else None,
    )
    appeared = Change(record).move(ctx, TableState.NEW, "a lake-enabled table appeared")
    if earlier:
        appeared = backlog.start_anew(appeared.update(lake=earlier.lake), ctx, BacklogCause.ENABLED)
    return appeared.move(ctx, TableState.SCHEDULED, "waits for its first due time")


def restore(ctx: Context, record: TableRecord) -> Change:
    """Restores a stored record when the coordinator starts. A running round gets a fresh service timeout."""
    if record.state is None:
        return Change(within_reach(ctx, record), durable=False)
    assignments = end_session(ctx, record)
    restored = _restore(ctx, assignments.record)
    return restored if not assignments.durable else restored.after(assignments)


def _restore(ctx: Context, record: TableRecord) -> Change:
    record = within_reach(ctx, replace(record, pause=_until_its_wall_time(ctx, record.pause)))
    if record.state in RESTORED_AS_STORED:
        if record.state is not TableState.TIERING:
            return Change(record, durable=False)
        return Change(replace(record, heartbeat_deadline=heartbeat_deadline(ctx, record)), durable=False)
    initialized = Change(replace(record, state=None))
    initialized = initialized.move(ctx, TableState.INITIALIZED, "found in the store after a start of the coordinator")
    return initialized.move(ctx, TableState.SCHEDULED, "waits for its next due time")


def within_reach(ctx: Context, record: TableRecord) -> TableRecord:
    """Returns the record with every deadline limited to the latest value that could be set now.

    A stored deadline can be further away, because the clock was ahead when it was stored, or is behind now. Times that are only displayed
    do not change.
    """

    def at_most(deadline: datetime | None, milliseconds: float) -> datetime | None:
        return None if deadline is None else min(deadline, ctx.now.after(milliseconds))

    before = record.upkeep.before  # an upkeep round is running: the record gets these values back when that round ends
    longest_retry = max(ctx.options.backoff_max_ms, ctx.options.service_timeout_ms)  # the latter: after a reconciliation
    return replace(
        record,
        due_deadline=at_most(record.due_deadline, record.freshness_ms),
        retry_deadline=at_most(record.retry_deadline, longest_retry),
        pending_since=at_most(record.pending_since, 0),
        checked_since=at_most(record.checked_since, 0),
        forget_deadline=at_most(record.forget_deadline, ctx.options.forget_dropped_ms),
        upkeep=replace(
            record.upkeep,
            next_deadline=at_most(record.upkeep.next_deadline, max(LONGEST_REST_MS, ctx.options.upkeep_interval_ms)),
            rest_deadline=at_most(record.upkeep.rest_deadline, LONGEST_REST_MS),
            turn_deadline=at_most(record.upkeep.turn_deadline, record.freshness_ms),
            before=None if before is None else replace(before, checked_since=at_most(before.checked_since, 0)),
        ),
    )


def _until_its_wall_time(ctx: Context, pause: Pause | None) -> Pause | None:
    """Returns the pause with a deadline at the wall time that its caller named, even if the clock was set since then.

    A pause without an end does not change. An end in the far future is not limited: `paused_until` shows it, and CALL sys.resume_tiering
    ends the pause.
    """
    if pause is None or pause.until is None:
        return pause
    return replace(pause, until_deadline=ctx.now.from_wall(pause.until))


def reread(ctx: Context, record: TableRecord, before: TableRecord | None) -> TableRecord:
    """Restores a record that was read again after a write with an unknown outcome.

    Heartbeat times are taken from `before`, the record in memory, because they are not stored.
    """
    if record.pause is not None:
        same = before is not None and before.pause is not None and before.pause.time == record.pause.time
        record = replace(record, pause=before.pause if before is not None and same else _until_its_wall_time(ctx, record.pause))
    record = within_reach(ctx, record)
    if record.running is None:
        return record
    if before is not None and before.running is not None and before.running.round_id == record.running.round_id:
        return replace(record, heartbeat_time=before.heartbeat_time, heartbeat_deadline=before.heartbeat_deadline)
    return replace(record, heartbeat_deadline=heartbeat_deadline(ctx, record))


def is_as_defined(record: TableRecord, info: TableInfo) -> bool:
    """Returns whether the record agrees with the cluster's definition of the source table."""
    recorded = (record.path, record.freshness_ms, record.round_bytes, record.dead_letters_per_hour, record.lake_format, record.definition)
    return recorded == (
        *(info.path, info.freshness_ms, info.round_bytes, info.dead_letters_per_hour, info.lake_format),
        fingerprint(info),
    )


def redefine(ctx: Context, record: TableRecord, info: TableInfo) -> Change | None:
    """Applies a changed definition of the source table; None if it is unchanged. A change resumes a table that failed permanently."""
    if is_as_defined(record, info):
        return None
    definition = fingerprint(info)
    due = record.due_deadline
    if due is not None:
        due += timedelta(milliseconds=info.freshness_ms - record.freshness_ms)
    change = Change(record).update(
        database_name=info.path.database_name,
        table_name=info.path.table_name,
        freshness_ms=info.freshness_ms,
        round_bytes=info.round_bytes,
        dead_letters_per_hour=info.dead_letters_per_hour,
        lake_format=info.lake_format,
        definition=definition,
        due_deadline=due,
    )
    change = change.note(ctx, "TABLE_CHANGED", "the source table changed")
    failed_for_good = record.state is TableState.FAILED and record.retry_deadline is None
    if failed_for_good and definition != record.definition:
        return enter_pending(change, ctx, Trigger.RETRY, "the source table changed")
    return change


def drop(ctx: Context, record: TableRecord) -> Change | None:
    """Removes a table that the cluster no longer lists; None if it is already removed.

    The record is forgotten after `forget_dropped_ms`.
    """
    if record.forget_deadline is not None:
        return None
    removed = Change(record) if record.state is None else _remove(ctx, record, "the table was dropped")
    return removed.update(forget_deadline=ctx.now.after(ctx.options.forget_dropped_ms))


def disable(ctx: Context, record: TableRecord) -> Change | None:
    """Removes a table whose lake was disabled; None if it is already removed.

    The record is kept, so that epochs continue from it if the lake is enabled again.
    """
    if record.state is not None:
        return _remove(ctx, record, "its lake was disabled")
    return None if record.forget_deadline is None else Change(record).update(forget_deadline=None)


def agrees(record: TableRecord, *, listed: bool) -> bool:
    """Returns whether a removed table's record is right about a drop. `listed`: the cluster lists the table."""
    return record.state is not None or listed == (record.forget_deadline is None)


def _remove(ctx: Context, record: TableRecord, why: str) -> Change:
    """Ends the round and removes the table. The epoch and the knowledge about the lake stay in the record.

    The tierer learns this with its next heartbeat, and its commit is refused. The store keeps the table's rounds with their errors, and
    the ledger of its grants, which the sweep needs.
    """
    change = Change(record)
    if record.round is not None and not record.round.state.is_final:
        change = end_round(change, ctx, RoundState.CANCELLED)
    change = change.move(ctx, None, why).update_errors(error_kinds.resolved(record.errors, ctx.now.wall))
    change = change.update(error=None, error_count=0, consecutive_failures=0, consecutive_fences=0, retry_deadline=None, errors=())
    change = change.update(call=None, pause=None, due_deadline=None, pending_since=None, round=None, commit=None, assignment=None)
    return change.update(upkeep=UpkeepRecord())


def may_be_forgotten(now: Moment, record: TableRecord) -> bool:
    """Returns whether the record of a dropped table is no longer needed.

    Late messages are fenced without it. Reports and acks of its rounds name a table that does not exist, and the lake fences a commit that
    was granted. If the cluster lists the table again, its epochs start from zero. Its round ids are new in any case.
    """
    return record.state is None and now.passed(record.forget_deadline)


def due(ctx: Context, record: TableRecord) -> Change | None:
    """Moves the table to Pending if its freshness or its back-off has elapsed, or a CALL waits; None if it is not due."""
    if record.pause is not None and ctx.now.passed(record.pause.until_deadline):
        change = Change(waits.pause_ended(ctx.now, record)).note(ctx, "TABLE_RESUMED", "the pause was limited in time and is over")
        return _due(ctx, change) or change
    return _due(ctx, Change(record))


def _due(ctx: Context, change: Change) -> Change | None:
    record = change.record
    if record.pause is not None:
        return None
    if record.upkeep_runs and not record.granted and is_over(ctx.now, record, needs_turn=ctx.options.assigned_by_cluster):
        resting = give_way(ctx, change, "its table is due")
        return _due(ctx, resting) or resting
    if record.state is TableState.SCHEDULED:
        if record.call is not None:
            return enter_pending(change, ctx, Trigger.CALL, f"CALL by {record.call.caller}")
        if ctx.options.assigned_by_cluster and record.upkeep.turn_deadline is not None:
            return end_kept_turn(ctx, change)
        if ctx.options.assigned_by_cluster:
            return enter_pending(change, ctx, Trigger.SCHEDULE, "the cluster assigned it") if record.has_turn else None
        if ctx.now.passed(waits.begin_deadline(record)):
            return enter_pending(change, ctx, Trigger.SCHEDULE, "its freshness will be over when its round has ended")
    if record.state is TableState.FAILED:
        if record.call is not None:
            return enter_pending(change, ctx, Trigger.CALL, f"CALL by {record.call.caller}")
        may_begin = record.has_turn or not ctx.options.assigned_by_cluster
        if may_begin and ctx.now.passed(record.retry_deadline):
            return enter_pending(change, ctx, Trigger.RETRY, "its back-off is over")
    return None


def may_be_idle(record: TableRecord, now: Moment, options: CoordinatorOptions) -> bool:
    """Returns whether a scheduled table is due only because of its freshness, so that it may have nothing to tier.

    False if a failure, a backlog or an unresolved commit needs a round. False also where the cluster assigns tables: there, only a round
    ends the turn of an assigned table.
    """
    if record.state is not TableState.SCHEDULED or record.pause is not None or record.call is not None or options.assigned_by_cluster:
        return False
    if record.error is not None or record.lake.backlog or record.unresolved_commit:
        return False
    return (record.round is None or waits.brought_up_to_date(record)) and now.passed(waits.begin_deadline(record))


def found_idle(record: TableRecord, looked_at: Moment, head: int | None) -> Change:
    """Leaves a table Scheduled whose lake passed the base check and held all that was in the log at `looked_at`.

    The effect is that of an EMPTY round. `head` is the lake table's head. Later base checks need the history only back to it
    (DESIGN 6, 2h). The store gets each new head, and the first check of each minute.
    """
    passed, checked_before = record_passed_head(record, head), record.last_checked_time
    is_first = checked_before is None or _minute(checked_before) != _minute(looked_at.wall)
    due = looked_at.steady + timedelta(milliseconds=record.freshness_ms)
    rested = replace(passed, durable=is_first or passed.durable).update(due_deadline=due, last_checked_time=looked_at.wall)
    return rested.update(**NO_WAITS)


def _minute(time: datetime) -> datetime:
    return time.replace(second=0, microsecond=0)


@dataclass(frozen=True)
class WaitingRows:
    """Rows in the log that the lake lacks, as last observed.

    `size_bytes` is None if their size is unknown. `since` is when the oldest of them was written; None if unknown.
    """

    records: int
    size_bytes: int | None
    since: datetime | None


def may_change_by_rows(record: TableRecord, now: datetime, options: CoordinatorOptions) -> bool:
    """Returns whether `rows_wait` could change the record. It is cheap, because every observation asks it for every table."""
    rests = record.state is TableState.SCHEDULED or record.upkeep_runs
    if rests and (record.round_bytes is not None or backlog.runs_for_throughput(record)):
        return True
    return backlog.had_outage(record, now, options)


def rows_wait(ctx: Context, record: TableRecord, rows: WaitingRows) -> Change | None:
    """Applies an observation of waiting rows: starts a backlog after an outage, and makes the table due by size. None = no change."""
    if not rows.records:
        return None
    outage = backlog.start_after_outage(ctx, record)
    due_now = due_by_size(ctx, record if outage is None else outage.record, rows)
    return outage if due_now is None else due_now if outage is None else due_now.after(outage)


def due_by_size(ctx: Context, record: TableRecord, rows: WaitingRows) -> Change | None:
    """Moves a scheduled table to Pending once as many bytes wait as its rounds should have; None if it is not due.

    A cancelled round is not followed at once: the table waits for its freshness. In backlog, a table without `table.datalake.round.bytes`
    is due as soon as a round would be too large to run inline. Where the cluster assigns tables, only the cluster decides.
    """
    change = give_way(ctx, Change(record), "enough rows wait for a round of its table") if record.upkeep_runs else Change(record)
    record, enough = change.record, record.round_bytes
    if enough is None and backlog.runs_for_throughput(record):
        enough = ctx.options.inline_round_bytes
    waiting = _estimated_bytes(record, rows)
    if enough is None or waiting is None or waiting < max(enough, 1) or record.state is not TableState.SCHEDULED:
        return None
    if record.pause is not None or ctx.options.assigned_by_cluster or _was_cancelled(record) or _found_nothing_since(record, rows.since):
        return None
    return enter_pending(change, ctx, Trigger.SCHEDULE, f"{waiting} bytes wait, and a round is to have {enough}")


def _estimated_bytes(record: TableRecord, rows: WaitingRows) -> int | None:
    """Returns the bytes that wait. If the cluster does not know them, they are estimated from the size of the table's rows in the lake."""
    lake = record.lake
    if rows.size_bytes is None and lake.records and lake.size_bytes is not None:
        return rows.records * lake.size_bytes // lake.records
    return rows.size_bytes


def _was_cancelled(record: TableRecord) -> bool:
    return record.round is not None and record.round.state is RoundState.CANCELLED


def _found_nothing_since(record: TableRecord, waits_since: datetime | None) -> bool:
    """Returns whether the latest round was EMPTY although these rows existed. The next round would be EMPTY too."""
    if record.round is None or record.round.state is not RoundState.EMPTY or record.last_checked_time is None:
        return False
    return waits_since is None or waits_since <= record.last_checked_time


@dataclass(frozen=True)
class BacklogTurns:
    """How tables in backlog wait for a slot.

    `allowed`: they may get one. `apart`: they count as past their deadline only after they waited for their freshness. Without `apart` they
    would always overtake tables that are not in backlog, because a table in backlog is always past its deadline.
    """

    allowed: bool = True
    apart: bool = True


def pick(waiting: Iterable[TableRecord], now: Moment, turns: BacklogTurns = BacklogTurns()) -> TableRecord | None:  # frozen
    """Returns the table that the next request gets.

    The order is: tables that a CALL waits for, tables past their deadline, then the longest wait. A table that a CALL waits for may always
    get a slot. A table that fails repeatedly is always past its deadline, so it counts as past it only after it waited for its freshness.
    """
    pickable = waiting
    if not turns.allowed:
        pickable = (record for record in waiting if _called(record) or not backlog.runs_for_throughput(record))
    return min(pickable, key=lambda record: _order(record, now, turns), default=None)


def queued_before(waiting: Iterable[TableRecord], record: TableRecord, now: Moment, turns: BacklogTurns) -> int:
    """Returns how many of the waiting tables get a tierer before `record`."""
    own = _order(record, now, turns)
    return sum(1 for other in waiting if _order(other, now, turns) < own)


def _called(record: TableRecord) -> bool:
    return record.round is not None and record.round.trigger is Trigger.CALL


QueueKind = tuple[bool, bool, bool]
"""Three flags: a CALL waits for the table, its round would be one of a backlog, it would be a retry. A request may refuse a kind."""


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """The position of a waiting table in the queue. Within one kind, tables past their deadline come first, then the longest wait.

    `deadline` None: the table is never past it.
    """

    kind: QueueKind
    since: datetime
    deadline: datetime | None


def queue_place(record: TableRecord, *, backlog_apart: bool) -> QueuePlace:
    """Returns the queue position of a table that waits. `backlog_apart` is `BacklogTurns.apart`."""
    since = record.pending_since or record.status_time
    deadline = _queue_deadline(record, since, backlog_apart=backlog_apart)
    return QueuePlace((_called(record), backlog.runs_for_throughput(record), retries.is_retry(record)), since, deadline)


def _queue_deadline(record: TableRecord, since: datetime, *, backlog_apart: bool) -> datetime | None:
    if (backlog_apart and backlog.runs_for_throughput(record)) or retries.fails_repeatedly(record):
        return since + timedelta(milliseconds=record.freshness_ms)
    return record.due_deadline


def _order(record: TableRecord, now: Moment, turns: BacklogTurns) -> tuple[int, datetime, int]:
    since = record.pending_since or record.status_time
    deadline = _queue_deadline(record, since, backlog_apart=turns.apart)
    rank = 0 if _called(record) else 1 if now.passed(deadline) else 2
    return rank, since, record.table_id
