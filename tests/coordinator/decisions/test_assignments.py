"""The rules for tables that the cluster assigns: whatever stands in the records."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from support.clusters.memory_cluster import log_table
from support.worlds.coordinator_world import START
from tiering.coordinator.decisions import assignments
from tiering.coordinator.decisions.assignments import LONGEST_REST_MS, RequestThrottle, is_held, report_of, to_hand_back
from tiering.coordinator.decisions.change import Change, Context, enter_pending
from tiering.coordinator.decisions.moment import Moment
from tiering.coordinator.decisions.records import (
    AssignmentEnd,
    AssignmentRecord,
    CommitState,
    ErrorInfo,
    LakeCommitRecord,
    Pause,
    TableRecord,
    Trigger,
)
from tiering.coordinator.decisions.round_lifecycle import Failure, fail
from tiering.coordinator.decisions.round_lifecycle import assign as begin
from tiering.coordinator.decisions.table_lifecycle import discover
from tiering.coordinator.options import CoordinatorOptions
from tiering.model.assignments import AssignmentRef
from tiering.model.states import TableState
from tiering.model.tables import TablePath

OPTIONS = CoordinatorOptions(assigned_by_cluster=True, held_tables=2)


def context(seconds: float = 0) -> Context:
    moment = START + timedelta(seconds=seconds)
    return Context(Moment(moment, moment), 1, OPTIONS, "r1")


def scheduled(table_id: int = 1) -> TableRecord:
    return discover(context(), log_table(table_id, TablePath("sales", f"t{table_id}"))).record


def with_turn(record: TableRecord, since: int = 0, **changes: object) -> TableRecord:
    held = AssignmentRecord(0, 1, "session", START + timedelta(seconds=since))
    return replace(record, assignment=replace(held, **changes))  # type: ignore[arg-type]


def running(record: TableRecord, *, granted: bool = False) -> TableRecord:
    pending = enter_pending(Change(record), context(), Trigger.SCHEDULE, "test").record
    begun = begin(context(), pending, "tierer-1").record
    assert begun.round is not None
    row = LakeCommitRecord(
        begun.round.round_id, begun.table_id, "sales", begun.table_name, begun.tiering_epoch, CommitState.PREPARED, START
    )
    return replace(begun, commit=row) if granted else begun


def failed(record: TableRecord, *, retryable: bool = True, error_class: str = "OSError") -> TableRecord:
    error = ErrorInfo(error_class, "no disk left", None, "", retryable=retryable, time=START)
    return fail(context(), running(record), Failure(error)).record


@st.composite
def tables(draw: st.DrawFn) -> list[TableRecord]:
    """Assigned tables in all conditions, with table ids 1, 2, ..."""
    records = []
    for table_id in range(1, draw(st.integers(1, 8)) + 1):
        end = draw(st.sampled_from([None, None, None, *AssignmentEnd]))
        record = with_turn(scheduled(table_id), draw(st.integers(0, 9)), end=end, certain=draw(st.booleans()))
        if end is None:
            steps = [lambda r: r, running, lambda r: running(r, granted=True), failed, lambda r: failed(r, retryable=False)]
            record = draw(st.sampled_from(steps))(record)
        if draw(st.booleans()):
            record = replace(record, pause=Pause("alice", None, START))
        if draw(st.integers(0, 4)) == 0:
            record = replace(record, lake=replace(record.lake, unresolved_epoch=1))
        records.append(replace(record, lake_format=draw(st.sampled_from(["iceberg", "iceberg", "paimon"]))))
    return records


@given(tables())
def test_every_assignment_is_said_once_and_unresolved_ones_are_only_renewed(records: list[TableRecord]) -> None:
    report = report_of(records, wants_table=False)
    refs = [record.assignment_ref for record in records]
    assert sorted([*report.renewed, *report.finished, *report.failed]) == sorted(ref for ref in refs if ref is not None)
    for record in records:
        ours = record.assignment is not None and record.assignment.end is None
        assert (record.assignment_ref in report.renewed) == (ours or record.unresolved_commit)


@given(tables(), st.booleans(), st.integers(0, 100))
def test_what_is_kept_is_written_here_within_the_limit_and_nothing_that_may_still_land_goes_back(
    records: list[TableRecord], connected: bool, seconds: int
) -> None:
    back = to_hand_back(records, OPTIONS, context(seconds).now, connected=connected)
    assert not [record for record in back if record.unresolved_commit or record.running is not None or not record.has_turn]
    kept = [record for record in records if record not in back and record.has_turn and not record.unresolved_commit]
    held = [record for record in kept if is_held(record)]
    assert len(held) <= OPTIONS.held_tables
    assert all(record.lake_format == OPTIONS.lake_format for record in kept if record.running is None)
    for record in back:
        assert record.assignment is not None
        if is_held(record) and record.lake_format == OPTIONS.lake_format:
            assert all(
                other.assignment is not None and other.assignment.assigned_since <= record.assignment.assigned_since for other in held
            )


@given(tables())
def test_no_round_without_a_grant_outlives_the_session(records: list[TableRecord]) -> None:
    for record in records:
        after = assignments.end_session(context(), record).record
        assert not after.has_turn
        if after.assignment is not None:
            assert after.unresolved_commit
        if after.running is not None:
            assert after.granted or (record.assignment is not None and not record.assignment.certain)


@given(st.lists(st.sampled_from(["back", "begin"]), max_size=40))
def test_the_more_tables_go_back_the_less_is_asked_for(steps: list[str]) -> None:
    now = context().now
    pace = RequestThrottle()
    for step in steps:
        pace = pace.after_hand_back(now) if step == "back" else pace.after_begin()
    in_a_row = len(steps) - max((index + 1 for index, step in enumerate(steps) if step == "begin"), default=0)
    assert pace.may_ask(now) == (in_a_row == 0)
    assert pace.may_ask(context(LONGEST_REST_MS / 1_000).now)
    assert pace.may_ask(context(min(2.0 ** (in_a_row - 1), LONGEST_REST_MS / 1_000)).now)


def test_a_running_round_goes_on_when_the_cluster_assigns_its_table_anew() -> None:
    record = running(with_turn(scheduled()))
    change = assignments.assign(context(), record, AssignmentRef(record.table_id, 0, 7), "next")
    assert change.record.running == record.running
    assert change.record.assignment is not None
    assert (change.record.assignment.tiering_epoch, change.record.assignment.session) == (7, "next")


def test_a_table_that_failed_in_a_way_of_this_service_goes_back_and_says_why() -> None:
    record = failed(scheduled(), retryable=False, error_class="UnsupportedType")
    change = assignments.assign(context(), record, AssignmentRef(record.table_id, 0, 7), "session")
    assert change.record.assignment is not None
    assert change.record.assignment.end is AssignmentEnd.FAILED
    assert change.record.state is TableState.FAILED
    unresolved = replace(record, lake=replace(record.lake, unresolved_epoch=1))
    assert assignments.assign(context(), unresolved, AssignmentRef(record.table_id, 0, 7), "session").record.has_turn
    assert assignments.why_not_written(record, "iceberg") == "this service cannot write it: UnsupportedType: no disk left"
    assert assignments.why_not_written(failed(scheduled(), retryable=False), "iceberg") is None
