"""Pure decisions about one round: assigned, renewed, planned, granted its commit, and all the ways in which it ends.

A report is about the running round only if it names the round's epoch and id. Any other report is about an older round: it is either a
harmless repeat, or fenced.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tiering import errors
from tiering.coordinator.decisions import backlog, error_kinds, fences, waits
from tiering.coordinator.decisions.change import (
    Change,
    Context,
    cancel_text,
    end_round,
    enter_pending,
    outlives_coordinator,
    return_to_scheduled,
    settle_errors,
)
from tiering.coordinator.decisions.fences import Fence
from tiering.coordinator.decisions.records import (
    AssignmentEnd,
    CommitState,
    ErrorInfo,
    LakeCommitRecord,
    Level,
    TableRecord,
    TextOffsets,
    Trigger,
)
from tiering.coordinator.decisions.retries import backoff_ms
from tiering.coordinator.decisions.upkeep import rounds as upkeep
from tiering.coordinator.decisions.upkeep.schedule import keep_turn
from tiering.model.rounds import RoundMode, RoundProgress, RoundState, RoundStats
from tiering.model.states import TableState

STATE_LOST = "STATE_LOST"
"""The event type for a state store that knows less than the lake or a tierer."""

MOST_ROUNDS = 10**12
"""Highest accepted epoch: one round per millisecond for thirty years. Epochs are 64-bit numbers."""


@dataclass(frozen=True)
class RoundRef:
    """Identifies a round, with the numbers that fence it. `round_id` is empty if the message does not name it.

    `incarnation` is the process that sent the message; None if unknown.
    """

    table_id: int
    coordinator_epoch: int
    tiering_epoch: int
    round_id: str
    tierer_id: str = ""
    incarnation: str | None = None


@dataclass(frozen=True)
class Finished:
    """A round that ended well. `empty`: there was nothing to do. `forced`: it stopped early at its maximum duration.

    `stopped` is the error of a bucket that stops at a record, while all other buckets are committed.
    """

    stats: RoundStats | None = None
    empty: bool = False
    forced: bool = False
    stopped: ErrorInfo | None = None


@dataclass(frozen=True)
class Failure:
    """A round that failed. `fenced`: its tierer found another owner of the table. `stopped`: the tierer is shutting down."""

    error: ErrorInfo
    fenced: bool = False
    stopped: bool = False
    stats: RoundStats | None = None
    fence_hint: str = ""
    """The hint if rounds are repeatedly fenced for this reason."""


@dataclass(frozen=True)
class Plan:
    """The plan of a round (RecordPlan). `lake_table_uuid` was checked against the lake."""

    lake_table_uuid: str | None
    stops: TextOffsets
    splits: int


@dataclass(frozen=True)
class GrantRequest:
    """The commit that a round asks for (BeginLakeCommit)."""

    base_round_id: str | None
    base_tag: int | None
    offsets: TextOffsets
    records: int
    files: int


def is_current(record: TableRecord | None, ref: RoundRef) -> bool:
    """Returns whether `ref` is the running round, reported by its process. An older coordinator epoch is accepted (DESIGN 5)."""
    if record is None or record.running is None or record.tiering_epoch != ref.tiering_epoch:
        return False
    if record.running.incarnation not in (None, ref.incarnation):
        return False
    return not ref.round_id or ref.round_id == record.running.round_id


def fenced_error(record: TableRecord | None, ref: RoundRef) -> errors.LakewardError:
    """Returns the error that tells a tierer why `ref` is not the running round."""
    if record is None or record.state is None:
        return errors.UnknownTable(f"no lake table has the id {ref.table_id}: it was dropped, or its lake disabled", table_id=ref.table_id)
    latest = f"epoch {record.tiering_epoch}, {record.state}"
    return errors.Fenced(
        f"round {ref.round_id or '?'} with epoch {ref.tiering_epoch} does not own {record.path} any more ({latest})",
        hint="Nothing to do: the round that owns the table now continues.",
        table_id=ref.table_id,
        round_id=ref.round_id,
    )


@dataclass(frozen=True)
class QueueFacts:
    """Facts about a queued table's wait. `waiting_since`: no row that the lake lacks is older; None if unknown.

    `no_tierer_ms` is the part of its time in the queue during which no tierer was connected.
    """

    waiting_since: datetime | None = None
    no_tierer_ms: int = 0


def assign(
    ctx: Context,
    record: TableRecord,
    tierer_id: str,
    incarnation: str | None = None,
    *,
    leaves_slots: bool = True,
    facts: QueueFacts = QueueFacts(),
) -> Change:
    """Pending -> Tiering: the coordinator answers a tierer's request with the table.

    `leaves_slots`: a long round of a backlog would not keep another table from its freshness.
    """
    waited_ms = waits.waited_for_slot_ms(ctx.now, record)
    no_tierer_ms = min(record.no_tierer_ms + facts.no_tierer_ms, waited_ms)
    deadline, unpromised_ms = waits.promise(ctx.now, record, facts.waiting_since)
    change = Change(record).update_round(
        state=RoundState.RUNNING,
        tierer_id=tierer_id,
        incarnation=incarnation,
        started_time=ctx.now.wall,
        definition=record.definition,
        coordinator_epoch=ctx.coordinator_epoch,
        outlived_coordinator=record.round is not None and outlives_coordinator(ctx, record.round),
        completion_target=ctx.now.wall + timedelta(milliseconds=_longest_ms(ctx, record, leaves_slots=leaves_slots)),
        waited_for_slot_ms=waited_ms,
        paused_ms=record.paused_ms,
        no_tierer_ms=no_tierer_ms,
        deadline=deadline,
        unpromised_ms=unpromised_ms,
    )
    read_times = {"checked_since": ctx.now.steady, "checked_wall": ctx.now.wall}
    change = change.update(**read_times, waited_for_slot_ms=waited_ms, no_tierer_ms=no_tierer_ms)
    return _beat(change, ctx).move(ctx, TableState.TIERING, f"assigned to the tierer {tierer_id}")


def _longest_ms(ctx: Context, record: TableRecord, *, leaves_slots: bool) -> int:
    """Returns how long the round may take. A round of a backlog may take many times the freshness, because that costs less per row.

    After a failure the round gets only the normal time, so that a round that hangs keeps no slot for longer.
    """
    factor = 1
    if (
        leaves_slots
        and not record.consecutive_failures
        and (backlog.runs_for_throughput(record) or backlog.had_outage(record, ctx.now.wall, ctx.options))
    ):
        factor = ctx.options.backlog_duration_factor
    return max(factor * record.freshness_ms, ctx.options.min_round_duration_ms)


def renew(ctx: Context, record: TableRecord) -> Change:
    """Renews the service timeout, because the tierer still runs the round. The deadline of a cancelled round is not extended."""
    if record.round is not None and record.round.cancelled_by is not None:
        return replace(Change(record), durable=False).update(heartbeat_time=ctx.now.wall)
    return _beat(replace(Change(record), durable=False), ctx)


def _beat(change: Change, ctx: Context) -> Change:
    return change.update(heartbeat_time=ctx.now.wall, heartbeat_deadline=ctx.now.after(ctx.options.service_timeout_ms))


def plan(ctx: Context, record: TableRecord, planned: Plan) -> Change:
    """Records the plan of the round. The freshness counts from the assignment, just before the round read the ends of the log."""
    change = Change(record).update(lake=replace(record.lake, table_uuid=planned.lake_table_uuid or record.lake.table_uuid))
    mode = RoundMode.UPKEEP
    if not record.upkeep_runs:
        change = backlog.begin_planned(change, ctx, planned.stops)
        mode = RoundMode.BACKLOG if change.record.lake.backlog else RoundMode.LIVE
    change = change.update_round(planned_stops=planned.stops, splits_total=planned.splits, splits_done=0, mode=mode)
    return _beat(change, ctx)


def progress(record: TableRecord, reported: RoundProgress) -> Change | None:
    """Records the round's progress, which is never stored. None if it was further already: reports can overtake each other."""
    before = record.round.progress if record.round else None
    if before is not None and (reported.fraction or 0.0) < (before.fraction or 0.0):
        return None
    change = Change(record).update_round(
        splits_done=reported.splits_done,
        splits_total=reported.splits_total or (before.splits_total if before else None),
        records_done=reported.records_done,
        records_total=reported.records_total or None,
    )
    return replace(change, rounds={}, durable=False)


