"""The steps of a round before any file is written: table, base, plan, leases, lake table. Pure (DESIGN 6 steps 1-4)."""

from __future__ import annotations

from dataclasses import replace

from tiering.errors import (
    KvSnapshotGone,
    LakewardError,
    LogBehindLake,
    LogRewritten,
    LogTruncated,
    RoundFailed,
    UnknownTable,
    UnsupportedType,
)
from tiering.lake.base import LakeView
from tiering.lake.foreign import SharedRecords
from tiering.lake.rules.base_check import ExpectedLake, check_base, check_same_base
from tiering.model.assignments import ServiceMode
from tiering.model.rounds import Assignment, Phase, RecordedLakeSnapshot, RoundState
from tiering.model.tables import TableBucket, TableInfo
from tiering.planning.check_log import begins_late, check_bucket_counts, check_same_log
from tiering.planning.plan_splits import Plan, plan_round
from tiering.round.steps import actions as act
from tiering.round.steps.round_state import Round, Step, base_of, outcome, plan_of, table_of

LEASE_ATTEMPTS = 3
"""Number of times that a round plans again because a KV snapshot was deleted before it was leased."""


def table_read(state: Round, table: TableInfo) -> Step:
    """Checks that the path still names the assigned table, and that the table can be tiered."""
    if table.table_id != state.assignment.table_id:
        raise UnknownTable(
            f"{table.path} is another table now: its id is {table.table_id}, the round is for {state.assignment.table_id}",
            table_path=table.path,
        )
    if table.refusal is not None:
        raise UnsupportedType(f"{table.path} cannot be tiered: {table.refusal}", table_path=table.path)
    return replace(state, table=table), act.ReadLake(table)


def expected_lake(state: Round, recorded_by_cluster: RecordedLakeSnapshot | None) -> ExpectedLake:
    """Returns what the coordinator and the cluster have recorded about the lake table."""
    assignment = state.assignment
    recorded = tuple(copy for copy in (assignment.recorded, recorded_by_cluster) if copy is not None)
    uuid = state.lake_table_uuid or assignment.lake_table_uuid
    shared = shared_records(assignment, state.mode)
    return ExpectedLake(state.cluster_id, assignment.table_id, uuid, assignment.passed_head, recorded, path=assignment.path, shared=shared)


def shared_records(assignment: Assignment, mode: ServiceMode) -> SharedRecords | None:
    """Returns the coordinator's records that are needed for the walk of another service's commits; None on an exclusive cluster."""
    if mode is ServiceMode.EXCLUSIVE:
        return None
    return SharedRecords(assignment.recorded, assignment.recorded_round_id, frozenset(assignment.moved_back))


def base_read(state: Round, event: act.LakeRead) -> Step:
    """Runs the base check. If the lake is ahead of the records, acknowledges its state to the coordinator first, which informs the
    cluster.
    """
    base = check_base(event.view, replace(expected_lake(state, event.recorded_by_cluster), living=event.living))
    head = None if base.view is None else base.view.head_identity
    state = replace(state, base=base, passed_head=head, recorded_by_cluster=event.recorded_by_cluster)
    # The cluster may lack a record of the first lake snapshot, because it did not answer at that time. On a shared cluster the base check
    # decides instead.
    unreported = event.recorded_by_cluster is None and state.mode is ServiceMode.EXCLUSIVE
    if (base.ahead or unreported) and base.marker is not None and base.newest is not None:
        return replace(state, phase=Phase.ACK), act.Ack(replace(base.marker, buckets=base.ranges), base.newest)
    _check_not_committed(state)
    return _planning(state)


def adopted(state: Round) -> Step:
    """Continues from the lake's state, which the coordinator has recorded by now."""
    _check_not_committed(state)
    return _planning(replace(state, phase=Phase.PLAN))


def _planning(state: Round) -> Step:
    """Returns the step after the base check. An upkeep round reads no log: its offsets are those of the lake."""
    if state.assignment.upkeep is None:
        return state, _read_log(state)
    base = base_of(state)
    if base.view is None or base.view.head is None or base.marker is None or base.moved_back or base.needs_commit:
        return state, act.End(outcome(state, RoundState.EMPTY))
    starts = {bucket: reached.start for bucket, reached in base.ranges.items()}
    ends = {bucket: reached.tiered for bucket, reached in base.ranges.items()}
    return replace(state, plan=Plan((), starts, ends, 0)), act.EnsureLakeTable(table_of(state), may_create=False)


def _check_not_committed(state: Round) -> None:
    """Raises RoundFailed for a round that is in the lake before it wrote anything. Such a round is assigned again by a coordinator with a
    restored older store. The lake is read for the outcome of a round, and cannot tell a second snapshot with its id from the first one.
    """
    view, round_id = base_of(state).view, state.assignment.round_id
    if view is not None and any(snapshot.round_id == round_id for snapshot in view.snapshots.values()):
        raise RoundFailed(
            f"round {round_id} is in the lake table {state.assignment.path} already, and was started again",
            cause_class="RoundRepeated",
            hint="No data is lost: the next round has a new id and continues from the lake's state. This happens if the "
            "coordinator's store was restored to an older copy.",
            table_path=state.assignment.path,
            round_id=round_id,
        )


