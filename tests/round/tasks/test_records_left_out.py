"""CALL sys.skip_record for a record that a lake cannot hold: of log and primary-key tables, in every kind of lake."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.lake_kinds.kinds import LAKE_KINDS, LakeKind
from support.lake_kinds.poisoned import POISON, SCHEMA, Poisoned, refuse_poison
from support.worlds.lake_world import LakeWorld
from support.worlds.validated import check, faults
from tiering.cluster import partition_names
from tiering.errors import InvalidArgument
from tiering.lake.writing import fitting
from tiering.model.rounds import RoundState
from tiering.model.tables import BucketKey, TableInfo
from tiering.procedures.reconcile_lake import ReconcileLake
from tiering.procedures.skip_record import SkipRecord
from tiering.round.tasks.stopped_records import HINT


@pytest.fixture(autouse=True)
def _lakes_refuse_poison(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_poison(monkeypatch)


@pytest.fixture(params=[False, True], ids=["log", "primary key"])
def poisoned(request: pytest.FixtureRequest, tmp_path: Path, kind: LakeKind) -> Iterator[Poisoned]:
    table = Poisoned(tmp_path, kind, has_key=request.param)
    yield table
    table.world.close()


def stuck(poisoned: Poisoned) -> tuple[Any, dict[int, str]]:
    """Tiers all but what comes behind the record; the outcome of the failed round, and the rows that are in the lake."""
    rows = {number: f"row {number}" for number in range(20)}
    poisoned.write(*rows.items(), (100, POISON), *((number, f"later {number}") for number in range(200, 220)))
    first = poisoned.world.tier(poisoned.table)
    assert first.state is RoundState.SUCCEEDED, first.error
    failed = poisoned.world.tier(poisoned.table)
    assert failed.state is RoundState.FAILED
    return failed, rows


def test_all_other_buckets_and_the_records_before_it_are_tiered(poisoned: Poisoned) -> None:
    failed, rows = stuck(poisoned)
    in_lake = poisoned.in_lake()
    assert rows.items() <= in_lake.items()
    assert 20 < len(in_lake) < 40
    (status,) = poisoned.world.coordinator.view().table_statuses()
    assert (status.status, status.error_class) == ("Failed", "BucketStopped")
    assert (status.last_error or "").endswith("its column 'text' is poison")
    (bucket,) = [row for row in poisoned.world.coordinator.view().buckets() if row.stopped_at_offset is not None]
    assert (bucket.stopped_at_offset, bucket.error_class) == (int(failed.error.ids["offset"]), "BucketStopped")
    assert bucket.stopped_at_record == "id=100, text='poison'"
    assert bucket.lag_records
    assert not faults(check(poisoned.world, poisoned.table))


def test_after_the_skip_all_but_that_record_is_tiered_and_validation_knows_it(poisoned: Poisoned) -> None:
    failed, _ = stuck(poisoned)
    result = poisoned.skip(failed)
    assert (result.outcome, result.offset) == ("skipped", int(failed.error.ids["offset"]))
    assert "text='poison'" in result.value
    assert poisoned.world.record(poisoned.table).state == "Pending", "it is tiered again without another CALL"
    assert poisoned.world.tier(poisoned.table).state is RoundState.SUCCEEDED
    assert len(poisoned.in_lake()) == 40
    assert 100 not in poisoned.in_lake()
    assert not faults(check(poisoned.world, poisoned.table))
    assert poisoned.skip(failed).outcome == "already_skipped"
    events = [event for event in poisoned.world.store.events() if event.event_type == "RECORD_SKIPPED"]
    assert [event.details["outcome"] for event in events] == ["already_skipped", "skipped"]
    poisoned.world.restart()
    poisoned.write((300, "row 300"))
    assert poisoned.world.tier(poisoned.table).state is RoundState.SUCCEEDED
    assert len(poisoned.in_lake()) == 41
    assert not faults(check(poisoned.world, poisoned.table))


@pytest.mark.parametrize("kind", [LAKE_KINDS[0]], ids=["iceberg"])
def test_on_a_table_that_gets_rows_all_the_time_the_bucket_is_shown_and_can_be_skipped(tmp_path: Path, kind: LakeKind) -> None:
    poisoned = Poisoned(tmp_path, kind, has_key=False)
    poisoned.write(*((number, "text") for number in range(20)), (100, POISON))
    for turn in range(3):
        outcome = poisoned.world.tier(poisoned.table)
        assert outcome.state is RoundState.SUCCEEDED
        assert poisoned.world.record(poisoned.table).state == "Scheduled", "the next round waits for the freshness"
        (status,) = poisoned.world.coordinator.view().table_statuses()
        assert (status.error_class, status.error_count, status.consecutive_failures) == ("BucketStopped", turn + 1, 0)
        stops = [bucket.stopped_at_offset for bucket in poisoned.world.coordinator.view().buckets()]
        assert sorted(stops, key=str) == sorted([None, int(outcome.error.ids["offset"])], key=str)  # type: ignore[union-attr]
        assert len([event for event in poisoned.world.store.events() if event.event_type == "BUCKET_STOPPED"]) == 1
        poisoned.write(*((number, "text") for number in range(1_000 * (turn + 1), 1_000 * (turn + 1) + 20)))
    assert poisoned.skip(outcome).outcome == "skipped"
    poisoned.world.restart()
    assert poisoned.world.tier(poisoned.table).state is RoundState.SUCCEEDED
    assert len(poisoned.in_lake()) == 80
    (status,) = poisoned.world.coordinator.view().table_statuses()
    assert (status.error_class, status.error_count) == (None, 3)
    assert not faults(check(poisoned.world, poisoned.table))
    poisoned.world.close()


def unnamed_refusals(monkeypatch: pytest.MonkeyPatch, is_refused: Callable[[str], bool]) -> None:
    """A library raises an error that names no record for a text."""
    fitted = fitting._fitted

    def refusing(batch: pa.RecordBatch, *more: Any) -> pa.RecordBatch:
        if any(is_refused(text) for text in batch.column("text").to_pylist() if text is not None):
            raise ValueError("no such option")
        return fitted(batch, *more)

    monkeypatch.setattr(fitting, "_fitted", refusing)


@pytest.mark.parametrize("has_key", [False, True], ids=["log", "primary key"])
def test_the_only_new_record_of_a_round_is_compared_with_the_one_before_it(
    tmp_path: Path, has_key: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    poisoned = Poisoned(tmp_path, LAKE_KINDS[0], has_key=has_key)
    poisoned.write(*((number, f"row {number}") for number in range(20)))
    assert poisoned.world.tier(poisoned.table).state is RoundState.SUCCEEDED
    unnamed_refusals(monkeypatch, POISON.__eq__)
    for number in (100, 200):
        poisoned.write((number, POISON))
        failed = poisoned.world.tier(poisoned.table)
        assert failed.error is not None
        assert failed.error.error_class == "BucketStopped"
        assert poisoned.skip(failed).outcome == "skipped"
    assert poisoned.world.tier(poisoned.table).state is RoundState.SUCCEEDED
    assert len(poisoned.in_lake()) == 20
    assert not faults(check(poisoned.world, poisoned.table))
    poisoned.world.close()


def partitioned_by_day(folder: Path, has_key: bool) -> tuple[LakeWorld, TableInfo, Callable[..., None]]:
    """A table with partitions, and what writes rows of a day to it."""
    world, schema = LakeWorld(folder, kind=LAKE_KINDS[0]), pa.schema([*SCHEMA, pa.field("day", pa.string(), nullable=False)])
    key = ("day", "id")
    table = world.primary_key_table("orders", 1, schema, key, ("day",)) if has_key else world.table("orders", 1, ("day",), schema)
    put, sequence = world.storage.upsert if has_key else world.storage.append, count()

    def write(day: str, *rows: tuple[int, str]) -> None:
        values: dict[str, Any] = {"id": [number for number, _ in rows], "text": [text for _, text in rows], "day": [day] * len(rows)}
        put(table.path, pa.table(values, schema=schema), "test", next(sequence))

    return world, table, write


@pytest.mark.parametrize("has_key", [False, True], ids=["log", "primary key"])
def test_the_only_record_of_a_partition_keeps_no_other_partition_from_the_lake(
    tmp_path: Path, has_key: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, table, write = partitioned_by_day(tmp_path, has_key)
    write("d1", (1, "a"))
    assert world.tier(table).state is RoundState.SUCCEEDED
    unnamed_refusals(monkeypatch, POISON.__eq__)
    write("d2", (100, POISON))
    alone = world.tier(table)
    assert alone.error is not None
    assert (alone.state, alone.error.error_class, alone.error.hint) == (RoundState.FAILED, "ValueError", HINT)
    for number in range(10, 13):
        write("d1", (number, "good"))
        outcome = world.tier(table)
        assert outcome.state is RoundState.SUCCEEDED
        assert outcome.error is not None
        assert (outcome.error.error_class, outcome.error.ids["offset"]) == ("BucketStopped", "0")
    assert sorted(world.by_hand.rows(table.path)["id"].to_pylist()) == [1, 10, 11, 12]
    skip = SkipRecord(table.path, bucket_id=0, offset=0, partition="d2", caller="ann", reason="a test")
    assert asyncio.run(world.coordinator.control.perform(skip)).outcome == "skipped"
    write("d2", (101, "good"))
    assert world.tier(table).error is None
    assert sorted(world.by_hand.rows(table.path)["id"].to_pylist()) == [1, 10, 11, 12, 101]
    assert not faults(check(world, table))
    world.close()


def test_no_record_of_any_partition_is_named_while_a_lake_takes_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, table, write = partitioned_by_day(tmp_path, has_key=False)
    for day in ("d1", "d2"):
        write(day, (1, "a"))
    assert world.tier(table).state is RoundState.SUCCEEDED
    with monkeypatch.context() as broken:
        unnamed_refusals(broken, lambda text: True)
        for day in ("d1", "d2", "d3", "d4"):
            write(day, (2, "b"))
        failed = world.tier(table)
        assert failed.error is not None
        assert (failed.state, failed.error.error_class) == (RoundState.FAILED, "ValueError")
    assert world.tier(table).state is RoundState.SUCCEEDED
    assert world.by_hand.rows(table.path).num_rows == 6
    world.close()


@pytest.mark.parametrize("in_a_row", [9, 30])
def test_many_new_records_that_cannot_be_written_are_compared_with_the_one_before_them(
    tmp_path: Path, in_a_row: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    poisoned = Poisoned(tmp_path, LAKE_KINDS[0], has_key=False, buckets=1)
    poisoned.write(*((number, f"row {number}") for number in range(20)))
    assert poisoned.world.tier(poisoned.table).state is RoundState.SUCCEEDED
    unnamed_refusals(monkeypatch, POISON.__eq__)
    poisoned.write(*((number, POISON) for number in range(100, 100 + in_a_row)))
    for offset in (20, 21):
        failed = poisoned.world.tier(poisoned.table)
        assert failed.error is not None
        assert (failed.error.error_class, failed.error.ids["offset"]) == ("BucketStopped", str(offset))
        assert poisoned.skip(failed).outcome == "skipped"
    poisoned.world.close()


def test_a_lake_that_takes_no_record_at_all_names_none_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poisoned = Poisoned(tmp_path, LAKE_KINDS[0], has_key=False)
    with monkeypatch.context() as broken:
        unnamed_refusals(broken, lambda text: True)
        for number in range(3):
            poisoned.write((number, f"row {number}"))
            failed = poisoned.world.tier(poisoned.table)
            assert failed.error is not None
            assert failed.error.error_class != "BucketStopped"
            assert "no such option" in failed.error.message
    assert poisoned.world.tier(poisoned.table).state is RoundState.SUCCEEDED
    assert len(poisoned.in_lake()) == 3
    poisoned.world.close()


def test_only_the_record_at_which_a_round_stopped_can_be_skipped(poisoned: Poisoned) -> None:
    failed, _ = stuck(poisoned)
    offset, bucket = int(failed.error.ids["offset"]), BucketKey.parse(failed.error.ids["bucket"]).bucket_id
    for wrong in ({"offset": offset + 1}, {"offset": offset - 1}, {"bucket_id": 1 - bucket}):
        with pytest.raises(InvalidArgument):
            poisoned.skip(failed, **wrong)
    assert poisoned.skip(failed, dry_run=True).outcome == "would_skip"
    assert poisoned.world.tier(poisoned.table).state is RoundState.FAILED
    assert poisoned.skip(failed, idempotency_key="k").outcome == "skipped"
    poisoned.world.restart()
    assert poisoned.skip(failed, idempotency_key="k").outcome == "skipped", "the answer of the first call"


def test_a_record_that_is_the_last_of_its_bucket_is_passed(poisoned: Poisoned) -> None:
    poisoned.write((1, "row 1"), (100, POISON))
    assert poisoned.world.tier(poisoned.table).state is RoundState.SUCCEEDED
    failed = poisoned.world.tier(poisoned.table)
    poisoned.skip(failed)
    assert poisoned.world.tier(poisoned.table).state is RoundState.SUCCEEDED
    assert poisoned.world.tier(poisoned.table).state is RoundState.EMPTY
    assert poisoned.in_lake() == {1: "row 1"}
    assert not faults(check(poisoned.world, poisoned.table))


@pytest.mark.parametrize("has_key", [False, True], ids=["log", "primary key"])
def test_the_record_of_a_partition_is_named_with_it(tmp_path: Path, kind: LakeKind, has_key: bool) -> None:
    poisoned = Poisoned(tmp_path, kind, has_key=has_key, partitioned=True)
    failed, _ = stuck(poisoned)
    assert "partition => 'eu'" in failed.error.hint
    with pytest.raises(InvalidArgument, match="name the partition"):
        poisoned.skip(failed, partition=None)
    poisoned.skip(failed)
    assert poisoned.world.tier(poisoned.table).state is RoundState.SUCCEEDED
    assert len(poisoned.in_lake()) == 40
    assert not faults(check(poisoned.world, poisoned.table))
    poisoned.world.close()


def test_the_error_of_a_former_partition_is_none_of_the_one_made_again(tmp_path: Path) -> None:
    poisoned = Poisoned(tmp_path, LAKE_KINDS[0], has_key=False, partitioned=True)
    failed, _ = stuck(poisoned)
    poisoned.world.storage.drop_partition(poisoned.table.path, "eu")
    good = {number: f"good {number}" for number in range(1000, 1100)}
    poisoned.write(*good.items())
    with pytest.raises(InvalidArgument, match="is not stopped at a record"):
        poisoned.skip(failed)
    assert poisoned.world.tier(poisoned.table).state is RoundState.SUCCEEDED
    assert good.items() <= poisoned.in_lake().items()
    assert not faults(check(poisoned.world, poisoned.table))
    poisoned.world.close()


def test_a_record_that_the_lake_has_already_is_not_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poisoned = Poisoned(tmp_path, LAKE_KINDS[0], has_key=False)
    failed, _ = stuck(poisoned)
    monkeypatch.undo()  # a later version can write it
    assert poisoned.world.tier(poisoned.table).state is RoundState.SUCCEEDED
    with pytest.raises(InvalidArgument, match="the lake has that record already"):
        poisoned.skip(failed)
    assert not poisoned.world.record(poisoned.table).lake.skipped
    poisoned.world.close()


def test_a_table_that_was_rolled_back_goes_on_behind_what_was_left_out(tmp_path: Path, kind: LakeKind) -> None:
    poisoned = Poisoned(tmp_path, kind, has_key=False)
    failed, _ = stuck(poisoned)
    poisoned.skip(failed)
    world, path = poisoned.world, poisoned.table.path
    assert world.tier(poisoned.table).state is RoundState.SUCCEEDED
    left = world.by_hand.snapshots(path)[-1]
    poisoned.write(*((number, f"last {number}") for number in range(300, 320)))
    assert world.tier(poisoned.table).state is RoundState.SUCCEEDED
    world.by_hand.roll_back(path, left)
    assert world.tier(poisoned.table).state is RoundState.FAILED
    done = asyncio.run(world.coordinator.control.perform(ReconcileLake(path, "retier", caller="ann")))
    assert (done.outcome, done.records_left_out) == ("reconciled", 0)
    assert world.tier(poisoned.table).state is RoundState.SUCCEEDED
    assert len(poisoned.in_lake()) == 60
    assert not faults(check(world, poisoned.table))
    world.close()


@pytest.mark.parametrize("has_key", [False, True], ids=["log", "primary key"])
def test_a_partition_with_a_name_that_the_lake_cannot_hold_keeps_no_other_from_it(
    tmp_path: Path, kind: LakeKind, has_key: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_names, "MAX_FOLDER_BYTES", 1_000)  # as an older version, and as Fluss
    world, column, long_value = LakeWorld(tmp_path, kind=kind), "p" * 100, "v" * 180
    schema = pa.schema([*SCHEMA, pa.field(column, pa.string(), nullable=False)])
    if has_key:
        table = world.primary_key_table("orders", 1, schema, (column, "id"), (column,))
    else:
        table = world.table("orders", 1, (column,), schema)
    write = world.storage.upsert if has_key else world.storage.append
    values = ["a", long_value, "z"]
    write(table.path, pa.table({"id": range(3), "text": values, column: values}, schema=schema), "test", 0)
    assert world.tier(table).state is RoundState.SUCCEEDED
    failed = world.tier(table)
    assert failed.error is not None
    assert failed.error.error_class == "BucketStopped"
    assert f"bucket 0 of partition {long_value} of sales.orders cannot be tiered" in failed.error.message
    assert sorted(world.by_hand.rows(table.path)["id"].to_pylist()) == [0, 2]
    world.storage.drop_partition(table.path, long_value)
    write(table.path, pa.table({"id": [3], "text": ["z"], column: ["z"]}, schema=schema), "test", 1)
    assert world.tier(table).state is RoundState.SUCCEEDED
    assert sorted(world.by_hand.rows(table.path)["id"].to_pylist()) == [0, 2, 3]
    world.close()
