"""An upkeep round as its machine decides it: which offsets it commits, when it ends EMPTY, and what becomes of a failed rewrite."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from support.clusters.memory_cluster import log_table
from tiering.errors import Cancelled, DataCorrupt, LakeUnavailable, LakewardError
from tiering.lake.base import Committable, FileRewrite, LakeSnapshot, LakeView
from tiering.lake.maintenance import RewriteTask, UpkeepPlan
from tiering.lake.marker import Marker, TieredRange
from tiering.model.rounds import Assignment, RecordedLakeSnapshot, RoundState
from tiering.model.tables import BucketKey
from tiering.model.upkeep import ExpiryOrder, UpkeepOrder, UpkeepStats
from tiering.round.steps import actions as act
from tiering.round.steps import machine
from tiering.round.steps.round_state import Round, Step

TABLE = log_table()
B0 = BucketKey(None, 0)
MARKER = Marker("cluster", TABLE.table_id, "uuid", "round-1", 1, None, {B0: TieredRange(0, 7)}, {B0: "trace"})
SNAPSHOT = LakeSnapshot(5, None, 1, datetime(2026, 1, 1, tzinfo=UTC), "append", round_id="round-1")
VIEW = LakeView(TABLE.path, "uuid", 5, 5, MARKER, {5: SNAPSHOT})
RECORDED = RecordedLakeSnapshot(5, {B0: 7})
TASK = RewriteTask(B0, None, b"", 3, 300)
REWRITE = FileRewrite(B0, b"", 3, 1, 300, 290)


def assignment(order: UpkeepOrder) -> Assignment:
    return Assignment(TABLE.table_id, TABLE.path, 2, 1, "round-2", "uuid", 5, RECORDED, upkeep=order)


def based(order: UpkeepOrder, view: LakeView | None = VIEW) -> Step:
    """A round that has read table and lake."""
    of_round = assignment(order)
    if view is None:
        of_round = replace(of_round, lake_table_uuid=None, passed_head=None, recorded=None)
    state, _ = machine.start(of_round, "cluster")
    state, _ = machine.step(state, act.TableRead(TABLE))
    return machine.step(state, act.LakeRead(view, None if view is None else RECORDED))


def planned(order: UpkeepOrder, plan: UpkeepPlan) -> Step:
    state, action = based(order)
    assert action == act.EnsureLakeTable(TABLE, may_create=False)
    state, action = machine.step(state, act.LakeEnsured(VIEW))
    assert isinstance(action, act.RecordPlan)
    assert dict(action.plan.stops) == {B0: 7}
    state, action = machine.step(state, act.PlanRecorded())
    assert action == act.PlanUpkeep(TABLE, VIEW, order)
    return machine.step(state, act.UpkeepPlanned(plan))


def rewritten(*rewrites: FileRewrite, error: LakewardError | None = None, bytes_left: int = 0) -> Step:
    state, action = planned(UpkeepOrder(), UpkeepPlan((TASK,), bytes_left=40))
    assert action == act.RewriteFiles(TABLE, (TASK,))
    return machine.step(state, act.FilesRewritten(rewrites, bytes_left, error))


def ended(step: Step) -> RoundState:
    _, action = step
    assert isinstance(action, act.End)
    return action.outcome.state


def test_a_table_that_was_never_tiered_needs_no_upkeep() -> None:
    assert ended(based(UpkeepOrder(), None)) is RoundState.EMPTY
    assert ended(based(UpkeepOrder(manifests=True), None)) is RoundState.EMPTY


def test_with_nothing_to_rewrite_the_round_is_empty_and_says_what_is_left() -> None:
    state, action = planned(UpkeepOrder(), UpkeepPlan(bytes_left=0))
    assert ended((state, action)) is RoundState.EMPTY
    assert state.stats.upkeep == UpkeepStats(bytes_left=0)


@pytest.mark.parametrize("order", [UpkeepOrder(manifests=True), UpkeepOrder(rewrite=False, expiry=ExpiryOrder())])
def test_manifests_and_expiry_are_committed_without_any_rewrite(order: UpkeepOrder) -> None:
    state, action = planned(order, UpkeepPlan())
    assert isinstance(action, act.BeginCommit)
    assert state.committable == Committable("round-2", (), (), order)


def test_the_marker_has_the_offsets_of_the_base_under_the_rounds_name() -> None:
    state, action = rewritten(REWRITE, bytes_left=300)
    assert isinstance(action, act.BeginCommit)
    assert dict(action.proposed.offsets) == {B0: 7}
    assert (action.proposed.records, action.proposed.base_round_id, action.proposed.base_tag) == (0, "round-1", 5)
    assert state.marker == replace(MARKER, round_id="round-2", tiering_epoch=2, base_round_id="round-1")
    assert state.committable == Committable("round-2", (), (REWRITE,), UpkeepOrder())
    assert state.stats.upkeep == UpkeepStats(bytes_left=340)
    state, action = machine.step(state, act.CommitGranted())
    assert isinstance(action, act.CommitLake)


@pytest.mark.parametrize(("error", "end"), [(Cancelled("due"), RoundState.CANCELLED), (LakeUnavailable("full"), RoundState.FAILED)])
def test_after_an_error_the_files_of_the_other_rewrites_are_deleted(error: LakewardError, end: RoundState) -> None:
    state, action = rewritten(REWRITE, error=error)
    assert action == act.AbortFiles(TABLE, Committable("round-2", (), (REWRITE,), UpkeepOrder()))
    assert ended(machine.step(state, act.FilesAborted())) is end


def test_a_damaged_file_holds_up_its_own_bucket_alone() -> None:
    _, action = rewritten(REWRITE, error=DataCorrupt("torn"))
    assert isinstance(action, act.BeginCommit)
    assert ended(rewritten(error=DataCorrupt("torn"))) is RoundState.FAILED


def test_a_round_that_is_in_the_lake_already_is_not_committed_again() -> None:
    again = replace(VIEW, snapshots={5: SNAPSHOT, 4: replace(SNAPSHOT, snapshot_id=4, round_id="round-2", sequence_number=0)})
    state: Round
    state, action = based(UpkeepOrder(), again)
    assert ended((state, action)) is RoundState.FAILED
