"""`CALL sys.skip_record` leaves out one record: no other one at its offset, and none that a round passes at the same time."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.background import tick
from support.lake_kinds.kinds import ICEBERG_CLEAN
from support.lake_kinds.poisoned import POISON, Poisoned, refuse_poison
from support.on_call import call, in_lake, next_action
from support.worlds.memory_store import MemoryStore
from support.worlds.validated import check, faults
from tiering.errors import InvalidArgument, LogRewritten, TableBusy
from tiering.model.rounds import RoundState
from tiering.round.steps import actions as act

OFFSET = 10
"""Of the record that no lake can hold."""


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
    with pytest.raises(InvalidArgument, match=f"another record at offset {OFFSET} now"):
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


def test_a_record_that_a_running_round_may_pass_is_not_left_out(poisoned: Poisoned, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = stop_at_poison(poisoned)
    monkeypatch.undo()  # a later version can write it
    poisoned.world.due()
    running = poisoned.world.begin(poisoned.table)
    for step in (act.ReadLog, act.RunSplits, act.CommitLake):
        running.advance_to(step)
        with pytest.raises(TableBusy, match="reads bucket 0 and may pass offset 10") as busy:
            poisoned.skip(failed)
        assert busy.value.retryable
    assert running.end().state is RoundState.SUCCEEDED
    assert poisoned.in_lake()[100] == POISON
    with pytest.raises(InvalidArgument, match="the lake has that record already"):
        poisoned.skip(failed)
    assert not poisoned.world.record(poisoned.table).lake.skipped


def test_a_record_that_a_lost_commit_may_have_passed_is_not_left_out(poisoned: Poisoned, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = stop_at_poison(poisoned)
    with monkeypatch.context():
        monkeypatch.undo()
    poisoned.world.due()
    late = poisoned.world.begin(poisoned.table).advance_to(act.CommitLake)
    poisoned.world.clock.advance(3_600)
    tick(poisoned.world.coordinator)
    assert poisoned.world.record(poisoned.table).unresolved_commit
    with pytest.raises(TableBusy, match="its outcome is not known"):
        poisoned.skip(failed)
    late.end()
    assert poisoned.world.tier(poisoned.table).error is None
    assert poisoned.in_lake()[100] == POISON
    with pytest.raises(InvalidArgument, match="the lake has that record already"):
        poisoned.skip(failed)


def test_a_round_that_does_not_read_the_record_keeps_nobody_from_leaving_it_out(poisoned: Poisoned) -> None:
    failed = stop_at_poison(poisoned)
    poisoned.world.due()
    ended = poisoned.world.begin(poisoned.table)
    assert ended.end().state is RoundState.FAILED
    assert poisoned.skip(failed).outcome == "skipped"
    assert poisoned.world.tier(poisoned.table).state is RoundState.SUCCEEDED
    assert poisoned.in_lake().keys() == set(range(OFFSET))