def _read_log(state: Round, settle: bool = False) -> act.ReadLog:
    return act.ReadLog(table_of(state), {bucket: tiered.tiered for bucket, tiered in base_of(state).ranges.items()}, settle)


def log_read(state: Round, event: act.LogRead) -> Step:
    """Makes the plan, and leases all of its KV snapshots before one is read. A cut or replaced log is believed only when it is read for the
    last time.
    """
    base = base_of(state)
    check_bucket_counts(table_of(state), event.partitions)
    try:
        plan = plan_round(table_of(state), base.ranges, event.ends, event.partitions, event.snapshots, state.assignment.backlog)
        check_same_log(table_of(state), base.ranges, base.marker, event.traces)
        is_unverified = begins_late(base.ranges, event.ends)
    except (LogTruncated, LogBehindLake, LogRewritten) as error:
        if not state.log_rereads:
            _say_since_when(error, base.view)
            raise
        is_unverified = True
    if is_unverified and state.log_rereads:
        return replace(state, log_rereads=state.log_rereads - 1), _read_log(state, settle=True)
    state = replace(state, plan=plan, traces=event.traces, assignment=replace(state.assignment, skipped=event.skipped))
    if not plan.splits and not _has_to_commit(state):
        return state, act.End(outcome(state, RoundState.EMPTY))
    if plan.snapshots:
        snapshot_ids = {TableBucket(state.assignment.table_id, split.bucket): split.snapshot_id for split in plan.snapshots}
        return replace(state, phase=Phase.LEASE, leased=state.leased + 1), act.LeaseSnapshots(snapshot_ids)
    return state, _ensure_lake_table(state)


def _say_since_when(error: LakewardError, view: LakeView | None) -> None:
    """Adds to the hint since when records are missing in the lake."""
    snapshot = None if view is None or view.tiered is None else view.snapshots.get(view.tiered)
    if isinstance(error, LogTruncated) and snapshot is not None:
        error.hint = f"The table was tiered last at {snapshot.committed_at:%Y-%m-%d %H:%M:%S} UTC. {error.hint}"


def _has_to_commit(state: Round) -> bool:
    """Returns whether a snapshot without rows is needed: its compare-and-set ends a late request, and its marker corrects the cluster's
    record.
    """
    base = base_of(state)
    if state.mode is ServiceMode.EXCLUSIVE or base.view is None:
        return False
    return base.needs_commit or state.assignment.unresolved


def _ensure_lake_table(state: Round) -> act.EnsureLakeTable:
    """Returns the action that ensures the lake table. A table that vanished since the base was read is not created again, as `check_base`
    rules: an empty table under its name would prevent its recovery.
    """
    return act.EnsureLakeTable(table_of(state), may_create=base_of(state).view is None)


def snapshots_leased(state: Round, event: act.SnapshotsLeased) -> Step:
    """Continues with the leased snapshots. If one was superseded since the plan, reads the log again for a plan with the newer snapshot."""
    if not event.unavailable:
        return replace(state, phase=Phase.PLAN), _ensure_lake_table(state)
    if state.leased < LEASE_ATTEMPTS:
        return state, _read_log(state)
    buckets = ", ".join(sorted(str(bucket.bucket) for bucket in event.unavailable))
    raise KvSnapshotGone(
        f"KV snapshots of {state.assignment.path} were superseded {state.leased} times before they could be leased (buckets {buckets})",
        table_path=state.assignment.path,
    )


def lake_ensured(state: Round, view: LakeView) -> Step:
    """Repeats the whole base check on the lake table that exists now, because it may have been created or changed since the base was
    read.
    """
    base = check_same_base(base_of(state), view, expected_lake(state, state.recorded_by_cluster))
    state = replace(state, lake_table_uuid=view.table_uuid, base=base, passed_head=view.head_identity)
    return state, act.RecordPlan(plan_of(state), view.table_uuid, view.head_identity)


def plan_recorded(state: Round) -> Step:
    """Starts the splits; from this step on files are written."""
    view = base_of(state).view
    assert view is not None  # EnsureLakeTable has returned it
    # A replay must not stop early: the changes behind its end are in the lake already. Another service continues at our marker, and would
    # treat keys in those changes as new ones; the offsets of its rows would fit, so the base check would not notice.
    replays = bool(base_of(state).moved_back)
    return replace(state, phase=Phase.WRITE), act.RunSplits(
        table_of(state), plan_of(state), state.lake_table_uuid or "", view, replays=replays
    )
