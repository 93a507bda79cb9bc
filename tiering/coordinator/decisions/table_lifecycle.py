"""Pure decisions about a table as a whole: it appears, comes back after a restart, changes, is due, goes away."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from tiering.coordinator.decisions import error_kinds, retries, waits
from tiering.coordinator.decisions.assignments import end_session
from tiering.coordinator.decisions.change import Change, Context, end_round, enter_pending, heartbeat_deadline
from tiering.coordinator.decisions.moment import Moment
from tiering.coordinator.decisions.records import Pause, TableRecord, Trigger
from tiering.model.rounds import RoundState
from tiering.model.states import RESTORED_AS_STORED, TableState
from tiering.model.tables import TableInfo


def fingerprint(info: TableInfo) -> str:
    """A hash that changes with anything about the source table that can mend, or break, its tiering."""
    parts = (str(info.schema), info.bucket_count, info.bucket_keys, info.primary_key, info.partition_keys, sorted(info.properties.items()))
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def discover(ctx: Context, info: TableInfo, earlier: TableRecord | None = None) -> Change:
    """The record of a lake-enabled table that appeared. `earlier`: its record of before its lake was disabled; epochs go on."""
    since = info.lake_enabled_at or info.created_at
    record = TableRecord(
        table_id=info.table_id,
        database_name=info.path.database_name,
        table_name=info.path.table_name,
        table_type=info.table_type.value,
        lake_format=info.lake_format,
        freshness_ms=info.freshness_ms,
        definition=fingerprint(info),
        state=None,
        status_time=ctx.now.wall,
        tiering_epoch=earlier.tiering_epoch if earlier else 0,
        # A table that seems to be made in the future is due as one made now.
        due_deadline=min(ctx.now.from_wall(since), ctx.now.steady) + timedelta(milliseconds=info.freshness_ms),
        last_tiered_time=earlier.last_tiered_time if earlier else None,
    )
    if earlier:
        record = replace(record, lake=earlier.lake)
    appeared = Change(record).move(ctx, TableState.NEW, "a lake-enabled table appeared")
    return appeared.move(ctx, TableState.SCHEDULED, "waits for its first due time")


def restore(ctx: Context, record: TableRecord) -> Change:
    """A record of the store when its coordinator starts. A round that is under way gets a fresh service timeout."""
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
    met = Change(replace(record, state=None))
    met = met.move(ctx, TableState.INITIALIZED, "met in the store after a start of the coordinator")
    return met.move(ctx, TableState.SCHEDULED, "waits for its next due time")


def within_reach(ctx: Context, record: TableRecord) -> TableRecord:
    """The record with no deadline further away than one that is set now: the clock was ahead when it was stored, or is behind now.

    Times that are only shown stay as they were written.
    """

    def at_most(deadline: datetime | None, milliseconds: float) -> datetime | None:
        return None if deadline is None else min(deadline, ctx.now.after(milliseconds))

    longest_retry = max(ctx.options.backoff_max_ms, ctx.options.service_timeout_ms)  # the latter: after a reconciliation
    return replace(
        record,
        due_deadline=at_most(record.due_deadline, record.freshness_ms),
        retry_deadline=at_most(record.retry_deadline, longest_retry),
        pending_since=at_most(record.pending_since, 0),
        checked_since=at_most(record.checked_since, 0),
        forget_deadline=at_most(record.forget_deadline, ctx.options.forget_dropped_ms),
    )


def _until_its_wall_time(ctx: Context, pause: Pause | None) -> Pause | None:
    """The pause, ending at the wall time that its caller named, however the clock was set since; one without an end stays so.

    A far end is not cut: it is shown as `paused_until`, and CALL sys.resume_tiering ends the pause.
    """
    if pause is None or pause.until is None:
        return pause
    return replace(pause, until_deadline=ctx.now.from_wall(pause.until))


def reread(ctx: Context, record: TableRecord, before: TableRecord | None) -> TableRecord:
    """A stored record after a write with an unknown outcome: heartbeats are taken from memory, for they are not stored."""
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
    """Whether the record says of the source table what the cluster says."""
    known = (record.database_name, record.table_name, record.freshness_ms, record.lake_format, record.definition)
    return known == (info.path.database_name, info.path.table_name, info.freshness_ms, info.lake_format, fingerprint(info))


def redefine(ctx: Context, record: TableRecord, info: TableInfo) -> Change | None:
    """Takes over how the source table is defined now; None = as it was. A change resumes a table that failed for good."""
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
    """Removes a table that the cluster does not list any more; None = that is known. Its record is forgotten after `forget_dropped_ms`."""
    if record.forget_deadline is not None:
        return None
    removed = Change(record) if record.state is None else _remove(ctx, record, "the table was dropped")
    return removed.update(forget_deadline=ctx.now.after(ctx.options.forget_dropped_ms))


def disable(ctx: Context, record: TableRecord) -> Change | None:
    """Removes a table whose lake was disabled; None = that is known. Its record is kept: epochs go on from there if it gets one again."""
    if record.state is not None:
        return _remove(ctx, record, "its lake was disabled")
    return None if record.forget_deadline is None else Change(record).update(forget_deadline=None)


def agrees(record: TableRecord, *, listed: bool) -> bool:
    """Whether the record of a removed table is right in whether the table was dropped; `listed`: the cluster has the table."""
    return record.state is not None or listed == (record.forget_deadline is None)


def _remove(ctx: Context, record: TableRecord, why: str) -> Change:
    """Ends the round, of which the tierer learns with its next heartbeat, and whose commit is refused. Epoch and lake stay.

    Its rounds, with their errors, are history in the store, and so is the ledger of its grants, by which the sweep goes.
    """
    change = Change(record)
    if record.round is not None and not record.round.state.is_final:
        change = end_round(change, ctx, RoundState.CANCELLED)
    change = change.move(ctx, None, why).update_errors(error_kinds.resolved(record.errors, ctx.now.wall))
    change = change.update(error=None, error_count=0, consecutive_failures=0, retry_deadline=None, call=None, pause=None, errors=())
    return change.update(due_deadline=None, pending_since=None, round=None, commit=None, assignment=None)


def may_be_forgotten(now: Moment, record: TableRecord) -> bool:
    """Whether nothing needs the record of a dropped table any more.

    What could still arrive is fenced without it: reports and acks of its rounds name a table that is not there, and a commit that
    was granted is fenced by the lake. Should the cluster list the table once more, its epochs begin anew, and its round ids
    are new in any case.
    """
    return record.state is None and now.passed(record.forget_deadline)


def due(ctx: Context, record: TableRecord) -> Change | None:
    """Moves the table to Pending if its freshness or its back-off is over or a CALL waits; None = not yet."""
    if record.pause is not None and ctx.now.passed(record.pause.until_deadline):
        change = Change(waits.pause_ended(ctx.now, record)).note(ctx, "TABLE_RESUMED", "the pause was limited in time and is over")
        return _due(ctx, change) or change
    return _due(ctx, Change(record))


def _due(ctx: Context, change: Change) -> Change | None:
    record = change.record
    if record.pause is not None:
        return None
    if record.state is TableState.SCHEDULED:
        if record.call is not None:
            return enter_pending(change, ctx, Trigger.CALL, f"CALL by {record.call.caller}")
        if ctx.options.assigned_by_cluster:
            return enter_pending(change, ctx, Trigger.SCHEDULE, "the cluster assigned it") if record.has_turn else None
        if ctx.now.passed(record.due_deadline):
            return enter_pending(change, ctx, Trigger.SCHEDULE, "its freshness has passed")
    if record.state is TableState.FAILED:
        if record.call is not None:
            return enter_pending(change, ctx, Trigger.CALL, f"CALL by {record.call.caller}")
        may_begin = record.has_turn or not ctx.options.assigned_by_cluster
        if may_begin and ctx.now.passed(record.retry_deadline):
            return enter_pending(change, ctx, Trigger.RETRY, "its back-off is over")
    return None


def pick(waiting: Iterable[TableRecord], now: Moment) -> TableRecord | None:
    """The table that the next request gets: a CALL waits for it, else it is past its deadline, else it has waited longest.

    One that fails again and again is always past its deadline: it counts as past it once it has waited for its freshness.
    """
    return min(waiting, key=lambda record: _order(record, now), default=None)


def queued_before(waiting: Iterable[TableRecord], record: TableRecord, now: Moment) -> int:
    """How many of the tables that wait for a tierer get one before `record`."""
    own = _order(record, now)
    return sum(1 for other in waiting if _order(other, now) < own)


def _order(record: TableRecord, now: Moment) -> tuple[int, float, int]:
    called = record.round is not None and record.round.trigger is Trigger.CALL
    since, deadline = record.pending_since or now.steady, record.due_deadline
    if retries.fails_again_and_again(record):
        deadline = since + timedelta(milliseconds=record.freshness_ms)
    rank = 0 if called else 1 if now.passed(deadline) else 2
    return rank, since.timestamp(), record.table_id
