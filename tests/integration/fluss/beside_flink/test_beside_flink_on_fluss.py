"""Beside Flink's tiering on a real Fluss cluster, whose server takes what a stale round tells it without an error (fluss-facts.md, H2).

The numbers are those of the traces; each story ends as its table says, with both services going on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from support.flink.flink_committer import FlinkFailed
from support.flink.fluss_lake_world import FlussLakeWorld
from support.running.processes import wait_for
from support.worlds.lake_world import SCHEMA
from support.worlds.validated import check, faults
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.cluster.fluss.log.bucket_log import BucketLog
from tiering.coordinator.calls.reconcile_lake import reconcile_lake
from tiering.lake.base import FLUSS_OFFSETS_KEY
from tiering.model.rounds import RecordedLakeSnapshot, RoundState
from tiering.model.tables import BucketKey, TableInfo
from tiering.procedures.reconcile_lake import ReconcileLake, ReconcileLakeResult

B0 = BucketKey(None, 0)


@pytest.fixture
def world(fluss: LocalFlussCluster, tmp_path: Path) -> Iterator[FlussLakeWorld]:
    world = FlussLakeWorld(tmp_path, fluss.bootstrap_servers)
    yield world
    world.close()


def at_fifty(world: FlussLakeWorld, name: str) -> TableInfo:
    """A log table, tiered by us up to offset 50."""
    table = world.table(name)
    world.append(table, 0, 50)
    assert world.tier(table).state is RoundState.SUCCEEDED
    world.assert_told(table)
    return table


def append_long(world: FlussLakeWorld, table: TableInfo, start: int, count: int) -> None:
    """Rows that fill a segment each some thousand, also compressed, in batches of a few KiB."""
    for first in range(start, start + count, 200):
        rows = {"id": list(range(first, first + 200)), "text": [os.urandom(48).hex() for _ in range(200)]}
        world.written.append(table, [pa.RecordBatch.from_pydict(rows, schema=SCHEMA)])


def is_remote(world: FlussLakeWorld, table: TableInfo, offset: int) -> bool:
    """Whether the server says that the records from `offset` on are in remote storage."""
    answer = BucketLog(world.written.client, table.path, table.table_id, B0).fetch(offset, offset + 1, 1_000)[1]
    return bool(answer.HasField("remote_log_fetch_info"))


def reconcile(world: FlussLakeWorld, table: TableInfo, action: str) -> ReconcileLakeResult:
    return reconcile_lake(world.coordinator.call_parts, ReconcileLake(table.path, action, caller="alice"))


def assert_overlap(world: FlussLakeWorld, table: TableInfo, offsets: str) -> None:
    outcome = world.tier(table)
    assert outcome.error is not None
    assert (outcome.error.error_class, outcome.error.retryable) == ("ForeignTieringOverlap", False)
    assert offsets in outcome.error.message
    assert "deduplicate" in outcome.error.hint


def assert_whole(world: FlussLakeWorld, table: TableInfo) -> None:
    world.assert_exact(table)
    world.assert_told(table)


def assert_quiet(world: FlussLakeWorld, table: TableInfo, rows: int) -> None:
    """Both services go on from `rows` rows, nothing is wrong, and at last nothing changes any more."""
    assert world.tier(table).error is None
    assert_whole(world, table)
    world.append(table, rows, 20)
    world.flink(table).whole()
    assert world.tier(table).state is RoundState.EMPTY
    assert_whole(world, table)
    assert faults(check(world, table)) == []


def test_1_a_round_that_slept_doubles_rows_and_deduplicate_removes_them(world: FlussLakeWorld) -> None:
    table = at_fifty(world, "slept")
    world.append(table, 50, 50)
    late = world.flink(table).assign().plan().check().prepare()
    late.fail()  # its job starts again, its committer sleeps on
    world.tier(table)
    world.assert_told(table)
    late.append().tell()
    # Fluss calls the lake caught up: 150 rows of 100 offsets.
    assert world.fluss_record(table) == RecordedLakeSnapshot(world.newest_tiering(table).snapshot_id, {B0: 100})
    assert world.iceberg(table).scan().to_arrow().num_rows == 150
    assert_overlap(world, table, "[50, 100)")
    done = reconcile(world, table, "deduplicate")
    assert (done.outcome, done.records_removed) == ("reconciled", 50)
    assert_whole(world, table)
    assert_quiet(world, table, 100)


def test_2_two_incarnations_that_planned_the_same_are_named(world: FlussLakeWorld) -> None:
    table = at_fifty(world, "twice")
    world.append(table, 50, 50)
    first = world.flink(table).assign().plan().check()
    first.fail()
    second = world.flink(table).assign().plan().check()
    first.prepare().append().tell()
    second.prepare().append().tell().finish()
    assert_overlap(world, table, "[50, 100)")
    reconcile(world, table, "deduplicate")
    assert_quiet(world, table, 100)


def test_3_rows_below_the_end_that_was_told_are_tiered_again_from_remote_segments(world: FlussLakeWorld) -> None:
    """Tablet servers never take an end back that they were told: they have to hand out what is remote below it all the same."""
    table = world.table("behind_the_end")
    world.written.set_option(table, "table.log.tiered.local-segments", "1")
    append_long(world, table, 0, 1_000)
    assert world.tier(table).state is RoundState.SUCCEEDED
    ours = world.newest_tiering(table).snapshot_id
    append_long(world, table, 1_000, 3_000)
    world.flink(table).whole()
    append_long(world, table, 4_000, 1_000)
    late = world.flink(table).assign().plan().check().prepare()
    late.fail()
    world.iceberg(table).manage_snapshots().rollback_to_snapshot(ours).commit()
    late.append().tell()
    assert world.fluss_record(table) == RecordedLakeSnapshot(world.newest_tiering(table).snapshot_id, {B0: 5_000})
    wait_for("records below the end to be remote", lambda: is_remote(world, table, 1_500))
    outcome = world.tier(table)
    assert outcome.error is not None
    assert outcome.error.error_class == "ForeignTieringGap"
    done = reconcile(world, table, "retier")
    assert (done.records_removed, dict(done.offsets)) == (1_000, {"0": 1_000})
    assert is_remote(world, table, 1_500)
    assert world.tier(table).state is RoundState.SUCCEEDED
    assert_whole(world, table)
    assert faults(check(world, table)) == []


def test_5_a_stale_round_that_comes_last_sets_no_end_back(world: FlussLakeWorld) -> None:
    table = at_fifty(world, "stale")
    world.append(table, 50, 30)
    stale = world.flink(table).assign().plan().check().prepare()
    stale.fail()
    world.append(table, 80, 40)
    world.flink(table).whole()
    stale.append().tell()
    assert world.fluss_record(table) == RecordedLakeSnapshot(world.newest_tiering(table).snapshot_id, {B0: 80})
    assert_overlap(world, table, "[50, 80)")
    done = reconcile(world, table, "deduplicate")
    assert (done.records_removed, dict(done.offsets)) == (30, {"0": 120})
    assert world.marked_ends(table)[B0].tiered == 120
    assert_whole(world, table)
    assert_quiet(world, table, 120)


def test_8_a_stale_round_sets_keys_back_and_ours_replays_them(world: FlussLakeWorld) -> None:
    table = world.primary_key_table("keyed_beside_flink")
    world.upsert(table, range(50), "first")
    world.tier(table)
    world.upsert(table, [0, 1, 2], "second")
    world.upsert(table, [100, 101], "new")
    stale = world.flink(table).assign().plan().check().prepare()
    stale.fail()
    world.upsert(table, [0, 1, 2], "third")
    world.delete(table, range(10, 20))
    assert world.tier(table).state is RoundState.SUCCEEDED
    assert faults(check(world, table)) == []
    stale.append().tell()
    assert faults(check(world, table)) != []
    assert world.tier(table).state is RoundState.SUCCEEDED
    assert "BUCKETS_REPLAYED" in {event.event_type for event in world.store.events()}
    assert faults(check(world, table)) == []
    world.assert_told(table)
    world.upsert(table, [3, 30, 200], "fourth")
    world.flink(table).whole()
    assert world.tier(table).error is None
    assert faults(check(world, table)) == []
    world.assert_told(table)


def test_9_a_live_offsets_file_that_is_gone_is_made_anew_by_an_empty_round(world: FlussLakeWorld) -> None:
    table = at_fifty(world, "unreadable")
    world.append(table, 50, 50)
    first = world.flink(table).assign().plan().check().prepare().append()
    first.fail()
    second = world.flink(table).assign().plan()
    with pytest.raises(FlinkFailed, match="lacked"):
        second.check()
    second.fail()
    assert world.fluss_record(table) == RecordedLakeSnapshot(first.snapshot_id or 0, {B0: 100})
    first.tell()
    assert not Path(first.path.removeprefix("file:")).exists()
    assert not world.is_readable(table)
    third = world.flink(table).assign()
    with pytest.raises(FlinkFailed):
        third.plan()
    third.fail()
    assert world.tier(table).state is RoundState.SUCCEEDED
    assert_whole(world, table)
    assert (world.newest_tiering(table).summary or {}).get(FLUSS_OFFSETS_KEY) != first.path
    assert world.tier(table).state is RoundState.EMPTY
    assert_quiet(world, table, 100)
