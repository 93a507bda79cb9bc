"""Pure decisions about one upkeep round: how it begins, and the ways in which it ends.

An upkeep round is fenced like any round: it has its own epoch and at most one commit. It does not change the record of the table's tiering:
afterwards the latest round, freshness deadline, waits and errors are as before. Its result is in `TableRecord.upkeep`.

A grant with an unknown outcome follows the usual rules. The ledger has it as UNKNOWN, and a tiering round follows at once, whose base check
finds the outcome.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tiering import errors
from tiering.coordinator.decisions.change import Change, Context, cancel_text, end_round, enter_pending
from tiering.coordinator.decisions.records import (
    AssignmentEnd,
    BeforeUpkeep,
    ErrorInfo,
    Level,
    RoundRecord,
    TableRecord,
    Trigger,
    UpkeepOutcome,
    UpkeepRecord,
    UpkeepRequest,
)
from tiering.coordinator.decisions.upkeep import schedule
from tiering.coordinator.decisions.upkeep.outcomes import after_round
from tiering.model.rounds import RoundMode, RoundState, RoundStats
from tiering.model.states import TableState
from tiering.model.upkeep import UpkeepOrder

COORDINATOR = "lakeward"
"""The name in `cancelled_by` of an upkeep round that gave way to tiering."""


@dataclass(frozen=True)
class UpkeepWork:
    """The work of a table's next upkeep round, and its reason. `request` is the caller's request; None if the coordinator wants it."""

    order: UpkeepOrder
    reason: str
    request: UpkeepRequest | None = None


def begin(ctx: Context, record: TableRecord, work: UpkeepWork, tierer_id: str, incarnation: str | None = None) -> Change:
    """Scheduled -> Pending -> Tiering: the coordinator answers a tierer's request that no tiering round waits for.

    An upkeep round is never visible in a queue, because it is created for a free slot. The caller has checked that it may begin
    (`schedule`).
    """
    upkeep_round = _new_round(ctx, record, work, tierer_id, incarnation)
    before = BeforeUpkeep(record.round, record.commit, record.checked_since, record.checked_wall, record.last_round_duration_ms)
    change = Change(record).update(
        tiering_epoch=upkeep_round.tiering_epoch,
        round=upkeep_round,
        commit=None,
        checked_since=ctx.now.steady,
        checked_wall=ctx.now.wall,
        heartbeat_time=ctx.now.wall,
        heartbeat_deadline=ctx.now.after(ctx.options.service_timeout_ms),
        upkeep=replace(record.upkeep, before=before),
    )
    change = replace(change, rounds={**change.rounds, upkeep_round.round_id: upkeep_round})
    queued = change.move(ctx, TableState.PENDING, f"upkeep: {work.reason}")
    return queued.move(ctx, TableState.TIERING, f"assigned to the tierer {tierer_id} for upkeep")


def _new_round(ctx: Context, record: TableRecord, work: UpkeepWork, tierer_id: str, incarnation: str | None) -> RoundRecord:
    """Returns the running round. The first round of a request has the request's id."""
    request = work.request
    return RoundRecord(
        round_id=request.request_id if request is not None and not request.rounds else ctx.new_round_id,
        table_id=record.table_id,
        database_name=record.database_name,
        table_name=record.table_name,
        tiering_epoch=record.highest_epoch + 1,
        coordinator_epoch=ctx.coordinator_epoch,
        trigger=Trigger.UPKEEP,
        state=RoundState.RUNNING,
        pending_time=ctx.now.wall,
        triggered_by=None if request is None else request.caller,
        idempotency_key=None if request is None else request.idempotency_key,
        tierer_id=tierer_id,
        incarnation=incarnation,
        started_time=ctx.now.wall,
        definition=record.definition,
        completion_target=ctx.now.wall + schedule.longest(ctx.now, record, ctx.options),
        mode=RoundMode.UPKEEP,
        upkeep=schedule.within_budget(ctx.now, record, work.order),
        upkeep_reason=work.reason,
        upkeep_request=None if request is None else request.request_id,
    )


def finish(ctx: Context, record: TableRecord, stats: RoundStats | None) -> Change:
    """Ends an upkeep round that its tierer reported as finished.

    If its granted commit was never acked, the next base check finds the outcome.
    """
    current = record.round
    assert current is not None
    if _is_unproved(record):
        change = Change(record).note(ctx, "COMMIT_UNRESOLVED", "finished without an ack of its granted commit", Level.WARN)
        return _end(ctx, change, RoundState.SUCCEEDED, UpkeepOutcome.SUCCEEDED, stats=stats)
    upkeep_stats = None if stats is None else stats.upkeep
    state, outcome = RoundState.EMPTY, UpkeepOutcome.EMPTY
    if record.granted or current.acked:
        state, outcome = RoundState.SUCCEEDED, UpkeepOutcome.SUCCEEDED
    if upkeep_stats is not None and upkeep_stats.dropped and not upkeep_stats.files_after:
        outcome = UpkeepOutcome.DROPPED
    return _end(ctx, Change(record), state, outcome, stats=stats)


