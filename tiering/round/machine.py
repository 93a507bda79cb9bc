"""The steps of one round as a pure machine: (state, event) -> (state, action). DESIGN 6.

    read table -> read lake [base check] -> [ack what the lake has more] -> read log [plan]
      -> nothing new: EMPTY
      -> ensure lake table -> record plan -> run splits [prefix] -> fence -> commit -> read lake [resolve]
           -> ours: ack -> SUCCEEDED
           -> another round's: FENCED
           -> neither: base check again, the very same marker -> commit once more, on the new head

Until a commit request was sent, a failure deletes the round's own files; from then on nothing is deleted and every
error means only that the lake has to be read again. `tiering.round.runner` carries the actions out.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tiering.errors import Cancelled, CommitOutcomeUnknown, Fenced, LakewardError, UnknownTable
from tiering.lake.base import Committable, LakeView, WriteResult
from tiering.lake.base_check import Base, CommitOutcome, KnownLake, check_base, check_same_base, resolve_commit
from tiering.lake.marker import Marker
from tiering.model import Assignment, Offsets, Phase, RecordedLakeSnapshot, RoundState, RoundStats, TableInfo
from tiering.round import actions as act
from tiering.round.base import Grant
from tiering.round.plan import Plan, next_buckets, plan_round
from tiering.round.prefix import contiguous_prefix

COMMIT_ATTEMPTS = 5
"""How often a commit is rebuilt on a new head when only foreign commits came between."""


@dataclass(frozen=True)
class Round:
    """What a round knows so far. `sent` = how many commit requests went out; `phase` names where an error is."""

    assignment: Assignment
    cluster_id: str
    phase: Phase = Phase.PLAN
    table: TableInfo | None = None
    base: Base | None = None
    recorded_by_cluster: RecordedLakeSnapshot | None = None
    plan: Plan | None = None
    lake_table_uuid: str | None = None
    stats: RoundStats = field(default_factory=RoundStats)
    committable: Committable | None = None
    marker: Marker | None = None
    whole: bool = True
    sent: int = 0
    commit_error: LakewardError | None = None
    failure: LakewardError | None = None
    snapshot_id: int | None = None
    passed_head: int | None = None


Step = tuple[Round, act.Action]


def start(assignment: Assignment, cluster_id: str) -> Step:
    """The first step of a round."""
    return Round(assignment, cluster_id), act.ReadTable()


def step(state: Round, event: act.Event) -> Step:
    """The next one. A permanent error raised by a rule on the way ends the round like a failed action."""
    try:
        return _dispatch(state, event)
    except LakewardError as error:
        return _failed(state, error)


def _dispatch(state: Round, event: act.Event) -> Step:
    match event:
        case act.TableRead(table):
            return _table_read(state, table)
        case act.LakeRead():
            return _commit_resolved(state, event) if state.sent else _base_read(state, event)
        case act.Acked():
            return _acked(state)
        case act.LogRead():
            return _log_read(state, event)
        case act.LakeEnsured(view):
            return _lake_ensured(state, view)
        case act.PlanRecorded():
            return replace(state, phase=Phase.WRITE), act.RunSplits(_table(state), _plan(state), state.lake_table_uuid or "")
        case act.SplitsRun():
            return _splits_run(state, event)
        case act.CommitGranted():
            return _send_commit(state, _base(state))
        case act.CommitSent():
            return state, act.ReadLake(_table(state))
        case act.FilesAborted():
            return _end_failed(state, state.failure or Cancelled("the round was aborted"))
        case act.ActionFailed(action, error):
            return _action_failed(state, action, error)


def _table_read(state: Round, table: TableInfo) -> Step:
    if table.table_id != state.assignment.table_id:
        raise UnknownTable(
            f"{table.path} is another table now: its id is {table.table_id}, the round is for {state.assignment.table_id}",
            table_path=table.path,
        )
    return replace(state, table=table), act.ReadLake(table)


def _known(state: Round, recorded_by_cluster: RecordedLakeSnapshot | None) -> KnownLake:
    assignment = state.assignment
    recorded = tuple(copy for copy in (assignment.recorded, recorded_by_cluster) if copy is not None)
    uuid = state.lake_table_uuid or assignment.lake_table_uuid
    return KnownLake(state.cluster_id, assignment.table_id, uuid, assignment.passed_head, recorded)


def _base_read(state: Round, event: act.LakeRead) -> Step:
    base = check_base(event.view, _known(state, event.recorded_by_cluster))
    head = None if base.view is None else base.view.head
    state = replace(state, base=base, passed_head=head, recorded_by_cluster=event.recorded_by_cluster)
    if base.ahead and base.marker is not None and base.view is not None and base.view.tag is not None:
        return replace(state, phase=Phase.ACK), act.Ack(base.marker, base.view.tag)
    return state, act.ReadLog(_table(state))


def _acked(state: Round) -> Step:
    if not state.sent:  # that was an adoption: go on from it
        return replace(state, phase=Phase.PLAN), act.ReadLog(_table(state))
    return state, act.End(_outcome(state, _final(state)))


def _log_read(state: Round, event: act.LogRead) -> Step:
    plan = plan_round(_table(state), _base(state).marker, event.ends, event.partitions)
    state = replace(state, plan=plan)
    if not plan.splits:
        return state, act.End(_outcome(state, RoundState.EMPTY))
    return state, act.EnsureLakeTable(_table(state))


def _lake_ensured(state: Round, view: LakeView) -> Step:
    """The table may have come, or changed, since the base was read: the whole check again, on what stands there now."""
    base = check_same_base(_base(state), view, _known(state, state.recorded_by_cluster))
    state = replace(state, lake_table_uuid=view.table_uuid, base=base, passed_head=view.head)
    return state, act.RecordPlan(_plan(state), view.table_uuid, view.head)


def _splits_run(state: Round, event: act.SplitsRun) -> Step:
    work = event.work
    state = replace(state, stats=work.stats, phase=work.phase)
    prefix = contiguous_prefix(work.results, _plan(state).bases)
    state = replace(state, committable=Committable(state.assignment.round_id, work.results))
    if work.error is not None:
        return _failed(state, work.error)
    plan, base = _plan(state), _base(state)
    if prefix.reached == plan.bases:
        return _failed(state, Cancelled("the round was stopped before any record was read"))
    marker = _next_marker(state, plan, prefix.reached)
    grant = Grant(
        base_round_id=None if base.marker is None else base.marker.round_id,
        base_tag=None if base.view is None else base.view.tag,
        offsets=prefix.reached,
        records=sum(result.records for result in prefix.kept),
        files=sum(result.files for result in prefix.kept),
    )
    state = replace(
        state,
        phase=Phase.FENCE,
        marker=marker,
        committable=Committable(state.assignment.round_id, prefix.kept),
        whole=all(prefix.reached[bucket] == stop for bucket, stop in plan.stops.items()),
        stats=_committed_stats(work.stats, prefix.kept),
    )
    return state, act.BeginCommit(grant)


def _next_marker(state: Round, plan: Plan, reached: Offsets) -> Marker:
    base = _base(state)
    return Marker(
        cluster_id=state.cluster_id,
        table_id=state.assignment.table_id,
        lake_table_uuid=state.lake_table_uuid or "",
        round_id=state.assignment.round_id,
        tiering_epoch=state.assignment.tiering_epoch,
        base_round_id=None if base.marker is None else base.marker.round_id,
        buckets=next_buckets(plan, reached),
    )


def _committed_stats(stats: RoundStats, kept: tuple[WriteResult, ...]) -> RoundStats:
    return replace(
        stats,
        records_written=sum(result.records for result in kept),
        bytes_written=sum(result.size_bytes for result in kept),
        files_written=sum(result.files for result in kept),
    )


def _send_commit(state: Round, base: Base) -> Step:
    committable, marker, view = state.committable, state.marker, base.view
    if committable is None or marker is None or view is None:
        raise AssertionError("a commit was granted before there was anything to commit")
    state = replace(state, base=base, phase=Phase.LAKE_COMMIT, sent=state.sent + 1)
    return state, act.CommitLake(_table(state), committable, view, marker)


def _commit_resolved(state: Round, event: act.LakeRead) -> Step:
    base = _base(state)
    found = resolve_commit(event.view, state.assignment.round_id, base)
    if found.outcome is CommitOutcome.OTHER_ROUND:
        raise Fenced(
            f"another round tiered {state.assignment.path} first", table_path=state.assignment.path, round_id=state.assignment.round_id
        )
    if found.outcome is CommitOutcome.OURS and event.view is not None:
        marker, tag = event.view.marker, event.view.tag
        if marker is None or tag is None:
            return _end_failed(state, _unknown(state, "it landed, but its marker is gone again"))
        return replace(state, phase=Phase.ACK, snapshot_id=found.snapshot_id, passed_head=found.snapshot_id), act.Ack(marker, tag)
    if state.sent >= COMMIT_ATTEMPTS:
        return _end_failed(state, _unknown(state, f"other commits came first {state.sent} times"))
    again = check_same_base(base, event.view, _known(state, event.recorded_by_cluster))
    return _send_commit(state, again)


def _unknown(state: Round, why: str) -> LakewardError:
    cause = "" if state.commit_error is None else f" ({state.commit_error.message})"
    return CommitOutcomeUnknown(
        f"the commit of round {state.assignment.round_id} to {state.assignment.path} did not go through: {why}{cause}",
        hint="The next round reads the lake again and goes on from what it holds.",
        table_path=state.assignment.path,
        round_id=state.assignment.round_id,
    )


def _action_failed(state: Round, action: act.Action, error: LakewardError) -> Step:
    """What a failed action means depends on which it was."""
    match action:
        case act.CommitLake() if isinstance(error, CommitOutcomeUnknown):
            return replace(state, commit_error=error), act.ReadLake(_table(state))
        case act.CommitLake():  # failed before this request went out
            return _failed(replace(state, sent=state.sent - 1), error)
        case act.Ack() if state.sent:  # the lake has it; the coordinator learns it from the finished report
            return state, act.End(_outcome(state, _final(state)))
        case act.ReadLake() if state.sent:
            return _end_failed(state, _unknown(state, f"the lake could not be read again: {error.message}"))
        case _:
            return _failed(state, error)


def _failed(state: Round, error: LakewardError) -> Step:
    """Ends the round. Deletes its files only if no commit request ever went out."""
    if not state.sent and state.failure is None and state.committable is not None and state.committable.results:
        return replace(state, failure=error), act.AbortFiles(_table(state), state.committable)
    return _end_failed(state, error)


def _final(state: Round) -> RoundState:
    return RoundState.SUCCEEDED if state.whole else RoundState.FORCE_FINISHED


def _end_failed(state: Round, error: LakewardError) -> Step:
    states = {Fenced: RoundState.FENCED, Cancelled: RoundState.CANCELLED}
    final = next((name for kind, name in states.items() if isinstance(error, kind)), RoundState.FAILED)
    return state, act.End(replace(_outcome(state, final), error=error, phase=state.phase))


def _outcome(state: Round, final: RoundState) -> act.RoundOutcome:
    return act.RoundOutcome(final, state.stats, state.snapshot_id, state.passed_head)


def _table(state: Round) -> TableInfo:
    assert state.table is not None
    return state.table


def _base(state: Round) -> Base:
    assert state.base is not None
    return state.base


def _plan(state: Round) -> Plan:
    assert state.plan is not None
    return state.plan
