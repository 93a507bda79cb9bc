"""`CALL sys.skip_record` leaves out one record: no other one at its offset, and none that a round passes at the same time."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.background import tick
from support.lake_kinds.kinds import ICEBERG_CLEAN, LAKE_KINDS, PAIMON_CLEAN, LakeKind
from support.lake_kinds.poisoned import POISON, Poisoned, refuse_poison
from support.on_call import call, in_lake, next_action
from support.worlds.memory_store import MemoryStore
from support.worlds.validated import check, faults
from tiering.coordinator.decisions.change import Change
from tiering.coordinator.decisions.records import TextOffsets
from tiering.coordinator.observing.lake_reader import Lakes
from tiering.errors import ClusterUnavailable, InvalidArgument, LogRewritten, TableBusy
from tiering.model.rounds import RoundState
from tiering.model.states import TableState
from tiering.model.tables import BucketKey, Offsets, TableInfo
from tiering.round.steps import actions as act
from tiering.round.tasks import stopped_records

OFFSET = 10
"""Offset of the record that no lake can hold."""


@pytest.fixture(autouse=True)
def _lakes_refuse_poison(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_poison(monkeypatch)


@pytest.fixture(params=[False, True], ids=["log", "primary key"])
def poisoned(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Poisoned]:
    """Ten rows are in the lake; a copy of the cluster's folder has the same ten; the bucket stops at the record behind them."""
    table = Poisoned(tmp_path, ICEBERG_CLEAN, has_key=request.param, buckets=1)
    table.write(*((number, f"row {number}") for number in range(OFFSET)))
    assert table.world.tier(table.table).error is None
    root = stopped_cluster(table)
    shutil.copytree(root, root.with_name("copy"))
    table.world.reopen()
    yield table
    table.world.close()


def stopped_cluster(poisoned: Poisoned) -> Path:
    poisoned.world.coordinator.close()
    poisoned.world.storage.close()
    return poisoned.world.storage.root


def restore(poisoned: Poisoned) -> None:
    """The cluster is what it was with ten rows. The coordinator's store and the lake are as they are."""
    root = stopped_cluster(poisoned)
    shutil.rmtree(root)
    shutil.copytree(root.with_name("copy"), root)
    poisoned.world.reopen()


def stop_at_poison(poisoned: Poisoned, number: int = 100) -> Any:
    poisoned.write((number, POISON))
    failed = poisoned.world.tier(poisoned.table)
    assert failed.error is not None
    assert (failed.error.error_class, failed.error.ids["offset"]) == ("BucketStopped", str(OFFSET))
    return failed


def test_a_good_record_that_the_restored_cluster_has_at_the_offset_is_tiered(poisoned: Poisoned) -> None:
    assert poisoned.skip(stop_at_poison(poisoned)).outcome == "skipped"
    restore(poisoned)
    poisoned.write((200, "good"), (201, "good"))
    assert poisoned.world.tier(poisoned.table).state is RoundState.SUCCEEDED
    assert {200, 201} <= poisoned.in_lake().keys()
    assert len(poisoned.in_lake()) == OFFSET + 2
    assert not faults(check(poisoned.world, poisoned.table))


def test_another_bad_record_at_the_offset_is_shown_and_skipped_by_a_call_of_its_own(poisoned: Poisoned) -> None:
    assert poisoned.skip(stop_at_poison(poisoned)).outcome == "skipped"
    restore(poisoned)
    failed = stop_at_poison(poisoned, 200)
    [status] = poisoned.world.coordinator.view().table_statuses()
    assert (status.status, status.error_class) == ("Failed", "BucketStopped")
    assert poisoned.skip(failed).outcome == "skipped"
    assert poisoned.skip(failed).outcome == "already_skipped"
    poisoned.write((201, "good"))
    assert poisoned.world.tier(poisoned.table).state is RoundState.SUCCEEDED
    assert poisoned.in_lake().keys() == {*range(OFFSET), 201}
    assert not faults(check(poisoned.world, poisoned.table))


def test_a_call_after_the_restore_does_not_leave_out_the_record_that_came_since(poisoned: Poisoned) -> None:
    failed = stop_at_poison(poisoned)
    restore(poisoned)
    poisoned.write((200, "good"))
    with pytest.raises(InvalidArgument, match=f"now has another record at offset {OFFSET} "):
        poisoned.skip(failed)
    assert poisoned.world.tier(poisoned.table).state is RoundState.SUCCEEDED
    assert 200 in poisoned.in_lake()