def grant(ctx: Context, record: TableRecord, request: GrantRequest) -> Change:
    """Grants the round its commit (the fence): only this round may send it. A repeat of the same request is granted again.

    A round gets one grant. The sweep spares its files because of the tiering commit that the grant is based on, so no later request may
    change that. Raises Fenced for another commit, and for a cancelled round. The caller has checked that this is the running round.
    """
    current = record.round
    assert current is not None
    if current.cancelled_by is not None:
        raise errors.Fenced(f"round {current.round_id} was cancelled by {current.cancelled_by}", hint="", round_id=current.round_id)
    first = record.commit if record.granted else None
    row = LakeCommitRecord(
        round_id=current.round_id,
        table_id=record.table_id,
        database_name=record.database_name,
        table_name=record.table_name,
        tiering_epoch=record.tiering_epoch,
        state=CommitState.PREPARED,
        prepared_at=first.prepared_at if first else ctx.now.wall,
        base_round_id=request.base_round_id,
        base_tag=request.base_tag,
        offsets=request.offsets,
        records=request.records,
        files=request.files,
        lake_table_uuid=record.lake.table_uuid,  # the round's plan left it there
    )
    if first is not None:
        if _granted_for(first) != _granted_for(row):
            raise errors.Fenced(
                f"round {current.round_id} was granted another commit than this one",
                hint="Nothing to do: a new round follows.",
                round_id=current.round_id,
            )
        return _beat(replace(Change(record), durable=False), ctx)
    change = _beat(Change(record).update(commit=row).update_commit(row), ctx)
    return change.note(ctx, "COMMIT_GRANTED", "the round may commit to the lake", base_tag=request.base_tag)