def fail(
    ctx: Context, record: TableRecord, error: ErrorInfo, state: RoundState = RoundState.FAILED, stats: RoundStats | None = None
) -> Change:
    """Ends an upkeep round that failed, was fenced (`state`), or lost its tierer. The health of its table is unchanged.

    If its tierer was stopped, the upkeep is cancelled, and begins again with another tierer.
    """
    if error.error_class == errors.TiererStopped.__name__:
        return _end(ctx, Change(record), state, UpkeepOutcome.CANCELLED, stats=stats, error=error)
    return _end(ctx, Change(record), state, UpkeepOutcome.FAILED, stats=stats, error=error)


def end_cancelled(ctx: Context, record: TableRecord, stats: RoundStats | None = None) -> Change:
    """Ends an upkeep round that a user cancelled, together with the request that it served."""
    current = record.round
    assert current is not None
    error = ErrorInfo(errors.Cancelled.__name__, cancel_text(current), None, "", retryable=True, time=ctx.now.wall)
    return _end(ctx, Change(record), RoundState.CANCELLED, UpkeepOutcome.CANCELLED, stats=stats, error=error)


def give_way(ctx: Context, change: Change, why: str) -> Change:
    """Ends an upkeep round without a grant at once, so that the table can be tiered. Its epoch is fenced.

    The tierer learns this with its next heartbeat; until then one of its slots works for nothing. A granted round continues.
    """
    record = change.record
    if not record.upkeep_runs or record.granted:
        return change
    change = change.update_round(cancelled_by=COORDINATOR, cancel_message=why)
    assert change.record.round is not None
    error = ErrorInfo(errors.Cancelled.__name__, cancel_text(change.record.round), None, "", retryable=True, time=ctx.now.wall)
    return _end(ctx, change, RoundState.CANCELLED, UpkeepOutcome.CANCELLED, error=error, gave_way=True)


def _is_unproved(record: TableRecord) -> bool:
    return record.granted and record.round is not None and not record.round.acked


def _end(
    ctx: Context,
    change: Change,
    state: RoundState,
    outcome: UpkeepOutcome,
    *,
    stats: RoundStats | None = None,
    error: ErrorInfo | None = None,
    gave_way: bool = False,
) -> Change:
    """Ends the round and restores the record's tiering fields. Also does what follows at once."""
    ended = end_round(change, ctx, state, stats=stats, error=error)
    upkeep_round = ended.record.round
    assert upkeep_round is not None
    text = f"upkeep {outcome}" if error is None else f"upkeep {outcome}: {error.message}"
    if outcome in (UpkeepOutcome.FAILED, UpkeepOutcome.DROPPED):
        ended = ended.note(ctx, f"UPKEEP_{outcome}", text, Level.WARN)
    ended = ended.move(ctx, TableState.TIERED, text).move(ctx, TableState.SCHEDULED, "waits for its next due time")
    before, is_unresolved = ended.record.upkeep.before, _is_unproved(ended.record)
    granted = ended.record.granted
    upkeep = after_round(ctx, ended.record.upkeep, upkeep_round, outcome, may_have_committed=granted, gave_way=gave_way)
    if before is not None:
        ended = ended.update(
            round=before.round,
            commit=before.commit,
            checked_since=before.checked_since,
            checked_wall=before.checked_wall,
            last_round_duration_ms=before.last_round_duration_ms,
        )
    return _go_on(ended.update(upkeep=upkeep), ctx, is_unresolved=is_unresolved)


def _go_on(change: Change, ctx: Context, *, is_unresolved: bool) -> Change:
    """Queues a round for a waiting CALL or an unresolved commit, or else ends the table's turn."""
    record = change.record
    if record.pause is None and record.call is not None:
        return enter_pending(change, ctx, Trigger.CALL, f"CALL by {record.call.caller}")
    may_begin = record.pause is None and (record.has_turn or not ctx.options.assigned_by_cluster)
    if is_unresolved and may_begin:
        return enter_pending(change, ctx, Trigger.RETRY, "it is not known yet whether the commit of its upkeep round is in the lake")
    if record.has_turn and record.assignment is not None and not record.unresolved_commit:
        return change.update(assignment=replace(record.assignment, end=AssignmentEnd.FINISHED))
    return change


def note_inside_round(ctx: Context, record: TableRecord, stats: RoundStats | None) -> UpkeepRecord:
    """Returns the upkeep record after a successful tiering round, which may have done upkeep, too."""
    current, upkeep_stats = record.round, None if stats is None else stats.upkeep
    if current is None or upkeep_stats is None or not (upkeep_stats.files_before or upkeep_stats.snapshots_expired):
        return record.upkeep
    return replace(
        record.upkeep,
        last_time=ctx.now.wall,
        last_round_id=current.round_id,
        last_outcome=UpkeepOutcome.SUCCEEDED,
        last_error=None,
    )
