"""CALLs about leases, on a real embedded cluster: what they answer, what they leave, and what they refuse."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.worlds.lake_world import PRIMARY_KEY_SCHEMA, LakeWorld
from tiering.access.identity import Authentication, Identity, acting_as
from tiering.errors import InvalidArgument, UnknownLease, UnknownTable
from tiering.model.tables import TableInfo, TablePath
from tiering.procedures.acquire_kv_snapshot_lease import AcquireKvSnapshotLease
from tiering.procedures.base import LeaseResult
from tiering.procedures.drop_kv_snapshot_lease import DropKvSnapshotLease
from tiering.procedures.release_kv_snapshot_lease import ReleaseKvSnapshotLease
from tiering.procedures.renew_kv_snapshot_lease import RenewKvSnapshotLease

MINUTE_MS = 60_000


class Leasing:
    """A table with KV snapshots, and the calls."""

    def __init__(self, world: LakeWorld) -> None:
        self.world = world
        self.table: TableInfo = world.primary_key_table("planes", buckets=2)
        self.write(range(10))

    def write(self, keys: range) -> None:
        rows = pa.table({"id": keys, "text": [str(key) for key in keys]}, schema=PRIMARY_KEY_SCHEMA)
        self.world.storage.upsert(self.table.path, rows, "test", keys.start)
        self.world.storage.take_kv_snapshots(self.table.path)

    def run(self, call: Any) -> LeaseResult:
        result: LeaseResult = asyncio.run(self.world.coordinator.control.perform(call))
        return result

    def acquire(self, lease_id: str = "mine", **more: Any) -> LeaseResult:
        return self.run(AcquireKvSnapshotLease(lease_id, self.table.path, caller="ann", **{"ttl_ms": 10 * MINUTE_MS, **more}))

    def events(self) -> list[tuple[str, str | None]]:
        return [(event.event_type, event.principal) for event in self.world.store.events() if "LEASE" in event.event_type]


@pytest.fixture
def leasing(tmp_path: Path) -> Iterator[Leasing]:
    world = LakeWorld(tmp_path)
    yield Leasing(world)
    world.close()


def test_a_lease_is_acquired_renewed_released_and_dropped(leasing: Leasing) -> None:
    assert (leasing.acquire().buckets, leasing.acquire("other").unavailable) == (2, 0)
    leasing.world.clock.advance(9 * 60 + 30)
    view = leasing.world.coordinator.view()
    assert [(lease.lease_id, lease.owner) for lease in view.leases()] == [("mine", "ann"), ("other", "ann")]
    renewed = leasing.run(RenewKvSnapshotLease("mine", caller="ann"))
    assert (renewed.state, renewed.buckets) == ("ACTIVE", 2)
    assert renewed.expires_at is not None
    assert (renewed.expires_at - leasing.world.clock.now()).total_seconds() == 600
    longer = leasing.run(RenewKvSnapshotLease("mine", 60 * MINUTE_MS, caller="ann"))
    assert longer.expires_at is not None
    assert (longer.expires_at - leasing.world.clock.now()).total_seconds() == 3_600
    released = leasing.run(ReleaseKvSnapshotLease("mine", leasing.table.path, caller="ann"))
    assert (released.state, released.buckets) == ("RELEASED", 2)
    dropped = leasing.run(DropKvSnapshotLease("other", caller="ann"))
    assert (dropped.state, dropped.buckets) == ("DROPPED", 2)
    assert leasing.world.storage.leases() == []
    assert [name for name, who in leasing.events() if who == "ann"] == [
        "DROP_KV_SNAPSHOT_LEASE",
        "RELEASE_KV_SNAPSHOT_LEASE",
        "RENEW_KV_SNAPSHOT_LEASE",
        "RENEW_KV_SNAPSHOT_LEASE",
        "ACQUIRE_KV_SNAPSHOT_LEASE",
        "ACQUIRE_KV_SNAPSHOT_LEASE",
    ]


def test_a_lease_id_names_a_lease_of_its_principal_alone(leasing: Leasing) -> None:
    """Another principal neither shortens nor takes over the lease, and an operator names it as it is listed."""
    ann, eve, otto = (Identity(name, Authentication.TOKEN) for name in ("ann", "eve", "otto"))
    with acting_as(ann):
        acquired = leasing.acquire(ttl_ms=10 * MINUTE_MS)
    with acting_as(eve):
        assert leasing.acquire(ttl_ms=1).lease_id != acquired.lease_id
    with acting_as(ann):
        assert leasing.run(RenewKvSnapshotLease("mine")).lease_id == acquired.lease_id
    leases = {lease.owner: lease for lease in leasing.world.storage.leases()}
    assert (leases["ann"].lease_id, leases["ann"].ttl_ms, leases["eve"].ttl_ms) == (acquired.lease_id, 10 * MINUTE_MS, 1)
    with acting_as(otto):
        with pytest.raises(UnknownLease):
            leasing.run(DropKvSnapshotLease("mine"))
        assert leasing.run(DropKvSnapshotLease(acquired.lease_id)).state == "DROPPED"
    assert [lease.owner for lease in leasing.world.storage.leases()] == ["eve"]


def test_a_lease_of_a_reader_lasts_six_hours_unless_told_otherwise(leasing: Leasing) -> None:
    result = leasing.run(AcquireKvSnapshotLease("mine", leasing.table.path, caller="ann"))
    assert result.expires_at is not None
    assert (result.expires_at - leasing.world.clock.now()).total_seconds() == 6 * 3_600


def test_a_repeat_with_its_key_has_one_effect_and_the_first_answer(leasing: Leasing) -> None:
    first = leasing.acquire(idempotency_key="k")
    leasing.run(DropKvSnapshotLease("mine", caller="ann"))
    assert leasing.acquire(idempotency_key="k") == first
    assert leasing.world.storage.leases() == []
    with pytest.raises(InvalidArgument, match="already names"):
        leasing.acquire("another", idempotency_key="k")


def test_a_dry_run_says_what_would_be_done_and_does_nothing(leasing: Leasing) -> None:
    assert leasing.acquire(dry_run=True).buckets == 2
    assert leasing.world.storage.leases() == []
    leasing.acquire()
    assert leasing.run(DropKvSnapshotLease("mine", caller="ann", dry_run=True)).buckets == 2
    assert len(leasing.world.storage.leases()) == 1


def test_a_leased_snapshot_survives_newer_ones_and_goes_after_the_drop(leasing: Leasing) -> None:
    leasing.acquire()
    [lease] = leasing.world.storage.leases()
    for start in range(10, 60, 10):
        leasing.write(range(start, start + 10))
    [held] = leasing.world.storage.leases()
    assert [snapshot.snapshot_id for snapshot in held.snapshots] == [snapshot.snapshot_id for snapshot in lease.snapshots]
    assert all(snapshot.available for snapshot in held.snapshots)
    files = set((leasing.world.storage.root / "kv-snapshots").glob("*/*"))
    leasing.run(DropKvSnapshotLease("mine", caller="ann"))
    leasing.world.storage.maintenance.run()
    gone = files - set((leasing.world.storage.root / "kv-snapshots").glob("*/*"))
    assert len(gone) == len(held.snapshots)


def test_what_cannot_be_is_refused(leasing: Leasing) -> None:
    with pytest.raises(UnknownLease, match="no lease 'nobody'"):
        leasing.run(RenewKvSnapshotLease("nobody", caller="ann"))
    with pytest.raises(UnknownLease):
        leasing.run(DropKvSnapshotLease("nobody", caller="ann"))
    for ttl_ms in (0, 365 * 24 * 60 * MINUTE_MS):
        for dry_run in (True, False):
            with pytest.raises(InvalidArgument, match=f"cannot last {ttl_ms} ms; it must be between 1 ms and 7 d"):
                leasing.acquire(ttl_ms=ttl_ms, dry_run=dry_run)
    with pytest.raises(InvalidArgument, match="is a log table"):
        leasing.run(AcquireKvSnapshotLease("mine", leasing.world.table("orders").path, caller="ann"))
    with pytest.raises(UnknownTable):
        leasing.run(AcquireKvSnapshotLease("mine", TablePath("sales", "nothing"), caller="ann"))
    with pytest.raises(InvalidArgument, match="1 to 200 characters"):
        leasing.acquire("")
    assert leasing.world.storage.leases() == []
    leasing.acquire()
    before = leasing.world.storage.leases()
    for ttl_ms in (0, 365 * 24 * 60 * MINUTE_MS):
        with pytest.raises(InvalidArgument, match=f"cannot last {ttl_ms} ms"):
            leasing.run(RenewKvSnapshotLease("mine", ttl_ms, caller="ann"))
    trains = leasing.world.primary_key_table("trains").path
    for dry_run in (True, False):
        with pytest.raises(UnknownLease, match=r"'mine' holds no bucket of sales\.trains") as refused:
            leasing.run(ReleaseKvSnapshotLease("mine", trains, caller="ann", dry_run=dry_run))
    assert refused.value.hint == "See sys.kv_snapshot_lease_buckets for what it holds."
    with pytest.raises(UnknownLease, match="no lease 'nobody'"):
        leasing.run(ReleaseKvSnapshotLease("nobody", leasing.table.path, caller="ann"))
    assert leasing.world.storage.leases() == before


def test_a_table_without_snapshots_says_so(leasing: Leasing) -> None:
    fresh = leasing.world.primary_key_table("trains")
    with pytest.raises(InvalidArgument, match="has no KV snapshots"):
        leasing.run(AcquireKvSnapshotLease("mine", fresh.path, caller="ann"))
