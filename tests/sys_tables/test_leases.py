"""The lease tables and procedures, as the service shows them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from support.memory_coordinator import NOON, MemoryCoordinator, table_info
from sys_tables.definitions import Call
from sys_tables.registry import default_registry
from sys_tables.scan import ScanRequest
from tiering.coordinator.api import AcquireLease, DropLease, ReleaseLease, RenewLease
from tiering.model import BucketKey, KvSnapshotLease, LeasedSnapshot, Partition, TableBucket, TablePath, TableType

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
    made = REGISTRY.table(name).rows(coordinator().view(), ScanRequest())
    return [vars(row) for row in made]  # type: ignore[union-attr]


def call(name: str, **given: Any) -> tuple[list[Any], MemoryCoordinator]:
    handle = coordinator()
    found = REGISTRY.procedure(name)

    async def run() -> list[Any]:
        return [step async for step in found.run(Call(handle, "ann", "k", False), found.input_class(**given))]

    return asyncio.run(run()), handle


def test_leases_show_how_long_they_have_left() -> None:
    shown = [(row["lease_id"], row["state"], row["remaining_ms"], row["tables"], row["buckets"]) for row in rows("kv_snapshot_leases")]
    assert shown == [("a", "ACTIVE", 300_000, 1, 2), ("b", "EXPIRING", 30_000, 1, 1), ("c", "EXPIRED", 0, 0, 0)]


def test_leased_buckets_are_shown_by_name() -> None:
    shown = [(row["lease_id"], row["table_name"], row["partition_name"], row["bucket_id"]) for row in rows("kv_snapshot_lease_buckets")]
    assert shown == [("a", "planes", None, 0), ("a", "planes", None, 1), ("b", "planes", "2026", 1)]


@pytest.mark.parametrize(
    ("name", "given", "asked"),
    [
        (
            "acquire_kv_snapshot_lease",
            {"lease_id": "x", "table": TablePath("demo", "PLANES"), "ttl_ms": 5},
            AcquireLease("x", TablePath("demo", "planes"), "ann", 5, False, "k"),
        ),
        ("renew_kv_snapshot_lease", {"lease_id": "x"}, RenewLease("x", "ann", None, False, "k")),
        (
            "release_kv_snapshot_lease",
            {"lease_id": "x", "table": TablePath("demo", "planes")},
            ReleaseLease("x", TablePath("demo", "planes"), "ann", False, "k"),
        ),
        ("drop_kv_snapshot_lease", {"lease_id": "x"}, DropLease("x", "ann", False, "k")),
    ],
)
def test_each_procedure_asks_for_its_own_and_answers_one_row(name: str, given: dict[str, Any], asked: object) -> None:
    [row], handle = call(name, **given)
    assert handle.others == [asked]
    assert (row.lease_id, row.buckets, row.expires_at) == ("x", 4, NOON)
    assert pa.Table.from_pylist([vars(row)], schema=REGISTRY.procedure(name).output_schema).num_rows == 1
