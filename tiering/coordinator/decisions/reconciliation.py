"""Pure decisions of `CALL sys.reconcile_lake`, `CALL sys.adopt_table` and `CALL sys.retry_tiering`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tiering import errors
from tiering.coordinator.decisions import backlog, lake_acks
from tiering.coordinator.decisions.change import Change, Context, clear_error, end_round, enter_pending
from tiering.coordinator.decisions.dead_letters import with_marked_records, with_replayed_again, without_replayed
from tiering.coordinator.decisions.error_kinds import is_bucket_stopped
from tiering.coordinator.decisions.fences import Fence, judge
from tiering.coordinator.decisions.records import CommitState, LakeCommitRecord, Level, QueuedCall, TableRecord, TextOffsets, Trigger
from tiering.coordinator.decisions.upkeep.rounds import give_way
from tiering.lake.dead_letters.settled import SettledLetters
from tiering.lake.marker import LaterChange, LeftOut
from tiering.lake.proof.bucket_proof import Proofs
from tiering.lake.proof.file_footer import runs_text
from tiering.lake.rules.reconcile import ReconcileAction
from tiering.model.rounds import RoundState
from tiering.model.splits import BacklogCause
from tiering.model.states import TableState
from tiering.model.tables import BucketKey

ADOPT_TABLE, BACKFILL_TABLE = "adopt_table", "backfill_table"
REPLAY_DEAD_LETTERS, DISCARD_DEAD_LETTERS = "replay_dead_letters", "discard_dead_letters"
"""The actions of commits of these procedures; the other actions are those of `reconcile_lake`."""


def _statement(action: str) -> str:
    """Returns the procedure with its action, for events and for the ledger."""
    return action if action == procedure_of(action) else f"{procedure_of(action)}({action})"


def procedure_of(action: str) -> str:
    """Returns the procedure that makes commits with this action."""
    return action if action in (ADOPT_TABLE, BACKFILL_TABLE, REPLAY_DEAD_LETTERS, DISCARD_DEAD_LETTERS) else "reconcile_lake"


@dataclass(frozen=True)
class Reconciliation:
    """A commit of one of these procedures before it is sent. `offsets` are its marker's tiered offsets.

    `records_left_out` None: unknown. `left_out`: ranges of records that neither log nor lake have.
    """

    action: str
    round_id: str
    lake_table_uuid: str
    base_round_id: str | None
    base_tag: int | None
    offsets: TextOffsets
    records_left_out: int | None
    left_out: LeftOut = field(default_factory=dict)
    settled: SettledLetters = field(default_factory=SettledLetters)
    """The dead letters that the commit settles."""
    reason: str | None = None


@dataclass(frozen=True)
class ReconciledCommit:
    """The lake's newest tiering commit after `reconcile_lake`. It may already be a later round's commit on top of ours.

    `head` counts as a passed head; it is the identity of that commit (`LakeSnapshot.identity`). `living` are the source's partitions: a
    rollback may have removed one of them from `offsets`, and its records are tiered again.
    """

    snapshot_id: int
    head: int
    table_uuid: str
    marker_round_id: str
    offsets: TextOffsets
    starts: TextOffsets
    proofs: Proofs
    traces: Mapping[BucketKey, str]
    living: Collection[int | None]
    skipped: Mapping[str, Mapping[int, str | None]] = field(default_factory=dict)
    """The records that the marker skips, per bucket (`lake_acks.LakeContents`)."""
    dead_letters: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """The records in `skipped` that rounds put aside, per bucket."""
    superseded: Mapping[str, Mapping[int, LaterChange]] = field(default_factory=dict)
    """The records in `skipped` over which a later change of their key won, per bucket."""


def check_no_open_grant(record: TableRecord) -> None:
    """Raises CannotReconcile while a granted round may still commit."""
    if record.running is not None and record.granted and not record.running.acked:
        raise errors.CannotReconcile(
            f"round {record.running.round_id} of {record.path} was granted its commit and has not ended",
            hint="Call again when that round is over; see sys.lake_tiering_status.",
            round_id=record.running.round_id,
        )


def claim(ctx: Context, record: TableRecord, reconciliation: Reconciliation) -> Change:
    """Takes the next epoch, which fences a running round, and records the grant in the ledger before anything is sent.

    If this process dies now, the table continues by itself after the service timeout. Raises CannotReconcile while a granted round is open.
    """
    check_no_open_grant(record)
    order = f"{procedure_of(reconciliation.action)} of {ctx.principal}"
    change = give_way(ctx, Change(record), order)
    record = change.record
    if record.running is not None:
        change = _fenced(ctx, change, f"fenced by {order}").update(retry_deadline=ctx.now.after(ctx.options.service_timeout_ms))
    row = LakeCommitRecord(
        round_id=reconciliation.round_id,
        table_id=record.table_id,
        database_name=record.database_name,
        table_name=record.table_name,
        tiering_epoch=record.tiering_epoch + 1,
        state=CommitState.PREPARED,
        prepared_at=ctx.now.wall,
        base_round_id=reconciliation.base_round_id,
        base_tag=reconciliation.base_tag,
        offsets=reconciliation.offsets,
        lake_table_uuid=reconciliation.lake_table_uuid,
        reconcile_action=reconciliation.action,
        records_left_out=reconciliation.records_left_out,
    )
    change = change.update(tiering_epoch=record.tiering_epoch + 1)
    if reconciliation.records_left_out != 0 and reconciliation.action == ReconcileAction.ACCEPT:
        # Recorded before the commit is sent: if its outcome stays unknown, its marker must not count as what the lake holds.
        change = change.update(lake=replace(record.lake, marker_tells=False))
    if record.state is TableState.PENDING:  # no tierer knows its queued round yet: the round keeps its id and gets a newer epoch
        change = change.update(tiering_epoch=record.tiering_epoch + 2).update_round(tiering_epoch=record.tiering_epoch + 2)
    # If this process dies after the commit, no later round may take a replayed record for one that is skipped. If the commit does not land,
    # the next ack records the records as skipped again, from the marker.
    change = change.update(lake=without_replayed(change.record.lake, reconciliation.settled))
    change = replace(change, commits={**change.commits, row.round_id: row})
    statement, reason = f"{_statement(reconciliation.action)} by {ctx.principal}", reconciliation.reason
    message = statement if reason is None else f"{statement}: {reason}"
    return change.note(ctx, "RECONCILE_STARTED", message, Level.WARN, **_details(reconciliation))


def _details(reconciliation: Reconciliation) -> dict[str, object]:
    return {
        "action": reconciliation.action,
        "reconcile_round_id": reconciliation.round_id,
        "offsets": dict(reconciliation.offsets),
        "records_left_out": reconciliation.records_left_out,
        "left_out": {str(bucket): runs_text(runs) for bucket, runs in reconciliation.left_out.items()},
        **({} if reconciliation.reason is None else {"reason": reconciliation.reason}),
    }


def reconciled(ctx: Context, record: TableRecord, row: LakeCommitRecord, in_lake: ReconciledCommit) -> Change:
    """Records that the lake holds the commit. The recorded offsets follow the lake, also backwards, and the table is due at once."""
    action = row.reconcile_action or ""
    statement = _statement(action)
    lake = replace(
        record.lake,
        table_uuid=in_lake.table_uuid,
        passed_head=in_lake.head,
        snapshot_id=in_lake.snapshot_id,
        offsets=in_lake.offsets,
        starts=in_lake.starts,
        proofs=lake_acks.recorded_proofs(record, in_lake.proofs),
        traces=lake_acks.recorded_traces(in_lake.traces),
        marker_round_id=in_lake.marker_round_id,
        marker_tells=record.lake.marker_tells or action == ReconcileAction.RETIER,
        archived_records=lake_acks.archived_records(record.lake, in_lake.table_uuid, in_lake.living),
        moved_back={},
        unresolved_epoch=None,  # the tag has moved: no earlier request can land
    )
    lake = with_marked_records(lake, in_lake.skipped, in_lake.dead_letters, in_lake.superseded, ctx.now.wall)
    settled = replace(row, state=CommitState.RECONCILED, acked_at=ctx.now.wall, reconciled_by=statement)
    settled = replace(settled, lake_snapshot_id=in_lake.snapshot_id, lake_committed_at=ctx.now.wall)
    change = Change(record).update(lake=lake).update_commit(settled)
    moved_back = tuple(bucket for bucket, offset in (record.lake.offsets or {}).items() if in_lake.offsets.get(bucket, 0) < offset)
    if moved_back:
        change = backlog.start_anew(change, ctx, BacklogCause.RETIERED, moved_back)
    change = backlog.finish_passed(change, ctx, in_lake.offsets)
    details = {
        "action": action,
        "reconcile_round_id": row.round_id,
        "lake_snapshot_id": in_lake.snapshot_id,
        "records_left_out": row.records_left_out,
    }
    change = change.note(ctx, "LAKE_RECONCILED", f"{statement} by {ctx.principal}", Level.WARN, **details)
    return queue_now(ctx, clear_error(change, ctx), f"{statement} by {ctx.principal}")


def abandoned(record: TableRecord, row: LakeCommitRecord, state: CommitState) -> Change:
    """Records a commit that was not sent (ABORTED), or is not in the lake yet (UNKNOWN). A late request fails its compare-and-set."""
    return Change(record).update_commit(replace(row, state=state))


def with_letters_back(change: Change, before: TableRecord, settled: SettledLetters) -> Change:
    """Returns the change of a commit that was not sent, with the dead letters that wait as before it. `before`: before its claim."""
    return change.update(lake=with_replayed_again(change.record.lake, before.lake, settled))


def queue_now(ctx: Context, change: Change, why: str) -> Change:
    """Queues the table at once for a caller. A paused table is due when its pause ends. A granted or queued round does not change."""
    change = give_way(ctx, change, why)
    record = change.record
    if record.running is not None and not record.granted:
        return queue_now(ctx, _fenced(ctx, change, why), why)
    if record.state not in (TableState.SCHEDULED, TableState.FAILED):
        return change
    if record.pause is not None:
        return change.update(due_deadline=ctx.now.steady, retry_deadline=ctx.now.steady)
    call = record.call or QueuedCall(ctx.new_round_id, ctx.principal or "unknown", ctx.now.wall)
    return enter_pending(change.update(call=call), ctx, Trigger.CALL, why)


def _fenced(ctx: Context, change: Change, why: str) -> Change:
    """Fences the table's round for a caller. That is no failure; the table shows the reason until a round succeeds."""
    verdict = judge(ctx, change.record, Fence(why, by_operator=True))
    ended = end_round(change, ctx, RoundState.FENCED, error=verdict.error)
    return ended.update(error=ended.record.error or verdict.error).move(ctx, TableState.FAILED, why, Level.WARN)


