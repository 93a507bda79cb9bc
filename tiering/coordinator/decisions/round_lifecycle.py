"""Pure decisions about one round: assigned, renewed, planned, granted its commit, and all the ways it ends.

A report is about the running round only if it names its epoch and its round id. Everything else about an older round
is either a repeat, which is harmless, or fenced.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tiering import errors
from tiering.coordinator.decisions import backlog, error_kinds, fences, waits
from tiering.coordinator.decisions.backoff import backoff_ms
from tiering.coordinator.decisions.change import (
    Change,
    Context,
    cancel_text,
    end_round,
    enter_pending,
    outlives_coordinator,
    rest,
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
from tiering.coordinator.decisions.upkeep import rounds as upkeep
from tiering.coordinator.decisions.upkeep.turns import keep_turn
from tiering.model.rounds import RoundMode, RoundProgress, RoundState, RoundStats
from tiering.model.states import TableState

STATE_LOST = "STATE_LOST"
"""The event of a state store that knows less than the lake, or than a tierer."""

MOST_ROUNDS = 10**12
"""A round each millisecond for thirty years. Epochs are numbers of 64 bits."""


@dataclass(frozen=True)
class RoundRef:
    """Names a round, with the numbers that fence it. `round_id` may be empty from an older peer.

    `incarnation`: of the process that speaks; None = it is not known who does.
    """

    table_id: int
    coordinator_epoch: int
    tiering_epoch: int
    round_id: str
    tierer_id: str = ""
    incarnation: str | None = None


@dataclass(frozen=True)
class Finished:
    """A round that ended well. `empty`: there was nothing to do; `forced`: it stopped early at its maximum duration.

    `stopped`: the error of a bucket that stops at a record, while all others are committed.
    """

    stats: RoundStats | None = None
    empty: bool = False
    forced: bool = False
    stopped: ErrorInfo | None = None


@dataclass(frozen=True)
class Failure:
    """A round that ended badly. `fenced`: its tierer found that somebody else owns the table; `stopped`: the tierer goes down."""

    error: ErrorInfo
    fenced: bool = False
    stopped: bool = False
    stats: RoundStats | None = None
    fence_hint: str = ""
    """What to do if rounds are fenced for this reason again and again."""


@dataclass(frozen=True)
class Plan:
    """What a round is going to do (RecordPlan). `lake_table_uuid` was checked against the lake."""

    lake_table_uuid: str | None
    stops: TextOffsets
    splits: int


@dataclass(frozen=True)
class GrantRequest:
    """What a round is going to commit (BeginLakeCommit)."""

    base_round_id: str | None
    base_tag: int | None
    offsets: TextOffsets
    records: int
    files: int


def is_current(record: TableRecord | None, ref: RoundRef) -> bool:
    """Whether `ref` is the running round, reported by the process that has it. An older coordinator epoch does not matter (DESIGN 5)."""
    if record is None or record.running is None or record.tiering_epoch != ref.tiering_epoch:
        return False
    if record.running.incarnation not in (None, ref.incarnation):
        return False
    return not ref.round_id or ref.round_id == record.running.round_id


def fenced_error(record: TableRecord | None, ref: RoundRef) -> errors.LakewardError:
    """Why `ref` is not the running round, for its tierer."""
    if record is None or record.state is None:
        return errors.UnknownTable(f"no lake table has the id {ref.table_id}: it was dropped, or its lake disabled", table_id=ref.table_id)
    latest = f"epoch {record.tiering_epoch}, {record.state}"
    return errors.Fenced(
        f"round {ref.round_id or '?'} with epoch {ref.tiering_epoch} does not own {record.path} any more ({latest})",
        hint="Nothing to do: the round that owns the table now goes on.",
        table_id=ref.table_id,
        round_id=ref.round_id,
    )


@dataclass(frozen=True)
class QueueLook:
    """What is known of a queued table's wait beside its record. `waiting_since`: no row that its lake lacks is older; None = not known.

    `no_tierer_ms`: for how long of its time in the queue no tierer was connected.
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
    look: QueueLook = QueueLook(),
) -> Change:
    """Pending -> Tiering: a tierer's request is answered with the table.

    `leaves_slots`: a round of a backlog, which takes long, keeps no table from its freshness.
    """
    waited_ms = waits.waited_for_slot_ms(ctx.now, record)
    no_tierer_ms = min(record.no_tierer_ms + look.no_tierer_ms, waited_ms)
    deadline, unpromised_ms = waits.promise(ctx.now, record, look.waiting_since)
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
    looked = {"checked_since": ctx.now.steady, "checked_wall": ctx.now.wall}
    change = change.update(**looked, waited_for_slot_ms=waited_ms, no_tierer_ms=no_tierer_ms)
    return _beat(change, ctx).move(ctx, TableState.TIERING, f"assigned to the tierer {tierer_id}")


