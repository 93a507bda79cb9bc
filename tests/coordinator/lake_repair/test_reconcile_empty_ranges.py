"""`CALL sys.reconcile_lake` of log tables whose log has offsets without rows: no such offset is taken for a row that is missing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from support.lake_kinds.kinds import LAKE_KINDS, LakeKind
from support.worlds.gappy_log import EMPTY, gappy_world, two_rounds
from support.worlds.lake_world import LakeWorld
from support.worlds.validated import check, faults
from tiering import errors
from tiering.model.rounds import RoundState
from tiering.model.tables import BucketKey, TableInfo
from tiering.procedures.reconcile_lake import ReconcileLake, ReconcileLakeResult

B0 = BucketKey(None, 0)


pytestmark = pytest.mark.in_turn("kind")


@pytest.fixture(params=LAKE_KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> LakeKind:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def world(tmp_path: Path, kind: LakeKind, monkeypatch: pytest.MonkeyPatch) -> Iterator[LakeWorld]:
    lake_world = gappy_world(tmp_path, kind, monkeypatch)
    yield lake_world
    lake_world.close()


@pytest.fixture
def table(world: LakeWorld) -> TableInfo:
    return two_rounds(world)


def reconcile(world: LakeWorld, table: TableInfo, action: str = "retier") -> ReconcileLakeResult:
    return asyncio.run(world.coordinator.control.perform(ReconcileLake(table.path, action, caller="alice")))


def rows_of(world: LakeWorld, table: TableInfo) -> list[int]:
    return sorted(world.by_hand.rows(table.path)["id"].to_pylist())


def written(*rounds: range) -> list[int]:
    """Ids of the rows of rounds whose first halves went to bucket 0."""
    ids, offset = [], 0
    for numbers in rounds:
        half = len(numbers) // 2
        ids += [number for place, number in enumerate(numbers[:half], offset) if place not in EMPTY] + list(numbers[half:])
        offset += half
    return sorted(ids)


def newest_file_of(world: LakeWorld, table: TableInfo, bucket: int, first: int) -> str:
    """The file of the rows of a bucket from an offset on."""
    for file in world.by_hand.data_files(table.path):
        footer = pq.read_metadata(file).metadata or {}
        if b"lakeward.offsets" in footer:
            place = int(footer[b"lakeward.bucket"]), int(footer[b"lakeward.offsets"].split(b"-")[0])
        else:
            rows = pq.read_table(file, columns=["__bucket", "__offset"], partitioning=None)
            place = rows["__bucket"][0].as_py(), min(rows["__offset"].to_pylist())
        if place == (bucket, first):
            return file.name
    raise AssertionError(f"no file of bucket {bucket} begins at offset {first}")


def cut_log(world: LakeWorld, table: TableInfo) -> None:
    """Retention removes what is tiered."""
    world.clock.advance(7_200)
    world.storage.maintenance.run()
    assert {bucket.log_start for bucket in world.storage.offsets(table).values()} == {20}


def test_retier_after_a_rollback_goes_on_behind_the_round_that_is_left(world: LakeWorld, table: TableInfo, kind: LakeKind) -> None:
    by_hand = world.by_hand
    by_hand.roll_back(table.path, by_hand.snapshots(table.path)[0])
    assert world.tier(table).error is not None
    done = reconcile(world, table)
    assert (done.outcome, done.records_left_out) == ("reconciled", 0)
    assert dict(done.offsets) == {"0": 11, "1": 10}, "nothing is lost behind the offsets that are known to be empty"
    assert world.begin(table).end().state is RoundState.SUCCEEDED
    assert rows_of(world, table) == written(range(20), range(20, 40))
    if not kind.layout.has_row_offsets:
        assert not faults(check(world, table))


def test_retier_behind_a_file_that_a_user_removed_and_the_proof_goes_on(world: LakeWorld, table: TableInfo, kind: LakeKind) -> None:
    world.by_hand.take_out(table.path, newest_file_of(world, table, 0, 11))
    done = reconcile(world, table)
    assert (done.outcome, done.records_left_out, dict(done.offsets)) == ("reconciled", 0, {"0": 11, "1": 20})
    marker = world.view(table).marker
    assert marker is not None
    if not kind.layout.has_row_offsets:
        proof = marker.proofs[B0]
        assert (proof.since, proof.rows, proof.empty) == (0, 6, ((0, 2), (4, 5), (9, 11)))
        assert all(result.ok for result in check(world, table))
    world.due()
    assert world.begin(table).end().state is RoundState.SUCCEEDED
    assert rows_of(world, table) == written(range(20), range(20, 40))
    if not kind.layout.has_row_offsets:
        results = check(world, table)
        assert all(result.ok for result in results), results
        cut_log(world, table)
        results = check(world, table)
        assert not faults(results)
        assert {result.check for result in results if result.ok is None} == {"values"}, "cover is proved by the marker alone"


def test_what_the_log_has_no_more_only_the_marker_of_a_clean_table_knows_to_be_empty(
    world: LakeWorld, table: TableInfo, kind: LakeKind
) -> None:
    cut_log(world, table)
    if kind.layout.has_row_offsets:
        with pytest.raises(errors.CannotReconcile, match="bucket 0 lacks the offsets 4 to 4, but holds 5"):
            reconcile(world, table)
    else:
        assert reconcile(world, table).outcome == "not_needed"


def test_a_row_that_is_missing_between_empty_offsets_still_refuses_it(world: LakeWorld, table: TableInfo) -> None:
    world.by_hand.take_out(table.path, newest_file_of(world, table, 0, 2))
    with pytest.raises(errors.CannotReconcile, match="lacks the offsets 2 to 10, but holds 11"):
        reconcile(world, table)


def test_accept_counts_the_rows_that_it_leaves_out_and_no_empty_offset(world: LakeWorld, table: TableInfo, kind: LakeKind) -> None:
    by_hand = world.by_hand
    by_hand.roll_back(table.path, by_hand.snapshots(table.path)[0])
    assert world.tier(table).error is not None
    done = reconcile(world, table, "accept")
    left_out = 40 - len(written(range(20)))  # at most: rows do not tell which of the other offsets were empty
    if not kind.layout.has_row_offsets:
        left_out -= len([offset for offset in EMPTY if offset < 10])
    if not kind.layout.has_row_offsets and kind.format == "iceberg":  # where the marker of the round that is gone can still be read
        left_out = len(written(range(20), range(20, 40))) - len(written(range(20)))
    assert (dict(done.offsets), done.records_left_out) == ({"0": 20, "1": 20}, left_out)