def lake_repaired(ctx: Context, record: TableRecord) -> Change:
    """Failed permanently -> Pending, after an inspection found nothing wrong with the lake table. A paused table waits for its pause."""
    why = "nothing is wrong with its lake table any more"
    change = (
        Change(record)
        .update(consecutive_failures=0, consecutive_fences=0, retry_deadline=ctx.now.steady)
        .note(ctx, "LAKE_MENDED", why, Level.INFO)
    )
    return change if record.pause is not None else enter_pending(change, ctx, Trigger.RETRY, why)


def fence_and_retry(ctx: Context, record: TableRecord, why: str) -> Change:
    """Fences the running round, which has no grant, and queues the next one. The next round of a paused table waits for its pause."""
    fenced = _fenced(ctx, Change(record), why)
    return retry(ctx, fenced.record).after(fenced)


def retry(ctx: Context, record: TableRecord) -> Change:
    """Failed -> Pending at once, with the back-off reset. A paused table is due when its pause ends. Other tables do not change.

    A scheduled table with a bucket that stops at a record is due at once, too.
    """
    is_stopped = record.state is TableState.SCHEDULED and is_bucket_stopped(record.error)
    if record.state is not TableState.FAILED and not is_stopped:
        return Change(record)
    change = Change(record).update(consecutive_failures=0, consecutive_fences=0, retry_deadline=ctx.now.steady if not is_stopped else None)
    if is_stopped:
        change = change.update(due_deadline=ctx.now.steady)
    change = change.note(ctx, "TABLE_RETRIED", f"retry_tiering by {ctx.principal}", Level.INFO)
    if record.pause is not None:
        return change
    return enter_pending(change, ctx, Trigger.RETRY, f"retry_tiering by {ctx.principal}").update_round(triggered_by=ctx.principal)