def _longest_ms(ctx: Context, record: TableRecord, *, leaves_slots: bool) -> int:
    """How long the round may take: that of a backlog many times the freshness, which costs less a row.

    After a failure it gets as long as all others, so that one that hangs keeps no slot for longer; the next has its time again.
    """
    factor = 1
    if (
        leaves_slots
        and not record.consecutive_failures
        and (backlog.runs_for_throughput(record) or backlog.was_left_alone(record, ctx.now.wall, ctx.options))
    ):
        factor = ctx.options.backlog_duration_factor
    return max(factor * record.freshness_ms, ctx.options.min_round_duration_ms)


def renew(ctx: Context, record: TableRecord) -> Change:
    """Renews the service timeout: the tierer still runs the round. One that was cancelled has its time, and no more."""
    if record.round is not None and record.round.cancelled_by is not None:
        return replace(Change(record), durable=False).update(heartbeat_time=ctx.now.wall)
    return _beat(replace(Change(record), durable=False), ctx)


def _beat(change: Change, ctx: Context) -> Change:
    return change.update(heartbeat_time=ctx.now.wall, heartbeat_deadline=ctx.now.after(ctx.options.service_timeout_ms))


def plan(ctx: Context, record: TableRecord, planned: Plan) -> Change:
    """Records what the round will do. The log was read just before: freshness counts from here."""
    change = Change(record).update(lake=replace(record.lake, table_uuid=planned.lake_table_uuid or record.lake.table_uuid))
    mode = RoundMode.UPKEEP
    if not record.upkeep_runs:
        change = backlog.begin_planned(change, ctx, planned.stops)
        mode = RoundMode.BACKLOG if change.record.lake.backlog else RoundMode.LIVE
    change = change.update_round(planned_stops=planned.stops, splits_total=planned.splits, splits_done=0, mode=mode)
    return _beat(change, ctx)


def progress(record: TableRecord, reported: RoundProgress) -> Change | None:
    """Records how far the round is; this alone is never stored. None if it was further already: reports overtake each other."""
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
    """The fence: from here on this round, and no other, may send its commit. A repeat is granted again.

    One commit a round: the newest tiering commit that it is granted on keeps the sweep from its files, so no later request changes that.
    Raises Fenced for another one, and for a round that was cancelled. That the round is the running one was checked before.
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
    """The commit that was granted, without what became of it."""
    return row.base_round_id, row.base_tag, dict(row.offsets), row.records, row.files


def finish(ctx: Context, record: TableRecord, report: Finished) -> Change:
    """Tiering -> Tiered -> Scheduled, or on to Pending if it stopped early or a CALL waits.

    A round that says it finished although its granted commit was never acked proved nothing: it is due again at once,
    and the next base check will tell.
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
        return enter_pending(tiered, ctx, Trigger.FORCE, "its round stopped early and has to go on")
    checked_before, is_skipped = record.last_checked_time, report.stopped is not None and change.record.error is None
    change = rest(change, ctx, f"round {state}", checked=not unproved, at_once=unproved or is_skipped)
    if report.stopped is not None:  # the lake lacks what the bucket has behind the record
        change = change.update(last_checked_time=checked_before)
    return keep_turn(ctx, record, _answer_call(change, ctx))


def _answer_call(change: Change, ctx: Context) -> Change:
    """What follows a round: the next one, if a CALL waits for it, else an assigned table that rests goes back to the cluster."""
    call = change.record.call
    if call is None or change.record.pause is not None:
        return end_assignment(change)
    return enter_pending(change, ctx, Trigger.CALL, f"CALL by {call.caller}")


def end_assignment(change: Change) -> Change:
    """The turn of a table that rests is over, and the cluster is to be told; not while the outcome of a commit is unknown (R4)."""
    record = change.record
    if not record.has_turn or record.assignment is None or record.state is not TableState.SCHEDULED or record.unresolved_commit:
        return change
    return change.update(assignment=replace(record.assignment, end=AssignmentEnd.FINISHED))


def fail(ctx: Context, record: TableRecord, report: Failure) -> Change:
    """Tiering -> Failed, with the back-off of its kind; what follows at once is done here too.

    Acked and then only its tierer stopped or was lost: the data is in the lake and recorded, so it is Tiered (DESIGN 5).
    """
    current = record.round
    assert current is not None
    if current.acked and (report.stopped or report.error.error_class == errors.TiererLost.__name__):
        return finish(ctx, record, Finished(stats=report.stats))
    if current.cancelled_by is not None:  # refused its commit for that, it reports that it was fenced
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
    """Whether a failure is of a source table as it was before: a change resumes a table that failed for good, also one that came meanwhile.

    That the table of a running round is not there says a coordinator whose store another one took over, or a cluster as it was before.
    """
    is_redefined = record.round is not None and record.round.definition not in (None, record.definition)
    return is_redefined or error.error_class == errors.UnknownTable.__name__


