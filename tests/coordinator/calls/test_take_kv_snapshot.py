"""CALL sys.take_kv_snapshot over a real cluster: only what changed is taken, and only where it can be."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.worlds.coordinator_world import World
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA, LakeWorld
from tiering.coordinator.server.coordinator import Coordinator
from tiering.errors import InvalidArgument, UnknownTable
from tiering.model.leases import KvSnapshot
from tiering.model.tables import BucketKey, TableInfo, TablePath, TableType
from tiering.procedures.take_kv_snapshot import TakeKvSnapshot, TakeKvSnapshotResult


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LakeWorld]:
    world = LakeWorld(tmp_path)
    yield world
    world.close()


@pytest.fixture
def planes(world: LakeWorld) -> TableInfo:
    table = world.primary_key_table("planes", buckets=2)
    upsert(world, table, range(10))
    return table


def upsert(world: LakeWorld, table: TableInfo, keys: range) -> None:
    rows = pa.table({"id": keys, "text": [str(key) for key in keys]}, schema=PRIMARY_KEY_SCHEMA)
    world.storage.upsert(table.path, rows, "test", keys.start * 1_000 + keys.stop)


def take(coordinator: Coordinator, path: TablePath, **options: Any) -> TakeKvSnapshotResult:
    return asyncio.run(coordinator.control.perform(TakeKvSnapshot(path, caller="ann", **options)))


def snapshots(world: LakeWorld, table: TableInfo) -> Mapping[BucketKey, KvSnapshot]:
    return dict(world.storage.kv_snapshots(table))


def test_only_buckets_that_changed_get_a_snapshot(world: LakeWorld, planes: TableInfo) -> None:
    assert take(world.coordinator, planes.path, dry_run=True) == TakeKvSnapshotResult(planes.path, 2, 2)
    assert snapshots(world, planes) == {}
    assert take(world.coordinator, planes.path) == TakeKvSnapshotResult(planes.path, 2, 2)
    first = snapshots(world, planes)
    assert {bucket: snapshot.log_offset for bucket, snapshot in first.items()} == {
        bucket: log.log_end for bucket, log in world.storage.offsets(planes).items()
    }
    assert take(world.coordinator, planes.path) == TakeKvSnapshotResult(planes.path, 0, 2)
    upsert(world, planes, range(3, 4))
    assert take(world.coordinator, planes.path, dry_run=True) == TakeKvSnapshotResult(planes.path, 1, 2)
    assert take(world.coordinator, planes.path) == TakeKvSnapshotResult(planes.path, 1, 2)
    assert len(snapshots(world, planes).items() - first.items()) == 1


def test_a_repeat_with_its_key_takes_none_and_gets_the_first_answer(world: LakeWorld, planes: TableInfo) -> None:
    first = take(world.coordinator, planes.path, idempotency_key="k")
    before = snapshots(world, planes)
    upsert(world, planes, range(10, 20))
    world.restart()
    assert take(world.coordinator, planes.path, idempotency_key="k") == first
    assert snapshots(world, planes) == before


def test_the_event_tells_who_took_them(world: LakeWorld, planes: TableInfo) -> None:
    take(world.coordinator, planes.path)
    [event] = [event for event in world.store.events() if event.event_type == "KV_SNAPSHOT_TAKEN"]
    assert (event.principal, event.table_name, event.details["taken"]) == ("ann", "planes", 2)


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_log_table_and_an_unknown_table_are_refused(world: LakeWorld, dry_run: bool) -> None:
    with pytest.raises(InvalidArgument, match="is a log table: only primary-key tables have KV snapshots"):
        take(world.coordinator, world.table("orders").path, dry_run=dry_run)
    with pytest.raises(UnknownTable):
        take(world.coordinator, TablePath("sales", "nothing"), dry_run=dry_run)


def test_a_cluster_that_takes_none_on_demand_is_named() -> None:
    world = World()
    world.cluster.by_path[world.table.path] = replace(world.table, table_type=TableType.PRIMARY_KEY, primary_key=("id",))
    with pytest.raises(InvalidArgument, match=r"the cluster of sales\.orders takes no KV snapshots on demand"):
        take(world.coordinator, world.table.path)
    world.coordinator.close()
