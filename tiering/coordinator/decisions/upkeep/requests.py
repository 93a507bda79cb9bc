"""Pure decisions about callers' requests for upkeep, and about pauses of upkeep."""

from __future__ import annotations

from dataclasses import replace

from tiering import errors
from tiering.coordinator.decisions.change import Change, Context
from tiering.coordinator.decisions.operator_requests import CallOutcome, check_callable
from tiering.coordinator.decisions.records import (
    EndedUpkeep,
    ErrorInfo,
    Level,
    RoundRecord,
    TableRecord,
    UpkeepOutcome,
    UpkeepPause,
    UpkeepRequest,
)
from tiering.coordinator.decisions.upkeep import schedule
from tiering.coordinator.decisions.upkeep.outcomes import end_request
from tiering.model.upkeep import UPKEEP_ROUND_BYTES, UpkeepOrder

MAX_REQUESTS = 20
"""Upper bound of waiting requests of one table. Only a program in a loop sends more."""


def request(ctx: Context, record: TableRecord, order: UpkeepOrder, procedure: str, idempotency_key: str | None = None) -> CallOutcome:
    """Handles a caller's request: joins an equal request that waits, or queues a new one. `CallOutcome.round_id` is the request's id.

    Raises TablePaused if the table or its upkeep is paused, InvalidArgument if the table failed permanently, and ServiceBusy if too many
    requests wait.
    """
    check_may_request(record)
    order = replace(order, budget_bytes=UPKEEP_ROUND_BYTES)  # a full rewrite takes several rounds, and skips what its rounds wrote
    waiting = next((queued for queued in record.upkeep.requests if queued.order == order), None)
    if waiting is not None:
        return CallOutcome(Change(record), waiting.request_id, joined=True)
    if len(record.upkeep.requests) >= MAX_REQUESTS:
        raise errors.ServiceBusy(f"{MAX_REQUESTS} requests for upkeep of {record.path} wait already", hint="CALL again when they are done.")
    caller = ctx.principal or "unknown"
    queued = UpkeepRequest(ctx.new_round_id, order, procedure, caller, ctx.now.wall, idempotency_key)
    change = Change(record).update(upkeep=replace(record.upkeep, requests=(*record.upkeep.requests, queued)))
    change = change.note(ctx, "UPKEEP_REQUESTED", f"{procedure} by {caller}", request_id=queued.request_id)
    return CallOutcome(change, queued.request_id, joined=False)


def check_may_request(record: TableRecord) -> None:
    """Raises TablePaused if the table or its upkeep is paused, and InvalidArgument if the table failed permanently."""
    check_callable(record)
    pause = record.upkeep.pause
    if pause is not None:
        why = f": {pause.reason}" if pause.reason else ""
        raise errors.TablePaused(f"upkeep of {record.path} was paused by {pause.by}{why}", hint="CALL sys.resume_upkeep ends the pause.")
    if schedule.is_parked(record) and record.error is not None:
        raise errors.InvalidArgument(
            f"{record.path} failed permanently ({record.error.error_class}): it gets no upkeep until it is tiered again",
            hint="sys.lake_tiering_status shows the error, and its column next_action what helps.",
        )


def request_state(record: TableRecord, request_id: str) -> UpkeepRequest | RoundRecord | EndedUpkeep | None:
    """Returns the waiting request, its running round, or its end; None if it is unknown or ended long ago."""
    running = record.running
    if running is not None and running.upkeep_request == request_id:
        return running
    ended = next((ended for ended in reversed(record.upkeep.ended) if ended.request_id == request_id), None)
    return record.upkeep.request(request_id) or ended


def pause_upkeep(ctx: Context, record: TableRecord, reason: str | None) -> Change:
    """Pauses upkeep: no upkeep round begins, and waiting requests end.

    A running upkeep round ends normally. Later tiering rounds neither merge files nor expire snapshots.
    """
    by = ctx.principal or "unknown"
    text = f"upkeep of {record.path} was paused by {by}" + (f": {reason}" if reason else "")
    error = ErrorInfo(errors.Cancelled.__name__, text, None, "", retryable=True, time=ctx.now.wall)
    running = record.running.upkeep_request if record.running is not None else None
    upkeep = replace(record.upkeep, pause=UpkeepPause(by, reason, ctx.now.wall))
    for waiting in upkeep.requests:
        if waiting.request_id != running:
            upkeep = end_request(upkeep, waiting, EndedUpkeep(waiting.request_id, UpkeepOutcome.CANCELLED, ctx.now.wall, error=error))
    return Change(record).update(upkeep=upkeep).note(ctx, "UPKEEP_PAUSED", reason or "paused", Level.WARN)


def resume_upkeep(ctx: Context, record: TableRecord) -> Change:
    """Ends a pause of upkeep and resets the back-off after failures; no effect without a pause."""
    if record.upkeep.pause is None:
        return Change(record, durable=False)
    upkeep = replace(record.upkeep, pause=None, failures=0, idle_rounds=0, next_deadline=None, rest_deadline=None)
    return Change(record).update(upkeep=upkeep).note(ctx, "UPKEEP_RESUMED", "resumed")
