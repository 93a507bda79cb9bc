"""Pure decisions about requests of users: a CALL, a pause, a cancellation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from tiering import errors
from tiering.coordinator.decisions import waits
from tiering.coordinator.decisions.change import Change, Context, enter_pending, heartbeat_deadline
from tiering.coordinator.decisions.records import Level, Pause, QueuedCall, TableRecord, TextOffsets, Trigger
from tiering.coordinator.decisions.upkeep.rounds import give_way
from tiering.counts import counted
from tiering.model.states import TableState


@dataclass(frozen=True)
class CallOutcome:
    """The answer to a CALL: `round_id` brings the lake to the requested offsets. `joined`: that round existed before the call."""

    change: Change
    round_id: str
    joined: bool


def reach_stops(stops: TextOffsets | None, targets: TextOffsets, log_starts: TextOffsets) -> bool:
    """Returns whether a plan reaches every target; False if there is no plan yet.

    A bucket whose log holds no record below its target needs no plan.
    """
    if stops is None:
        return False
    return all(stops.get(bucket, 0) >= target for bucket, target in targets.items() if target > log_starts.get(bucket, 0))


def check_callable(record: TableRecord) -> None:
    """Raises TablePaused if the table is paused."""
    if record.pause is not None:
        why = f": {record.pause.reason}" if record.pause.reason else ""
        raise errors.TablePaused(f"{record.path} was paused by {record.pause.by}{why}", hint="CALL sys.resume_tiering ends the pause.")


def call(
    ctx: Context,
    record: TableRecord,
    targets: TextOffsets,
    log_starts: TextOffsets,
    *,
    recorded: Mapping[str, int] | None = None,
    idempotency_key: str | None = None,
) -> CallOutcome:
    """Handles a CALL that wants the lake at `targets`: joins a round that gets there, or queues the next. Raises TablePaused.

    An upkeep round brings no row to the lake, so it ends for the CALL unless it may have committed. The plan of a running round names only
    the buckets that it reads. For the other buckets, the `recorded` offsets count.
    """
    check_callable(record)
    caller = ctx.principal or "unknown"
    change = give_way(ctx, Change(record), f"CALL by {caller}")
    record = change.record
    current = record.round
    if record.state is TableState.TIERING and current is not None:
        planned = None if current.planned_stops is None else {**(recorded or {}), **current.planned_stops}
        if current.cancelled_by is None and not record.upkeep_runs and reach_stops(planned, targets, log_starts):
            return CallOutcome(change, current.round_id, joined=True)
        if record.call is not None:
            return CallOutcome(change, record.call.round_id, joined=True)
        queued = QueuedCall(ctx.new_round_id, caller, ctx.now.wall, idempotency_key)
        change = change.update(call=queued).note(ctx, "CALL_QUEUED", f"CALL by {caller}: the next round is queued")
        return CallOutcome(change, queued.round_id, joined=False)
    if record.state is TableState.PENDING and current is not None:
        if current.trigger is not Trigger.CALL:
            change = change.update_round(trigger=Trigger.CALL, triggered_by=caller, idempotency_key=idempotency_key)
            change = change.note(ctx, "CALL_QUEUED", f"CALL by {caller}: its table is assigned first")
        return CallOutcome(change, current.round_id, joined=True)
    change = change.update(call=QueuedCall(ctx.new_round_id, caller, ctx.now.wall, idempotency_key))
    return CallOutcome(enter_pending(change, ctx, Trigger.CALL, f"CALL by {caller}"), ctx.new_round_id, joined=False)


def pause(ctx: Context, record: TableRecord, reason: str | None, until: datetime | None) -> Change:
    """Stops assignments of the table. A running round ends normally, an upkeep round at once. `until` is a wall time."""
    deadline = None if until is None else ctx.now.from_wall(until)
    change = give_way(ctx, Change(record), f"its table was paused by {ctx.principal or 'unknown'}")
    change = change.update(pause=Pause(ctx.principal or "unknown", reason, ctx.now.wall, deadline, until))
    return change.note(ctx, "TABLE_PAUSED", reason or "paused", Level.WARN)


def resume(ctx: Context, record: TableRecord, reason: str | None = None) -> Change:
    """Ends a pause; no effect without one."""
    if record.pause is None:
        return Change(record, durable=False)
    ended = waits.pause_ended(ctx.now, record)
    return Change(ended).note(ctx, "TABLE_RESUMED", reason or "resumed")


def cancel(ctx: Context, record: TableRecord, message: str | None = None) -> Change | None:
    """Asks the running round to end without a commit; None if its commit was already granted. A repeat has no effect."""
    if record.running is None or record.granted:
        return None
    if record.running.cancelled_by is not None:
        return Change(record, durable=False)
    change = Change(record).update_round(cancelled_by=ctx.principal or "unknown", cancel_message=message)
    change = change.update(heartbeat_deadline=heartbeat_deadline(ctx, change.record))
    return change.note(ctx, "ROUND_CANCELLED", message or "the round is to end without a commit", Level.WARN)


def reset_errors(ctx: Context, record: TableRecord) -> Change:
    """Resets the count of errors. The displayed error of a failing table stays until a round succeeds."""
    if not record.error_count:
        return Change(record, durable=False)
    return Change(record).update(error_count=0).note(ctx, "ERRORS_RESET", f"{counted(record.error_count, 'error')} counted so far")
