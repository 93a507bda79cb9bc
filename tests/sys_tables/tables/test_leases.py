"""The lease tables and procedures, as the service shows them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.worlds.lake_world import PRIMARY_KEY_SCHEMA, LakeWorld
from support.worlds.memory_coordinator import NOON, MemoryCoordinator, table_info
from sys_tables.declare.procedure import Call
from sys_tables.declare.scan import ScanRequest
from sys_tables.registry import default_registry
from tiering.model.leases import KvSnapshotLease, LeasedSnapshot
from tiering.model.tables import BucketKey, Partition, TableBucket, TablePath, TableType
from tiering.procedures.acquire_kv_snapshot_lease import AcquireKvSnapshotLease
from tiering.procedures.drop_kv_snapshot_lease import DropKvSnapshotLease
from tiering.procedures.release_kv_snapshot_lease import ReleaseKvSnapshotLease
from tiering.procedures.renew_kv_snapshot_lease import RenewKvSnapshotLease

REGISTRY = default_registry()
PLANES = table_info("demo.planes", table_id=7, table_type=TableType.PRIMARY_KEY)
MINUTE = timedelta(minutes=1)


def lease(lease_id: str, left: timedelta, *buckets: BucketKey) -> KvSnapshotLease:
    held = tuple(LeasedSnapshot(TableBucket(7, bucket), 3, 40) for bucket in buckets)
    return KvSnapshotLease(lease_id, NOON - 10 * MINUTE, NOON - 5 * MINUTE, NOON + left, 600_000, held, "tierer-1")


def coordinator() -> MemoryCoordinator:
    leases = [
        lease("a", 5 * MINUTE, BucketKey(None, 0), BucketKey(None, 1)),
        lease("b", timedelta(seconds=30), BucketKey(17, 1)),
        lease("c", -MINUTE),
    ]
    return MemoryCoordinator([PLANES], leases=leases, partitions=[Partition(17, "2026")])


def rows(name: str) -> list[dict[str, Any]]:
    lease_rows = REGISTRY.table(name).rows(coordinator().view(), ScanRequest())
    return [vars(row) for row in lease_rows]  # type: ignore[union-attr]


def call(name: str, **arguments: Any) -> tuple[list[Any], MemoryCoordinator]:
    handle = coordinator()
    definition = REGISTRY.procedure(name)

    async def run() -> list[Any]:
        request = definition.request_class(**arguments, idempotency_key="k", caller="ann")
        return [step async for step in definition.run(Call(handle), request)]

    return asyncio.run(run()), handle


def test_leases_show_how_long_they_have_left() -> None:
    shown = [(row["lease_id"], row["state"], row["remaining_ms"], row["tables"], row["buckets"]) for row in rows("kv_snapshot_leases")]
    assert shown == [("a", "ACTIVE", 300_000, 1, 2), ("b", "EXPIRING", 30_000, 1, 1), ("c", "EXPIRED", 0, 0, 0)]


def test_what_the_cluster_cannot_tell_is_null() -> None:
    leases = [replace(lease("a", MINUTE), snapshots=[LeasedSnapshot(TableBucket(7, BucketKey(None, 0)), 3, 40, None)])]
    view = MemoryCoordinator([PLANES], leases=leases).view()

    (row,) = REGISTRY.table("kv_snapshot_lease_buckets").rows(view, ScanRequest())

    assert vars(row)["available"] is None


def test_every_column_of_a_real_lease_is_filled(tmp_path: Path) -> None:
    world = LakeWorld(tmp_path)
    table = world.primary_key_table("planes")
    world.storage.upsert(table.path, pa.table({"id": range(20), "text": ["x"] * 20}, schema=PRIMARY_KEY_SCHEMA), "test", 0)
    snapshots = world.storage.take_kv_snapshots(table.path)
    held = {TableBucket(table.table_id, bucket): snapshot.snapshot_id for bucket, snapshot in snapshots.items()}
    acquired = world.clock.now()
    world.storage.acquire_lease("reader", 60_000, held, "ann")
    world.clock.advance(30)
    world.storage.acquire_lease("reader", 60_000, {})
    world.clock.advance(20)
    for file in (world.storage.root / "kv-snapshots").glob("*/*"):
        file.unlink()

    def shown(name: str) -> list[dict[str, Any]]:
        return [vars(row) for row in REGISTRY.table(name).rows(world.coordinator.view(), ScanRequest())]  # type: ignore[union-attr]

    assert shown("kv_snapshot_leases") == [
        {
            "lease_id": "reader",
            "owner": "ann",
            "acquired_at": acquired,
            "renewed_at": acquired + timedelta(seconds=30),
            "expires_at": acquired + timedelta(seconds=90),
            "ttl_ms": 60_000,
            "remaining_ms": 40_000,
            "tables": 1,
            "buckets": 2,
            "state": "ACTIVE",
        }
    ]
    assert shown("kv_snapshot_lease_buckets") == [
        {
            "lease_id": "reader",
            "database_name": "sales",
            "table_name": "planes",
            "partition_name": None,
            "bucket_id": bucket.bucket_id,
            "snapshot_id": snapshots[bucket].snapshot_id,
            "log_offset": snapshots[bucket].log_offset,
            "available": False,
        }
        for bucket in sorted(snapshots, key=BucketKey.sort_key)
    ]
    world.close()


@pytest.mark.parametrize(
    ("name", "arguments", "output"),
    [
        ("acquire_kv_snapshot_lease", "lease_id! table! ttl_ms", "lease_id buckets unavailable expires_at"),
        ("renew_kv_snapshot_lease", "lease_id! ttl_ms", "lease_id state buckets expires_at"),
        ("release_kv_snapshot_lease", "lease_id! table!", "lease_id state buckets expires_at"),
        ("drop_kv_snapshot_lease", "lease_id!", "lease_id state buckets expires_at"),
    ],
)
def test_the_procedures_take_and_return_what_users_were_promised(name: str, arguments: str, output: str) -> None:
    """In this order, `!` = required."""
    definition = REGISTRY.procedure(name)
    taken = [f"{parameter.name}!" if parameter.required else parameter.name for parameter in definition.parameters]
    assert taken == [*arguments.split(), "dry_run", "idempotency_key"]
    assert definition.output_schema.names == output.split()


def test_leased_buckets_are_shown_by_name() -> None:
    shown = [(row["lease_id"], row["table_name"], row["partition_name"], row["bucket_id"]) for row in rows("kv_snapshot_lease_buckets")]
    assert shown == [("a", "planes", None, 0), ("a", "planes", None, 1), ("b", "planes", "2026", 1)]


@pytest.mark.parametrize(
    ("name", "arguments", "expected_request"),
    [
        (
            "acquire_kv_snapshot_lease",
            {"lease_id": "x", "path": TablePath("demo", "PLANES"), "ttl_ms": 5},
            AcquireKvSnapshotLease("x", TablePath("demo", "planes"), 5, caller="ann", idempotency_key="k"),
        ),
        ("renew_kv_snapshot_lease", {"lease_id": "x"}, RenewKvSnapshotLease("x", None, caller="ann", idempotency_key="k")),
        (
            "release_kv_snapshot_lease",
            {"lease_id": "x", "path": TablePath("demo", "planes")},
            ReleaseKvSnapshotLease("x", TablePath("demo", "planes"), caller="ann", idempotency_key="k"),
        ),
        ("drop_kv_snapshot_lease", {"lease_id": "x"}, DropKvSnapshotLease("x", caller="ann", idempotency_key="k")),
    ],
)
def test_each_procedure_asks_for_its_own_and_answers_one_row(name: str, arguments: dict[str, Any], expected_request: object) -> None:
    [row], handle = call(name, **arguments)
    assert handle.others == [expected_request]
    assert (row.lease_id, row.buckets, row.expires_at) == ("x", 4, NOON)
    assert pa.Table.from_pylist([vars(row)], schema=REGISTRY.procedure(name).output_schema).num_rows == 1