def test_a_store_that_was_lost_learns_from_the_marker_what_was_left_out(poisoned: Poisoned) -> None:
    failed = stop_at_poison(poisoned)
    poisoned.skip(failed)
    assert poisoned.world.tier(poisoned.table).state is RoundState.SUCCEEDED
    remembered = poisoned.world.record(poisoned.table).lake.skipped_records
    poisoned.world.store = MemoryStore()
    poisoned.world.restart()
    poisoned.write((200, "good"))
    assert poisoned.world.tier(poisoned.table).state is RoundState.FENCED, "the marker has a higher epoch"
    assert poisoned.world.tier(poisoned.table).state is RoundState.SUCCEEDED
    assert poisoned.world.record(poisoned.table).lake.skipped_records == remembered
    assert [trace for records in remembered.values() for trace in records.values()] != [None]
    assert poisoned.skip(failed).outcome == "already_skipped"


def test_a_lost_store_and_a_restored_cluster_lose_no_row_to_the_marker(poisoned: Poisoned) -> None:
    poisoned.skip(stop_at_poison(poisoned))
    assert poisoned.world.tier(poisoned.table).state is RoundState.SUCCEEDED
    poisoned.world.store = MemoryStore()
    restore(poisoned)
    poisoned.write((200, "good"), (201, "good"))
    for _ in range(2):  # the marker has a higher epoch than the first round
        assert isinstance(poisoned.world.tier(poisoned.table).error, LogRewritten)
    rename = next_action(poisoned.world.coordinator, poisoned.table)
    assert rename is not None
    in_lake(poisoned.world)(rename)
    retier = next_action(poisoned.world.coordinator, poisoned.table)
    assert retier is not None
    call(poisoned.world.coordinator, retier)
    assert poisoned.world.tier(poisoned.table).error is None
    assert poisoned.in_lake().keys() == {*range(OFFSET), 200, 201}