def _granted_for(row: LakeCommitRecord) -> tuple[object, ...]:
    """Returns the identity of the granted commit, without its outcome."""
    return row.base_round_id, row.base_tag, dict(row.offsets), row.records, row.files


def finish(ctx: Context, record: TableRecord, report: Finished) -> Change:
    """Tiering -> Tiered -> Scheduled, or on to Pending if the round stopped early or a CALL waits.

    A round that finished although its granted commit was never acked proved nothing. The table is due again at once, and the next base
    check finds the outcome.
    """
    if record.upkeep_runs:
        return upkeep.finish(ctx, record, report.stats)
    change = Change(record).update(upkeep=upkeep.note_inside_round(ctx, record, report.stats))
    current = record.round
    assert current is not None
    unproved = record.granted and not current.acked
    if unproved:
        change = change.note(ctx, "COMMIT_UNRESOLVED", "finished without an ack of its granted commit", Level.WARN)
    ended_as = RoundState.SUCCEEDED if record.granted or current.acked else RoundState.EMPTY
    state = RoundState.FORCE_FINISHED if report.forced else ended_as
    change = end_round(change, ctx, state, stats=report.stats)
    if not unproved:
        change = settle_errors(change, ctx, report.stopped)
        is_behind = report.forced or report.stopped is not None
        change = change.update_round(missed_by_ms=None if is_behind else waits.missed_by_ms(change.record))
        change = replace(change, record=waits.remember_times(change.record))
    if state is RoundState.EMPTY:
        change = backlog.finish_all(change, ctx)
    if report.forced:
        tiered = change.move(ctx, TableState.TIERED, "the round reached its maximum duration and stopped early")
        return enter_pending(tiered, ctx, Trigger.FORCE, "its round stopped early, and the next one continues")
    checked_before, is_skipped = record.last_checked_time, report.stopped is not None and change.record.error is None
    change = return_to_scheduled(change, ctx, f"round {state}", checked=not unproved, at_once=unproved or is_skipped)
    if report.stopped is not None:  # the lake lacks the stopped bucket's records from that one on
        change = change.update(last_checked_time=checked_before)
    return keep_turn(ctx, record, _answer_call(change, ctx))


