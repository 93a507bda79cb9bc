"""Flink's tiering and ours take turns on Paimon tables of a real Fluss cluster, whose own committer and reader take part.

The numbers are those of the traces in `beside_flink/test_beside_flink_on_fluss.py`; no row is there twice, none is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.fluss_paimon.flink_tiering import FlinkTiering
from support.fluss_paimon.paimon_lake_world import PaimonLakeWorld
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.coordinator.calls.reconcile_lake import reconcile_lake
from tiering.model.rounds import RoundState
from tiering.model.tables import BucketKey, TableInfo
from tiering.procedures.reconcile_lake import ReconcileLake, ReconcileLakeResult

B0 = BucketKey(None, 0)


@pytest.fixture
def world(fluss_on_paimon: LocalFlussCluster, flink: FlinkTiering, tmp_path: Path) -> Iterator[PaimonLakeWorld]:
    world = PaimonLakeWorld(tmp_path, fluss_on_paimon, flink)
    yield world
    world.close()


def assert_whole(world: PaimonLakeWorld, table: TableInfo) -> None:
    world.assert_exact(table)
    world.assert_told(table)


def test_a_log_table_goes_from_flink_to_us_and_back(world: PaimonLakeWorld) -> None:
    table = world.table("turns", buckets=2)
    world.append(table, 0, 50)
    world.flink(table).whole()
    world.append(table, 50, 30)
    world.tier_whole(table)
    assert_whole(world, table)
    world.append(table, 80, 20)
    world.flink(table).whole()
    assert world.tier(table).state is RoundState.EMPTY
    assert_whole(world, table)
    world.append(table, 100, 7)
    world.tier_whole(table)
    assert_whole(world, table)
    users = [(snapshot["commitUser"], "lakeward.round-id" in snapshot["properties"]) for snapshot in world.folder_of(table).snapshots()]
    assert users == [("__fluss_lake_tiering", ours) for ours in (False, True, False, True)]


def reconcile(world: PaimonLakeWorld, table: TableInfo, action: str) -> ReconcileLakeResult:
    return reconcile_lake(world.coordinator.call_parts, ReconcileLake(table.path, action, caller="alice"))


def assert_quiet(world: PaimonLakeWorld, table: TableInfo, rows: int) -> None:
    """Both services go on from `rows` rows, and at last nothing changes any more."""
    assert world.tier(table).error is None
    assert_whole(world, table)
    world.append(table, rows, 20)
    world.flink(table).whole()
    assert world.tier(table).state is RoundState.EMPTY
    assert_whole(world, table)


def test_a_round_that_slept_doubles_rows_and_deduplicate_removes_them(world: PaimonLakeWorld, second_flink: FlinkTiering) -> None:
    table = world.table("slept")
    world.append(table, 0, 50)
    world.tier_whole(table)
    world.append(table, 50, 50)
    late = world.flink(table, second_flink).assign().plan().check().prepare()
    late.fail()  # its job starts again, its committer sleeps on
    world.tier_whole(table)
    assert_whole(world, table)
    late.append().tell()
    outcome = world.tier(table)
    assert outcome.error is not None
    assert (outcome.error.error_class, outcome.error.retryable) == ("ForeignTieringOverlap", False)
    assert "[50, 100)" in outcome.error.message
    done = reconcile(world, table, "deduplicate")
    assert (done.outcome, done.records_removed) == ("reconciled", 50)
    assert_whole(world, table)
    assert_quiet(world, table, 100)


def test_an_id_that_came_again_after_a_roll_back_is_not_taken_for_the_snapshot_that_passed(world: PaimonLakeWorld) -> None:
    """The rolled-back snapshot and the one in its place are number 2, and Fluss's record is of number 2 as well."""
    table = world.table("again")
    world.append(table, 0, 50)
    world.tier_whole(table)
    world.append(table, 50, 50)
    world.flink(table).whole()
    assert world.tier(table).state is RoundState.EMPTY
    world.append(table, 100, 20)
    late = world.flink(table).assign().plan().check().prepare()
    world.folder_of(table).roll_back(1)
    assert late.append().tell().finish().snapshot_id == 2
    outcome = world.tier(table)
    assert outcome.error is not None
    assert (outcome.error.error_class, outcome.error.retryable) == ("LakeRolledBack", False)
    done = reconcile(world, table, "retier")
    assert (done.records_removed, dict(done.offsets)) == (20, {"0": 50})
    world.tier_whole(table)
    assert_whole(world, table)
    assert_quiet(world, table, 120)


def test_a_primary_key_table_goes_from_flink_to_us_and_back(world: PaimonLakeWorld, second_flink: FlinkTiering) -> None:
    table, truth = world.primary_key_table("keys_in_turns", buckets=2), dict[int, str]()

    def upsert(ids: range | list[int], text: str) -> None:
        world.upsert(table, ids, text)
        truth.update({number: f"{text} {number}" for number in ids})

    def assert_true() -> None:
        assert {row["id"]: row["text"] for row in world.rows(table)} == truth
        assert len(world.rows(table)) == len(truth)
        assert world.read_by_fluss(table) == sorted((str(number), text) for number, text in truth.items())
        world.assert_told(table)

    upsert(range(50), "flink")
    world.flink(table).whole()
    upsert(range(40, 60), "ours")
    world.delete(table, range(10))
    for number in range(10):
        del truth[number]
    world.tier_whole(table)
    assert_true()
    upsert([3, 30, 45, 70], "flink again")
    world.flink(table).whole()
    assert world.tier(table).state is RoundState.EMPTY
    assert_true()
    upsert([45, 100, 101], "stale")
    stale = world.flink(table, second_flink).assign().plan().check().prepare()
    stale.fail()
    upsert([45, 46], "newer")
    world.delete(table, [100])
    del truth[100]
    world.tier_whole(table)
    assert_true()
    stale.append().tell()
    world.tier_whole(table)
    assert "BUCKETS_REPLAYED" in {event.event_type for event in world.store.events()}
    assert_true()


def test_a_commit_of_ours_that_a_rename_replaced_is_named(world: PaimonLakeWorld, second_flink: FlinkTiering) -> None:
    """Paimon's JVM classes look whether the name of a snapshot is free and then rename: here ours came in between."""
    table = world.table("replaced")
    world.append(table, 0, 50)
    world.tier_whole(table)
    world.append(table, 50, 50)
    late = world.flink(table, second_flink).assign().plan().check().prepare()
    late.fail()
    world.tier_whole(table)
    world.folder_of(table).roll_back(1)
    assert late.append().snapshot_id == 2
    outcome = world.tier(table)
    assert outcome.error is not None
    assert (outcome.error.error_class, outcome.error.retryable) == ("RecordAheadOfLake", False)
    assert "did snapshot 2 of the other service replace one of Lakeward's?" in outcome.error.hint
    assert reconcile(world, table, "retier").outcome == "reconciled"
    assert_quiet(world, table, 100)
