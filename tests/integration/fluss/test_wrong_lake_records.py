"""Another tiering service may corrupt Fluss's lake record on a real cluster, which checks nothing of it. Our service repairs it (R5).

Also: what our own rounds leave in the cluster, and what they remove of it (R6).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.flink.fluss_lake_world import FlussLakeWorld
from support.worlds.validated import check, faults
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.errors import LakeRecordUnreadable
from tiering.model.rounds import RecordedLakeSnapshot, RoundState
from tiering.model.tables import BucketKey, TableInfo
from tiering.round.steps import actions as act

B0 = BucketKey(None, 0)


@pytest.fixture
def world(fluss: LocalFlussCluster, tmp_path: Path) -> Iterator[FlussLakeWorld]:
    world = FlussLakeWorld(tmp_path, fluss.bootstrap_servers)
    yield world
    world.close()


def offsets_folder(fluss: LocalFlussCluster, table: TableInfo) -> Path:
    return fluss.folder / "remote" / "lake" / table.path.database_name / f"{table.path.table_name}-{table.table_id}" / "metadata"


def tier_until_quiet(world: FlussLakeWorld, table: TableInfo) -> None:
    """A round mends what is wrong, and the next one finds nothing to do."""
    assert world.tier(table).error is None
    assert world.tier(table).state is RoundState.EMPTY
    world.assert_exact(table)
    world.assert_told(table)
    assert faults(check(world, table)) == []


def test_an_unreadable_record_is_written_again(fluss: LocalFlussCluster, world: FlussLakeWorld, tmp_path: Path) -> None:
    table = world.table("lied_about")
    world.append(table, 0, 50)
    world.tier(table)
    newest = world.newest_tiering(table).snapshot_id
    (tmp_path / "folder.offsets").mkdir()
    broken = {"torn": '{"version":1,"table_id":0,"buck', "empty": "", "list": "[]", "object": "{}", "text": "no JSON at all"}
    for name, text in broken.items():
        (tmp_path / f"{name}.offsets").write_text(text)
    paths = [f"file:{tmp_path}/{name}.offsets" for name in ("nowhere", "folder", *broken)]
    for path in (*paths, "foo://bar/x.offsets"):
        world.flink(table).tell_of(newest, path)
        with pytest.raises(LakeRecordUnreadable):
            world.fluss_record(table)
        assert world.tier(table).error is None
        world.assert_told(table)
        newest = world.newest_tiering(table).snapshot_id
    for file in offsets_folder(fluss, table).iterdir():
        file.unlink()
    with pytest.raises(LakeRecordUnreadable):
        world.fluss_record(table)
    tier_until_quiet(world, table)
    world.append(table, 50, 20)
    world.flink(table).whole()
    tier_until_quiet(world, table)


def test_a_record_that_is_wrong_is_put_right(world: FlussLakeWorld, tmp_path: Path) -> None:
    """Ends that are lower, of another table, beyond the log; an older snapshot; one that no lake has."""
    table = world.table("misled")
    world.append(table, 0, 50)
    world.tier(table)
    older = world.newest_tiering(table).snapshot_id
    world.append(table, 50, 50)
    world.tier(table)
    for snapshot_id, end in ((None, 20), (older, 50), (None, 1_000), (older, 70), (4711, 100)):
        path = tmp_path / f"{snapshot_id}-{end}.offsets"
        path.write_text(json.dumps({"version": 1, "table_id": table.table_id, "bucket_offsets": [end]}))
        newest = world.newest_tiering(table).snapshot_id
        world.flink(table).tell_of(snapshot_id or newest, f"file:{path}")
        assert world.fluss_record(table) == RecordedLakeSnapshot(snapshot_id or newest, {B0: end})
        assert world.tier(table).error is None
        world.assert_told(table)
    tier_until_quiet(world, table)


def test_rounds_leave_no_unneeded_files_in_the_cluster(fluss: LocalFlussCluster, world: FlussLakeWorld) -> None:
    table = world.table("tidy")
    folder = offsets_folder(fluss, table)
    counts = []
    for number in range(5):
        world.append(table, 10 * number, 10)
        assert world.tier(table).state is RoundState.SUCCEEDED
        counts.append(len(list(folder.glob("*.offsets"))))
        world.assert_told(table)
    assert counts == [2, 4, 4, 4, 4]
    # A tierer dies after its grant; its request never came. The file that was prepared for it goes with a later round.
    world.append(table, 50, 10)
    world.due()
    before = set(folder.glob("*.offsets"))
    world.begin(table).advance_to(act.CommitLake)
    [orphan] = set(folder.glob("*.offsets")) - before
    world.take_for_dead()
    assert world.tier(table).state is RoundState.SUCCEEDED
    assert not orphan.exists()
    world.append(table, 60, 10)
    world.flink(table).whole()
    tier_until_quiet(world, table)
