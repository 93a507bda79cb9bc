"""The round's machine with KV snapshots to lease, and rows to delete that a foreign commit moved."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa

from tiering.errors import BaseMoved, LakeUnavailable
from tiering.lake.base import LakeView, WriteResult
from tiering.model.leases import KvSnapshot
from tiering.model.rounds import Assignment, RoundState, RoundStats
from tiering.model.tables import BucketKey, BucketOffsets, TableBucket, TableInfo, TablePath, TableType
from tiering.round.ports import CombinedOutcome
from tiering.round.steps import actions as act
from tiering.round.steps import machine
from tiering.round.steps.round_state import Step
from tiering.round.steps.steps_to_commit import COMMIT_ATTEMPTS
from tiering.round.steps.steps_to_write import LEASE_ATTEMPTS

PATH = TablePath("sales", "planes")
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])
TABLE = TableInfo(7, PATH, TableType.PRIMARY_KEY, SCHEMA, 1, datetime(2026, 1, 1, tzinfo=UTC), primary_key=("id",))
BUCKET = BucketKey(None, 0)
VIEW = LakeView(PATH, "uuid", None, None, None, {})
LOG = act.LogRead({BUCKET: BucketOffsets(0, 50)}, [], {BUCKET: KvSnapshot(3, 40)})


def after(step: Step, *events: act.Event) -> Step:
    for event in events:
        step = machine.step(step[0], event)
    return step


def planned() -> Step:
    return after(machine.start(Assignment(7, PATH, 1, 1, "round-1"), "cluster"), act.TableRead(TABLE), act.LakeRead(None, None), LOG)


def result(reached: int = 50) -> act.SplitsRun:
    return act.SplitsRun(CombinedOutcome((WriteResult(BUCKET, 40, reached, 10, 1, 1, b"", deletes=4),), stats=machine_stats()))


def machine_stats() -> RoundStats:
    return RoundStats(splits=1)


def sending() -> Step:
    return after(planned(), act.SnapshotsLeased(), act.LakeEnsured(VIEW), act.PlanRecorded(), result(), act.CommitGranted())


def moved(step: Step) -> Step:
    return after(step, act.ActionFailed(step[1], BaseMoved("rewritten")))


def test_snapshots_are_leased_before_anything_is_made_or_read() -> None:
    step = planned()
    assert step[1] == act.LeaseSnapshots({TableBucket(7, BUCKET): 3})
    assert isinstance(after(step, act.SnapshotsLeased())[1], act.EnsureLakeTable)


def test_a_snapshot_that_was_superseded_before_its_lease_is_planned_anew_a_few_times() -> None:
    step = planned()
    for _ in range(LEASE_ATTEMPTS - 1):
        step = after(step, act.SnapshotsLeased([TableBucket(7, BUCKET)]))
        assert isinstance(step[1], act.ReadLog)
        step = after(step, LOG)
    end = after(step, act.SnapshotsLeased([TableBucket(7, BUCKET)]))[1]
    assert isinstance(end, act.End)
    assert end.outcome.error is not None
    assert (end.outcome.error.error_class, end.outcome.phase.value) == ("KvSnapshotGone", "LEASE")


def test_rows_that_moved_are_looked_for_again_without_a_second_grant() -> None:
    state, action = moved(sending())
    assert isinstance(action, act.RunSplits)
    assert (action.to_the_end, state.sent) == (True, 0)
    assert [(split.starting_offset, split.stopping_offset) for split in action.plan.splits] == [(40, 50)]
    state, action = after((state, action), result())
    assert isinstance(action, act.CommitLake)
    assert (state.sent, state.stats.deletes_written) == (1, 4)


def test_work_done_again_that_reaches_other_offsets_is_never_committed() -> None:
    state, action = after(moved(sending()), result(reached=49))
    assert isinstance(action, act.AbortFiles)
    assert state.failure is not None
    assert "other offsets" in state.failure.message


def test_a_base_that_keeps_moving_ends_the_round() -> None:
    step = sending()
    for _ in range(COMMIT_ATTEMPTS):
        step = after(moved(step), result())
        assert isinstance(step[1], act.CommitLake)
    step = after(moved(step), act.FilesAborted())
    assert isinstance(step[1], act.End)
    assert step[1].outcome.state is RoundState.FAILED


def test_work_done_again_that_fails_after_a_request_was_sent_deletes_nothing() -> None:
    step = sending()
    state, _ = step
    state, action = moved((replace(state, sent=2), step[1]))
    assert state.sent == 1
    error = LakeUnavailable("the disk is full")
    _, action = after((state, action), act.SplitsRun(CombinedOutcome((), machine_stats(), error)))
    assert isinstance(action, act.End)