def _answer_call(change: Change, ctx: Context) -> Change:
    """Queues the next round if a CALL waits for it. Otherwise hands a scheduled table back to the cluster."""
    call = change.record.call
    if call is None or change.record.pause is not None:
        return end_assignment(change)
    return enter_pending(change, ctx, Trigger.CALL, f"CALL by {call.caller}")


def end_assignment(change: Change) -> Change:
    """Ends the turn of a scheduled table and reports that to the cluster, unless the outcome of a commit is unknown (R4)."""
    record = change.record
    if not record.has_turn or record.assignment is None or record.state is not TableState.SCHEDULED or record.unresolved_commit:
        return change
    return change.update(assignment=replace(record.assignment, end=AssignmentEnd.FINISHED))


def fail(ctx: Context, record: TableRecord, report: Failure) -> Change:
    """Tiering -> Failed, with the back-off for this kind of failure. Also does what follows at once.

    If the commit was acked, and then the tierer stopped or was lost, the data is in the lake: the table is Tiered (DESIGN 5).
    """
    current = record.round
    assert current is not None
    if current.acked and (report.stopped or report.error.error_class == errors.TiererLost.__name__):
        return finish(ctx, record, Finished(stats=report.stats))
    if current.cancelled_by is not None:  # its commit was refused because of the cancellation, so it reports that it was fenced
        return _end_cancelled(ctx, record, report.stats)
    if report.fenced:
        hint = report.fence_hint or fences.ANOTHER_WRITER
        fence = Fence(f"the round was fenced: {report.error.message}", hint, report.error.phase)
        return _start_anew(ctx, record, fence, report.stats)
    if record.upkeep_runs:
        return upkeep.fail(ctx, record, report.error, stats=report.stats)
    error = replace(report.error, retryable=True) if _is_outdated(record, report.error) else report.error
    change = end_round(Change(record), ctx, RoundState.FAILED, stats=report.stats, error=error)
    failures = record.consecutive_failures + (0 if report.stopped else 1)
    after_backoff = ctx.now.after(backoff_ms(failures, ctx.jitter, ctx.options)) if error.retryable else None
    retry = ctx.now.steady if report.stopped else after_backoff
    change = _count_failure(change, error, failures, retry)
    change = change.move(ctx, TableState.FAILED, f"{error.error_class}: {error.message}", Level.ERROR)
    return _answer_call(change, ctx)


def _is_outdated(record: TableRecord, error: ErrorInfo) -> bool:
    """Returns whether the failure belongs to an earlier definition of the source table.

    A change resumes a permanent failure, even if it came during the round. UnknownTable comes from a replaced coordinator or cluster.
    """
    is_redefined = record.round is not None and record.round.definition not in (None, record.definition)
    return is_redefined or error.error_class == errors.UnknownTable.__name__