def test_a_record_that_a_granted_round_passes_is_not_left_out(poisoned: Poisoned, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = stop_at_poison(poisoned)
    monkeypatch.undo()  # a later version can write it
    poisoned.world.due()
    running = poisoned.world.begin(poisoned.table).advance_to(act.CommitLake)
    with pytest.raises(TableBusy, match="is committing records of bucket 0 behind offset 10") as busy:
        poisoned.skip(failed)
    assert busy.value.retryable
    assert running.end().state is RoundState.SUCCEEDED
    assert poisoned.in_lake()[100] == POISON
    with pytest.raises(InvalidArgument, match="the lake has that record already"):
        poisoned.skip(failed)
    assert not poisoned.world.record(poisoned.table).lake.skipped


@pytest.mark.parametrize("step", [act.ReadTable, act.RunSplits, act.BeginCommit])
def test_a_round_that_was_begun_with_the_record_is_fenced(
    poisoned: Poisoned, monkeypatch: pytest.MonkeyPatch, step: type[act.Action]
) -> None:
    failed = stop_at_poison(poisoned)
    monkeypatch.undo()  # a later version can write it
    poisoned.world.due()
    running = poisoned.world.begin(poisoned.table).advance_to(step)
    assert poisoned.skip(failed, dry_run=True).outcome == "would_skip"
    assert poisoned.world.record(poisoned.table).running is not None
    assert poisoned.skip(failed).outcome == "skipped"
    assert running.end().state is RoundState.FENCED
    record = poisoned.world.record(poisoned.table)
    assert (record.state, record.consecutive_failures, record.consecutive_fences) == (TableState.PENDING, 0, 0)
    assert poisoned.world.tier(poisoned.table).state is RoundState.SUCCEEDED
    assert poisoned.in_lake().keys() == set(range(OFFSET))
    assert poisoned.world.record(poisoned.table).error is None


def test_what_is_known_of_the_lake_needs_no_tablet_server(poisoned: Poisoned, monkeypatch: pytest.MonkeyPatch) -> None:
    poisoned.skip(stop_at_poison(poisoned))
    record = poisoned.world.record(poisoned.table)
    assert [trace for records in record.lake.skipped_records.values() for trace in records.values()] != [None]

    def no_leader(*_: object) -> Any:
        raise ClusterUnavailable("no server shows the records of bucket 0 now")

    monkeypatch.setattr(type(poisoned.world.storage), "record_traces", no_leader)
    expected_lake = Lakes(poisoned.world.storage, lambda _: pytest.fail("the lake is not read")).expected(record, poisoned.table)
    assert expected_lake.skipped == record.lake.skipped_records


def test_a_record_that_a_lost_commit_may_have_passed_is_not_left_out(poisoned: Poisoned, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = stop_at_poison(poisoned)
    with monkeypatch.context():
        monkeypatch.undo()
    poisoned.world.due()
    late = poisoned.world.begin(poisoned.table).advance_to(act.CommitLake)
    poisoned.world.clock.advance(3_600)
    tick(poisoned.world.coordinator)
    assert poisoned.world.record(poisoned.table).unresolved_commit
    with pytest.raises(TableBusy, match="its outcome is unknown"):
        poisoned.skip(failed)
    late.end()
    assert poisoned.world.tier(poisoned.table).error is None
    assert poisoned.in_lake()[100] == POISON
    with pytest.raises(InvalidArgument, match="the lake has that record already"):
        poisoned.skip(failed)


def test_a_round_ends_a_late_commit_that_may_pass_the_record(poisoned: Poisoned, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = stop_at_poison(poisoned)
    monkeypatch.undo()
    poisoned.world.due()
    late = poisoned.world.begin(poisoned.table).advance_to(act.CommitLake)
    poisoned.world.clock.advance(3_600)
    tick(poisoned.world.coordinator)
    refuse_poison(monkeypatch)  # the tierers that remain cannot write it: their rounds have no rows to commit
    with pytest.raises(TableBusy, match="its outcome is unknown"):
        poisoned.skip(failed)
    ended = poisoned.world.tier(poisoned.table)
    assert ended.state is RoundState.SUCCEEDED
    assert ended.error is not None
    assert (ended.error.error_class, ended.stats.records_written) == ("BucketStopped", 0)
    record = poisoned.world.record(poisoned.table)
    assert (record.lake.unresolved_epoch, record.lake.offsets) == (None, {"0": OFFSET})
    assert poisoned.world.tier(poisoned.table).state is RoundState.FAILED, "one commit without rows is enough"
    assert poisoned.skip(failed).outcome == "skipped"
    assert late.end().state is RoundState.FENCED
    assert poisoned.world.tier(poisoned.table).state is RoundState.SUCCEEDED
    assert poisoned.in_lake().keys() == set(range(OFFSET))
    assert not faults(check(poisoned.world, poisoned.table))


@pytest.mark.parametrize("kind", LAKE_KINDS, ids=str)
def test_a_first_commit_that_may_land_late_is_ended_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: LakeKind) -> None:
    poisoned = Poisoned(tmp_path, kind, has_key=kind is PAIMON_CLEAN, buckets=1)
    poisoned.write((100, POISON))
    failed = poisoned.world.tier(poisoned.table)
    monkeypatch.undo()
    poisoned.world.due()
    late = poisoned.world.begin(poisoned.table).advance_to(act.CommitLake)
    poisoned.world.clock.advance(3_600)
    tick(poisoned.world.coordinator)
    refuse_poison(monkeypatch)
    assert poisoned.world.tier(poisoned.table).state is RoundState.SUCCEEDED
    assert poisoned.skip(failed).outcome == "skipped"
    assert late.end().state is not RoundState.SUCCEEDED
    poisoned.write((1, "good"))
    assert poisoned.world.tier(poisoned.table).error is None
    assert poisoned.in_lake() == {1: "good"}
    poisoned.world.close()


@pytest.mark.parametrize("is_lost", [False, True], ids=["granted", "lost"])
def test_a_commit_of_other_buckets_keeps_no_caller_from_leaving_the_record_out(tmp_path: Path, *, is_lost: bool) -> None:
    poisoned = Poisoned(tmp_path, ICEBERG_CLEAN, has_key=False)
    poisoned.write((100, POISON))
    failed = poisoned.world.tier(poisoned.table)
    assert failed.error is not None
    poisoned.write(*((number, "good") for number in range(20)))  # in both buckets
    poisoned.world.due()
    committing = poisoned.world.begin(poisoned.table).advance_to(act.CommitLake)
    [stopped] = {"0", "1"} - {bucket for bucket, end in committing_offsets(poisoned).items() if end > 0}
    assert stopped == failed.error.ids["bucket"]
    if is_lost:
        poisoned.world.clock.advance(3_600)
        tick(poisoned.world.coordinator)
        assert poisoned.world.record(poisoned.table).lake.unresolved_epoch is not None
    assert poisoned.skip(failed).outcome == "skipped"
    record = poisoned.world.record(poisoned.table)
    assert record.lake.skipped == {stopped: (0,)}
    assert (record.running is None) is is_lost, "a granted round is not fenced"
    assert committing.end().state is RoundState.SUCCEEDED, "it was granted, and does not pass the record"
    assert poisoned.world.tier(poisoned.table).error is None
    assert poisoned.in_lake().keys() == set(range(20))
    poisoned.world.close()


def committing_offsets(poisoned: Poisoned) -> TextOffsets:
    commit = poisoned.world.record(poisoned.table).commit
    assert commit is not None
    return commit.offsets


def test_a_running_round_whose_plan_ends_before_the_record_goes_on(poisoned: Poisoned) -> None:
    failed = stop_at_poison(poisoned)
    poisoned.world.due()
    running = poisoned.world.begin(poisoned.table).advance_to(act.RunSplits)
    records = poisoned.world.coordinator.table_records
    with records.changing():
        records.put(Change(poisoned.world.record(poisoned.table)).update_round(planned_stops={"0": OFFSET}))
    assert poisoned.skip(failed).outcome == "skipped"
    record = poisoned.world.record(poisoned.table)
    assert record.running is not None
    assert record.running.round_id == running.assignment.round_id
    assert record.lake.skipped == {"0": (OFFSET,)}


def test_a_log_that_is_cut_behind_the_work_gives_the_error_no_trace_of_another_record(
    poisoned: Poisoned, monkeypatch: pytest.MonkeyPatch
) -> None:
    poisoned.write((100, POISON))
    poisoned.world.due()
    running = poisoned.world.begin(poisoned.table).advance_to(act.RunSplits)

    def of_other_records(cluster: Any, table: TableInfo, *looks: Offsets) -> dict[tuple[BucketKey, int], str]:
        return {(bucket, at): "of another record" for look in looks for bucket, at in look.items()}

    monkeypatch.setattr(stopped_records, "traces_at", of_other_records)
    outcome = running.end()
    assert outcome.error is not None
    assert outcome.error.error_class == "SourceChanged"
    assert not any(error.error_class == "BucketStopped" for error in poisoned.world.record(poisoned.table).errors)


@pytest.mark.parametrize("has_progress", [False, True], ids=["nothing else to commit", "another bucket is committed"])
def test_a_record_without_a_trace_at_the_offset_of_one_that_was_left_out_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_progress: bool
) -> None:
    poisoned = Poisoned(tmp_path, ICEBERG_CLEAN, has_key=False)
    poisoned.write((100, POISON))
    failed = poisoned.world.tier(poisoned.table)
    assert failed.error is not None
    bucket = failed.error.ids["bucket"]
    records = poisoned.world.coordinator.table_records
    with records.changing():
        record = poisoned.world.record(poisoned.table)
        records.put(Change(record).update(lake=record.lake.with_skipped(bucket, 0, "of the record that the log lost")))

    def unavailable(*_: Any) -> Any:
        raise ClusterUnavailable("it does not answer")

    if has_progress:
        poisoned.write(*((number, "good") for number in range(20)))
    poisoned.world.due()
    running = poisoned.world.begin(poisoned.table).advance_to(act.RunSplits)
    monkeypatch.setattr(stopped_records, "traces_at", unavailable)
    assert running.runner.advance() is None or not has_progress
    monkeypatch.undo()
    assert running.end().state is (RoundState.SUCCEEDED if has_progress else RoundState.FAILED)
    record = poisoned.world.record(poisoned.table)
    assert record.error is not None
    assert record.error.error_class == "BucketStopped"
    assert record.state is (TableState.SCHEDULED if has_progress else TableState.FAILED)
    waits_until = record.due_deadline if has_progress else record.retry_deadline
    assert waits_until is not None
    assert waits_until > records.now().steady
    poisoned.world.close()
