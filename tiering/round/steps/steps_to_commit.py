"""The steps of a round after its splits were written: contiguous prefix, fence, commit, and its outcome. Pure (DESIGN 6 steps 5-8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tiering.errors import (
    BaseMoved,
    BucketStopped,
    Cancelled,
    CommitOutcomeUnknown,
    Fenced,
    LakewardError,
    LogTruncated,
    RoundFailed,
    SourceChanged,
)
from tiering.lake.base import Committable, FileRewrite, WriteResult
from tiering.lake.dead_letters.letter import dead_letters_of, with_letters
from tiering.lake.marker import Marker, TieredRange, next_dead_letters, next_left_out, next_skipped, next_superseded
from tiering.lake.proof.bucket_proof import advanced
from tiering.lake.rules.archived_rows import next_archives
from tiering.lake.rules.base_check import Base, CommitOutcome, check_same_base, resolve_commit, tiered_offsets
from tiering.model.refused_records import offset_of
from tiering.model.rounds import Phase, RoundStats
from tiering.model.tables import BucketKey
from tiering.planning.check_log import Traces, confirmed_traces, kept_traces, witnesses_of
from tiering.planning.plan_splits import Plan, Prefix, contiguous_prefix, next_buckets, plan_again
from tiering.round.ports import ProposedCommit
from tiering.round.steps import actions as act
from tiering.round.steps.round_state import Round, Step, base_of, end_failed, failed, plan_of, table_of
from tiering.round.steps.steps_to_write import expected_lake

COMMIT_ATTEMPTS = 5
"""Number of times that a commit is sent on a new head, if only foreign commits came between or the request seems lost."""


def splits_run(state: Round, event: act.SplitsRun) -> Step:
    """Takes the contiguous prefix of the work, and requests the grant for it.

    A bucket that stops at a record which cannot be written has a shorter prefix. The other buckets are committed, and a successful round
    reports the record. If only such buckets are left, the round fails with the record's error.
    """
    work = event.work
    if state.marker is not None:
        return _splits_run_again(state, event)
    state = replace(state, stats=work.stats, phase=work.phase, committable=Committable(state.assignment.round_id, work.results))
    state = replace(state, stopped=next(iter(work.stopped), None), stopped_phase=work.phase)
    if work.error is not None:
        return failed(state, error_of_reading(work.error))
    plan = plan_of(state)
    prefix = contiguous_prefix(work.results, plan.bases)
    if (error := _error_instead_of_commit(state, prefix, work.stopped)) is not None:
        return failed(state, error)
    buckets = next_buckets(plan, prefix)
    state = replace(
        state,
        marker=_marker_of(state, event, prefix, buckets),
        committable=Committable(state.assignment.round_id, prefix.kept),
        whole=_is_whole(plan, buckets, work.stopped),
        stats=_committed_stats(work.stats, prefix.kept),
    )
    if witnesses := witnesses_of(buckets, state.traces):
        return state, act.ReadTraces(table_of(state), {bucket: buckets[bucket].tiered for bucket in witnesses}, witnesses)
    return merge_files(state)


def _error_instead_of_commit(state: Round, prefix: Prefix, stopped: Sequence[BucketStopped]) -> LakewardError | None:
    """Returns the error of a round that has nothing to commit, or may not commit a part of its work; None = the prefix is committed."""
    is_progress = _is_progress(plan_of(state), prefix)
    if stopped and (base_of(state).moved_back or not (is_progress or _may_land_late(state))):
        return stopped[0]  # a replay is committed as a whole or not at all, see `steps_to_write.plan_recorded`
    return None if stopped or is_progress else Cancelled("the round was stopped before any record was read")


def _marker_of(state: Round, event: act.SplitsRun, prefix: Prefix, buckets: Mapping[BucketKey, TieredRange]) -> Marker:
    """Returns the marker of a round that reaches `buckets`."""
    base, round_id = base_of(state), state.assignment.round_id
    skipped = _skipped(state, prefix, buckets)
    letters = next_dead_letters({} if base.marker is None else base.marker.dead_letters, dead_letters_of(prefix.kept), skipped)
    return Marker(
        cluster_id=state.cluster_id,
        table_id=state.assignment.table_id,
        lake_table_uuid=state.lake_table_uuid or "",
        round_id=round_id,
        tiering_epoch=state.assignment.tiering_epoch,
        base_round_id=None if base.marker is None else base.marker.round_id,
        buckets=buckets,
        traces=kept_traces(buckets, state.traces),
        skipped=skipped,
        dead_letters=letters,
        superseded={} if base.marker is None else next_superseded([base.marker.superseded], skipped, letters),
        left_out=next_left_out({} if base.marker is None else base.marker.left_out, buckets),
        backfills=() if base.marker is None else base.marker.backfills,
        archives=next_archives(table_of(state), base.marker, base.ranges, event.work.occupied, buckets),
        proofs=advanced({} if base.view is None else base.view.proofs, base.ranges, buckets, prefix.kept, round_id),
    )


def _skipped(state: Round, prefix: Prefix, buckets: Mapping[BucketKey, TieredRange]) -> dict[BucketKey, dict[int, str | None]]:
    """Returns the records below `buckets` that the lake rightly lacks, with those that this round put aside."""
    marker, plan = base_of(state).marker, plan_of(state)
    left_out = with_letters(state.assignment.skipped, (letter for result in prefix.kept for letter in result.dead_letters))
    return next_skipped({} if marker is None else marker.skipped, left_out, plan.bases, buckets)


def traces_read(state: Round, now: Traces) -> Step:
    """Adds the traces of the last records of buckets that stopped early to the marker. Raises SourceChanged."""
    marker = state.marker
    assert marker is not None
    confirmed = confirmed_traces(table_of(state), witnesses_of(marker.buckets, state.traces), state.traces, now)
    return merge_files(replace(state, marker=replace(marker, traces=kept_traces(marker.buckets, {**state.traces, **confirmed}))))


def merge_files(state: Round) -> Step:
    """Merges small files of the buckets to which the round adds rows, if the table's options allow it.

    This step comes before the fence, so that merged files can be dropped with the other work of the round.
    """
    table, view, committable = table_of(state), base_of(state).view, state.committable
    assert committable is not None
    names = {split.bucket: split.partition_name for split in plan_of(state).splits}
    buckets = {result.bucket: names.get(result.bucket) for result in committable.results if result.files}
    if not table.auto_compaction or view is None or view.head is None or not buckets:
        return begin_commit(state)
    return state, act.MergeFiles(table, view, buckets)


def files_merged(state: Round, rewrites: tuple[FileRewrite, ...]) -> Step:
    """Adds the merged files to the commit."""
    assert state.committable is not None
    return begin_commit(replace(state, committable=replace(state.committable, rewrites=rewrites)))


def begin_commit(state: Round) -> Step:
    """Requests the grant for the completed work."""
    base, marker, committable = base_of(state), state.marker, state.committable
    assert marker is not None
    assert committable is not None
    proposed = ProposedCommit(
        base_round_id=None if base.marker is None else base.marker.round_id,
        base_tag=None if base.view is None else base.view.tiered,
        offsets=tiered_offsets(marker),
        records=sum(result.records for result in committable.results),
        files=sum(result.files for result in committable.results),
    )
    return replace(state, phase=Phase.FENCE), act.BeginCommit(proposed)


def error_of_reading(error: LakewardError) -> LakewardError:
    """Returns the error of a round whose splits were not read to their end.

    A cut log becomes SourceChanged, which is retryable: only reading the log again shows which records the lake lacks, if any. For example,
    a bucket that was never tiered then starts later.
    """
    if not isinstance(error, LogTruncated):
        return error
    return SourceChanged(f"the log was cut while the round was under way: {error.message}", **error.ids)


def _is_progress(plan: Plan, prefix: Prefix) -> bool:
    """Returns whether the work moves the marker. A KV snapshot moves it even if no record follows, and so does a commit planned without
    rows.
    """
    return not plan.splits or prefix.reached != plan.bases or any(result.bucket in plan.untiered for result in prefix.kept)


def _may_land_late(state: Round) -> bool:
    """Returns whether a commit of an earlier round may still land. A snapshot without rows prevents that: the late commit fails its
    compare-and-set.

    Without such a snapshot the outcome stays unknown for as long as all buckets with new records stop at a record. A base that is ahead of
    the coordinator's records is the commit that landed, or a later one.
    """
    return state.assignment.unresolved and not base_of(state).ahead


def _is_whole(plan: Plan, buckets: Mapping[BucketKey, TieredRange], stopped: Sequence[BucketStopped]) -> bool:
    """Returns whether no bucket has anything left that the next round could commit at once.

    A bucket that stops at a record has to reach the split with that record. A bucket that stops at its KV snapshot cannot progress.
    """
    ends: dict[BucketKey, int | None] = dict(plan.stops)
    for error in reversed(stopped):  # the first record of each bucket counts
        bucket, offset = BucketKey.parse(error.ids["bucket"]), offset_of(error)
        starts = [split.starting_offset for split in plan.splits if split.bucket == bucket]
        ends[bucket] = None if offset is None else max((start for start in starts if start <= offset), default=plan.bases[bucket])
    return all(end is None or (bucket in buckets and buckets[bucket].tiered >= end) for bucket, end in ends.items())


def _splits_run_again(state: Round, event: act.SplitsRun) -> Step:
    """Takes the work of splits that were run again after the grant. It must reach exactly the same offsets, because the marker has them and
    they were granted.
    """
    work, marker = event.work, state.marker
    assert marker is not None
    if work.error is not None:
        return failed(replace(state, phase=work.phase), error_of_reading(work.error))
    prefix = contiguous_prefix(work.results, plan_of(state).bases)
    if dict(next_buckets(plan_of(state), prefix)) != dict(marker.buckets):
        return failed(state, RoundFailed("splits that were run again reached other offsets than before"))
    if _skipped(state, prefix, marker.buckets) != dict(marker.skipped):
        return failed(state, RoundFailed("splits that were run again put other records aside than before"))
    committable = Committable(state.assignment.round_id, prefix.kept)
    return send_commit(replace(state, committable=committable, stats=_committed_stats(work.stats, prefix.kept)), base_of(state))


def _committed_stats(stats: RoundStats, kept: tuple[WriteResult, ...]) -> RoundStats:
    return replace(
        stats,
        records_written=sum(result.records for result in kept),
        bytes_written=sum(result.size_bytes for result in kept),
        files_written=sum(result.files for result in kept),
        deletes_written=sum(result.deletes for result in kept),
    )


def commit_granted(state: Round) -> Step:
    """Appends the dead letters to their own table before the commit whose marker names them. Without dead letters sends the commit."""
    results = () if state.committable is None else state.committable.results
    letters = tuple(letter for result in results for letter in result.dead_letters)
    if not letters:
        return send_commit(state, base_of(state))
    return replace(state, phase=Phase.LAKE_COMMIT), act.PutRecordsAside(table_of(state), letters)


def send_commit(state: Round, base: Base) -> Step:
    """Sends one commit request on `base`."""
    committable, marker, view = state.committable, state.marker, base.view
    if committable is None or marker is None or view is None:
        raise AssertionError("a commit was granted before there was anything to commit")
    state = replace(state, base=base, phase=Phase.LAKE_COMMIT, sent=state.sent + 1)
    return state, act.CommitLake(table_of(state), committable, view, marker, state.snapshot_properties)


def commit_not_sent(state: Round, error: LakewardError) -> Step:
    """Handles a commit that failed before its request was sent. If the base has moved, the rows to delete are located again on the new
    head.
    """
    state = replace(state, sent=state.sent - 1)
    view = base_of(state).view
    if not isinstance(error, BaseMoved) or state.redone >= COMMIT_ATTEMPTS or view is None:
        return failed(state, error)
    marker = state.marker
    assert marker is not None
    plan = plan_again(plan_of(state), marker.buckets)
    state = replace(state, plan=plan, phase=Phase.WRITE, redone=state.redone + 1)
    return state, act.RunSplits(table_of(state), plan, state.lake_table_uuid or "", view, to_the_end=True)


def commit_resolved(state: Round, event: act.LakeRead) -> Step:
    """Decides from a new view of the lake whether the sent request has landed, and returns the next step."""
    base = base_of(state)
    resolved = resolve_commit(event.view, state.assignment.round_id, base)
    if resolved.outcome is CommitOutcome.OTHER_ROUND:
        raise Fenced(
            f"another round tiered {state.assignment.path} first", table_path=state.assignment.path, round_id=state.assignment.round_id
        )
    if resolved.outcome is CommitOutcome.OURS and event.view is not None:
        marker, tiered = event.view.marker, event.view.tiered
        if marker is None or tiered is None or resolved.snapshot_id is None:
            return end_failed(state, unknown(state, "it landed, but the lake table has lost its marker"))
        head = event.view.identity_of(resolved.snapshot_id)
        return replace(state, phase=Phase.ACK, snapshot_id=resolved.snapshot_id, passed_head=head), act.Ack(marker, tiered)
    if state.sent >= COMMIT_ATTEMPTS:
        return end_failed(state, unknown(state, f"it was sent {state.sent} times, but the lake does not show it"))
    return send_commit(state, check_same_base(base, event.view, expected_lake(state, event.recorded_by_cluster)))


def unknown(state: Round, why: str) -> LakewardError:
    """Returns the error of a round whose commit has an unknown outcome."""
    cause = "" if state.commit_error is None else f" ({state.commit_error.message})"
    return CommitOutcomeUnknown(
        f"the commit of round {state.assignment.round_id} to {state.assignment.path} did not go through: {why}{cause}",
        hint="The next round reads the lake again and continues from its state.",
        table_path=state.assignment.path,
        round_id=state.assignment.round_id,
    )