def _end_cancelled(ctx: Context, record: TableRecord, stats: RoundStats | None = None) -> Change:
    """Its freshness counts from now: after a round that took longer than that the next one would begin at once."""
    if record.upkeep_runs:
        return upkeep.end_cancelled(ctx, record, stats)
    current = record.round
    assert current is not None
    error = ErrorInfo(errors.Cancelled.__name__, cancel_text(current), None, "", retryable=True, time=ctx.now.wall)
    ended = end_round(Change(record), ctx, RoundState.CANCELLED, stats=stats, error=error)
    resting = rest(ended, ctx, cancel_text(current), checked=False)
    return _answer_call(resting.update(due_deadline=ctx.now.after(record.freshness_ms)), ctx)


def _start_anew(ctx: Context, record: TableRecord, fence: Fence, stats: RoundStats | None = None) -> Change:
    """The round is over without a verdict: a new epoch and round follow at once, and the table has not failed.

    From the second fence on without a round that went well the table has failed, and waits before the next round: two services that fence
    each other must not race. A table that stays Failed, as a paused one does, always shows why.
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
    """The change with one more failure of the table. `failures`: in a row; `retry` None = it is not tried again by itself."""
    record = change.record
    change = change.update(error=error, error_count=record.error_count + 1, consecutive_failures=failures, retry_deadline=retry)
    return change.update_errors(error_kinds.with_failure(record, error))


def expire(ctx: Context, record: TableRecord) -> Change | None:
    """Fails the round if its tierer was silent for the service timeout, ends it if it was cancelled; None = not yet."""
    current = record.running
    if current is None or not ctx.now.passed(record.heartbeat_deadline):
        return None
    seconds = ctx.options.service_timeout_ms / 1000
    lost = errors.TiererLost(f"the tierer {current.tierer_id} was not heard of for {seconds:g} s")
    info = ErrorInfo(lost.error_class, lost.message, None, lost.hint, retryable=True, time=ctx.now.wall)
    return fail(ctx, record, Failure(info))


def lose(ctx: Context, record: TableRecord) -> Change:
    """The tierer asks for work and does not list this round: the answer that assigned it got lost (DESIGN 4).

    Handed over again under the same epoch and round id, unless its commit was granted: then it ends.
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
    """Another process started under the id of the round's tierer, which is gone, or has no right to the name any more.

    Never handed over under the same epoch: should the former process live, the new epoch fences it.
    """
    tierer_id = record.round.tierer_id if record.round else None
    return _leave_tierer(ctx, record, Fence(f"another process started as the tierer {tierer_id}", fences.TIERER_RESTARTS))


def fence_tierer(ctx: Context, record: TableRecord, reason: str | None) -> Change:
    """Somebody took the round's tierer out of service, which may live: the new epoch fences it.

    What became of a commit that was granted only the lake knows: the next round's base check finds its marker, or that it is not there,
    and then the compare-and-set of its late request fails.
    """
    tierer_id = record.round.tierer_id if record.round else None
    because = f": {reason}" if reason else ""
    why = f"the tierer {tierer_id} was fenced by {ctx.principal or 'unknown'}{because}"
    return _leave_tierer(ctx, record, Fence(why, by_operator=True))


def catch_up(ctx: Context, change: Change, marker_epoch: int | None) -> Change:
    """Lets the table's epochs go on above that of the lake's marker, which is ahead only of a store that was lost, or set back to a backup.

    The round under way may be one that ran before, under the same epoch and id: another one takes its place.
    """
    known = change.record.tiering_epoch
    if marker_epoch is None or marker_epoch <= known:
        return change
    why = f"the lake's marker has epoch {marker_epoch}, the state store knew of {known}: it was lost, or is from a backup"
    change = replace(change, durable=True).update(tiering_epoch=marker_epoch).note(ctx, STATE_LOST, why, Level.WARN, known_epoch=known)
    if change.record.running is not None:
        return _start_anew(ctx, change.record, Fence(why, fences.STATE_LOST)).after(change)
    return _queue_above(change, ctx, why)


def heed_epoch(ctx: Context, record: TableRecord, named: int) -> Change | None:
    """What follows from an epoch that a tierer named of the table; None = nothing, for it is none above those known here.

    One above says that the store was lost, or set back to a backup, while the tierer's round ran. Rounds that are queued from then on have
    epochs above it, and one that is queued already is queued anew; so whatever is assigned later cannot be taken for the tierer's round.
    The round that runs now goes on: it has an epoch and an id of its own, its commit is decided by the compare-and-set, and whoever names a
    number must not be able to end it. That is also all that a made-up number does: a gap. It is believed up to `MOST_ROUNDS`, which no
    table reaches and from which on there is room for more than any table has.
    """
    if not record.highest_epoch < named <= MOST_ROUNDS:
        return None
    change = Change(record).update(named_epoch=named)
    why = f"a tierer runs a round with epoch {named}, the state store knew of {record.tiering_epoch}: it was lost, or is from a backup"
    if record.named_epoch <= record.tiering_epoch:  # else it is known already, and only by how much is new
        change = change.note(ctx, STATE_LOST, why, Level.WARN, known_epoch=record.tiering_epoch)
    return _queue_above(change, ctx, why)


def _queue_above(change: Change, ctx: Context, why: str) -> Change:
    """The change with a round that is queued under a new id, and an epoch above all that are known, in its place."""
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