def _end_cancelled(ctx: Context, record: TableRecord, stats: RoundStats | None = None) -> Change:
    """Ends a cancelled round. The freshness counts from now; otherwise the next round of a late table would begin at once."""
    if record.upkeep_runs:
        return upkeep.end_cancelled(ctx, record, stats)
    current = record.round
    assert current is not None
    error = ErrorInfo(errors.Cancelled.__name__, cancel_text(current), None, "", retryable=True, time=ctx.now.wall)
    ended = end_round(Change(record), ctx, RoundState.CANCELLED, stats=stats, error=error)
    resting = return_to_scheduled(ended, ctx, cancel_text(current), checked=False)
    return _answer_call(resting.update(due_deadline=ctx.now.after(record.freshness_ms)), ctx)


def _start_anew(ctx: Context, record: TableRecord, fence: Fence, stats: RoundStats | None = None) -> Change:
    """Ends a fenced round without a verdict: a new epoch and round follow at once, and the table has not failed.

    From the second fence on without a successful round, the table has failed and waits before the next round, because two services that
    fence each other must not race. A table that stays Failed, as a paused one does, always shows the reason.
    """
    verdict = fences.judge(ctx, record, fence)
    if record.upkeep_runs:
        return upkeep.fail(ctx, record, verdict.error, RoundState.FENCED, stats)
    change = end_round(Change(record), ctx, RoundState.FENCED, stats=stats, error=verdict.error)
    change = change.update(consecutive_fences=verdict.fences, retry_deadline=ctx.now.steady)
    if verdict.is_failure:
        failures = record.consecutive_failures + 1
        change = _count_failure(change, verdict.error, failures, ctx.now.after(backoff_ms(failures, ctx.jitter, ctx.options)))
    elif record.pause is not None and record.error is None:
        change = change.update(error=verdict.error)
    change = change.move(ctx, TableState.FAILED, verdict.error.message, Level.ERROR if verdict.is_failure else Level.WARN)
    if record.pause is not None or (verdict.is_failure and record.call is None):
        return change
    return enter_pending(change, ctx, Trigger.RETRY, "a new round follows")


def _count_failure(change: Change, error: ErrorInfo, failures: int, retry: datetime | None) -> Change:
    """Counts one more failure of the table. `failures` is the number in a row. `retry` None: no automatic retry."""
    record = change.record
    change = change.update(error=error, error_count=record.error_count + 1, consecutive_failures=failures, retry_deadline=retry)
    return change.update_errors(error_kinds.with_failure(record, error))


def expire(ctx: Context, record: TableRecord) -> Change | None:
    """Fails the round if its tierer was silent for the service timeout, or ends it if it was cancelled; None if neither is due."""
    current = record.running
    if current is None or not ctx.now.passed(record.heartbeat_deadline):
        return None
    seconds = ctx.options.service_timeout_ms / 1000
    lost = errors.TiererLost(f"the tierer {current.tierer_id} sent no heartbeat for {seconds:g} s")
    info = ErrorInfo(lost.error_class, lost.message, None, lost.hint, retryable=True, time=ctx.now.wall)
    return fail(ctx, record, Failure(info))


def lose(ctx: Context, record: TableRecord) -> Change:
    """Handles a tierer that requests a table and does not list this round: the answer that assigned it was lost (DESIGN 4).

    The round is handed over again under the same epoch and round id. If its commit was granted, it ends instead.
    """
    current = record.round
    assert current is not None
    if current.cancelled_by is not None and not record.granted:
        return _end_cancelled(ctx, record)
    if not record.granted:
        change = _beat(Change(record), ctx)
        return change.note(ctx, "TABLE_HANDED_OVER", f"the tierer {current.tierer_id} did not get it: handed over again", Level.WARN)
    if current.acked:
        return finish(ctx, record, Finished())
    why = f"the tierer {current.tierer_id} gave up its round after the commit was granted"
    return _start_anew(ctx, record, Fence(why, fences.TIERER_RESTARTS))


def take_over(ctx: Context, record: TableRecord) -> Change:
    """Ends a round because another process started under its tierer's id, or because the tierer lost its right to that id.

    The round is never handed over under the same epoch: if the former process still lives, the new epoch fences it.
    """
    tierer_id = record.round.tierer_id if record.round else None
    return _leave_tierer(ctx, record, Fence(f"another process started as the tierer {tierer_id}", fences.TIERER_RESTARTS))


def fence_tierer(ctx: Context, record: TableRecord, reason: str | None) -> Change:
    """Ends a round whose tierer a user took out of service. The tierer may still live; the new epoch fences it.

    Only the lake knows the outcome of a granted commit. The next round's base check finds its marker. If the marker is missing, the
    compare-and-set of the late request will fail.
    """
    tierer_id = record.round.tierer_id if record.round else None
    because = f": {reason}" if reason else ""
    why = f"the tierer {tierer_id} was fenced by {ctx.principal or 'unknown'}{because}"
    return _leave_tierer(ctx, record, Fence(why, by_operator=True))


def catch_up(ctx: Context, change: Change, marker_epoch: int | None) -> Change:
    """Raises the table's epoch to that of the lake's marker. A marker is only ahead of a store that was lost or restored from a backup.

    The running round may repeat an earlier round with the same epoch and id, so another round replaces it.
    """
    own_epoch = change.record.tiering_epoch
    if marker_epoch is None or marker_epoch <= own_epoch:
        return change
    why = f"the lake's marker has epoch {marker_epoch}, the state store knew of {own_epoch}: it was lost, or is from a backup"
    change = replace(change, durable=True).update(tiering_epoch=marker_epoch).note(ctx, STATE_LOST, why, Level.WARN, known_epoch=own_epoch)
    if change.record.running is not None:
        return _start_anew(ctx, change.record, Fence(why, fences.STATE_LOST)).after(change)
    return _queue_above(change, ctx, why)


def note_named_epoch(ctx: Context, record: TableRecord, named: int) -> Change | None:
    """Handles an epoch that a tierer named for the table; None if it is not above the known epochs.

    A higher epoch shows that the store was lost or restored from a backup while the tierer's round ran. Later rounds get epochs above it,
    and a round that is queued already is queued again. So no later assignment can be confused with the tierer's round. The running round
    continues. It has its own epoch and id, and the compare-and-set decides about its commit. A tierer must not be able to end it by naming
    a number. A made-up number only causes a gap. Numbers up to `MOST_ROUNDS` are accepted; no table reaches it, and above it there is room
    for more rounds than any table has.
    """
    if not record.highest_epoch < named <= MOST_ROUNDS:
        return None
    change = Change(record).update(named_epoch=named)
    why = f"a tierer runs a round with epoch {named}, the state store knew of {record.tiering_epoch}: it was lost, or is from a backup"
    if record.named_epoch <= record.tiering_epoch:  # otherwise the loss is known already
        change = change.note(ctx, STATE_LOST, why, Level.WARN, known_epoch=record.tiering_epoch)
    return _queue_above(change, ctx, why)


def _queue_above(change: Change, ctx: Context, why: str) -> Change:
    """Replaces a queued round by one with a new id and an epoch above all known ones."""
    record, current = change.record, change.record.round
    if record.state is not TableState.PENDING or current is None:
        return change
    since = record.pending_since
    queued = replace(current, round_id=ctx.new_round_id, tiering_epoch=record.highest_epoch + 1)
    change = end_round(change, ctx, RoundState.FENCED, error=fences.judge(ctx, record, Fence(why, by_operator=True)).error)
    change = change.update(round=queued, tiering_epoch=queued.tiering_epoch, pending_since=since)
    return replace(change, rounds={**change.rounds, queued.round_id: queued})


def _leave_tierer(ctx: Context, record: TableRecord, fence: Fence) -> Change:
    current = record.round
    assert current is not None
    if current.acked:
        return finish(ctx, record, Finished())
    if current.cancelled_by is not None:
        return _end_cancelled(ctx, record)
    return _start_anew(ctx, record, fence)
