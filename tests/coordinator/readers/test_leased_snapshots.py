"""A primary-key table without a lake copy is read from its KV snapshots, which are leased while the read is open."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from support.background import tick
from support.fresh.held_logs import planned, rows_of
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA, LakeWorld
from tiering.coordinator.readers.reads import LEASE_OWNER, OpenedRead, lease_of
from tiering.errors import KvSnapshotGone, PeerTooOld
from tiering.model.leases import KvSnapshotLease
from tiering.model.reading.open_reads import READ_TTL
from tiering.model.tables import TableInfo

MINUTES = 3
"""Minutes between two renewals."""
EXPECTED = [(id, "first" if id % 2 else "second") for id in range(20)]


@pytest.fixture
def table(world: LakeWorld) -> TableInfo:
    """A table that is not tiered: twenty keys in KV snapshots, ten of which change later in the log."""
    options = {"datalake.enabled": "false", "kv.snapshot.interval": "2 min"}
    table = world.primary_key_table("accounts", **options)
    upsert(world, table, range(20), "first")
    world.storage.take_kv_snapshots(table.path)
    world.clock.advance(61)
    world.storage.maintenance.run()
    upsert(world, table, range(0, 20, 2), "second")
    return table


def upsert(world: LakeWorld, table: TableInfo, ids: range, text: str) -> None:
    rows = pa.table({"id": ids, "text": [text] * len(ids)}, schema=PRIMARY_KEY_SCHEMA)
    world.storage.upsert(table.path, rows, text, 0)


def opened(world: LakeWorld, table: TableInfo, ttl: timedelta = READ_TTL) -> OpenedRead:
    read = world.coordinator.reads.open(table.path, "spark", "application 1", ttl // timedelta(milliseconds=1))
    assert read.read.moment.kv_snapshots
    return read


def lease(world: LakeWorld, read: OpenedRead) -> KvSnapshotLease | None:
    return next((lease for lease in world.storage.leases() if lease.lease_id == lease_of(read.read.read_id)), None)


def live(world: LakeWorld, table: TableInfo, number: int) -> None:
    """Three minutes with new rows, after which each bucket has a new KV snapshot."""
    upsert(world, table, range(20), f"later {number}")
    world.clock.advance(MINUTES * 60)
    tick(world.coordinator)
    world.storage.maintenance.run()


def test_snapshots_are_leased_renewed_and_released(world: LakeWorld, table: TableInfo) -> None:
    read = opened(world, table)
    tasks, ticket = planned(world, read.ticket), read.ticket
    taken = lease(world, read)
    assert taken is not None
    assert (taken.owner, taken.expires_at - taken.renewed_at) == (LEASE_OWNER, READ_TTL)
    assert {leased.table_bucket.bucket: leased.snapshot_id for leased in taken.snapshots} == dict(read.read.moment.kv_snapshots)

    for number in range(60 // MINUTES):
        live(world, table, number)
        _, ticket = world.coordinator.reads.renew(ticket)
    renewed = lease(world, read)
    assert renewed is not None
    assert renewed.expires_at - taken.expires_at == timedelta(hours=1)
    assert rows_of(tasks) == rows_of(planned(world, ticket)) == EXPECTED

    world.coordinator.reads.close(ticket)
    assert lease(world, read) is None
    world.storage.maintenance.run()
    with pytest.raises(KvSnapshotGone):
        rows_of(tasks)


def test_the_lease_of_a_dead_reader_ends(world: LakeWorld, table: TableInfo) -> None:
    read = opened(world, table)
    tasks = planned(world, read.ticket)

    for number in range(3):
        live(world, table, number)

    assert lease(world, read) is None
    with pytest.raises(KvSnapshotGone):
        rows_of(tasks)


def test_a_lease_lasts_as_long_as_the_read_was_opened_for(world: LakeWorld, table: TableInfo) -> None:
    read = opened(world, table, timedelta(hours=1))
    tasks = planned(world, read.ticket)

    for number in range(60 // MINUTES - 1):
        live(world, table, number)
    assert rows_of(tasks) == EXPECTED
    for number in range(60 // MINUTES - 1, 60 // MINUTES + 2):
        live(world, table, number)
    assert lease(world, read) is None


def test_a_renewal_at_the_next_coordinator_renews_the_lease(world: LakeWorld, table: TableInfo) -> None:
    read = opened(world, table)
    tasks, ticket = planned(world, read.ticket), read.ticket
    for number in range(4):
        live(world, table, number)
        world.restart()
        _, ticket = world.coordinator.reads.renew(ticket)
    assert rows_of(tasks) == EXPECTED


def test_a_renewal_after_an_outage_in_which_the_lease_ended_is_an_error(world: LakeWorld, table: TableInfo) -> None:
    read = opened(world, table)
    world.restart(down_s=7_200)
    _, ticket = world.coordinator.reads.renew(read.ticket)  # no newer snapshots have replaced those of the read yet
    assert rows_of(planned(world, ticket)) == EXPECTED

    world.restart(down_s=7_200)
    upsert(world, table, range(20), "after the outage")
    world.storage.take_kv_snapshots(table.path)
    live(world, table, 0)
    with pytest.raises(KvSnapshotGone, match="was deleted before a read could lease it"):
        world.coordinator.reads.renew(ticket)
    # Tasks that have other buckets still need the rest.
    [kept] = world.coordinator.reads.open_reads.all()
    assert kept.read_id == read.read.read_id
    assert kept.expires_at == world.coordinator.reads.now() + READ_TTL


def test_reads_lease_again_once_the_cluster_has_leases(world: LakeWorld, table: TableInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Fluss is upgraded while the coordinator runs, and downgraded later."""

    def refused(*_: object, **__: object) -> bool:
        raise PeerTooOld("Fluss does not support 1056")

    with capture_logs() as logs:
        with monkeypatch.context() as old:
            old.setattr(world.storage, "acquire_lease", refused)
            old.setattr(world.storage, "drop_lease", refused)
            unleased, closed = opened(world, table), opened(world, table)
            _, ticket = world.coordinator.reads.renew(unleased.ticket)
            world.coordinator.reads.close(closed.ticket)
        assert lease(world, unleased) is None

        world.coordinator.reads.renew(ticket)
        assert lease(world, unleased) is not None
        assert lease(world, opened(world, table)) is not None
        monkeypatch.setattr(world.storage, "acquire_lease", refused)
        opened(world, table)
    assert [entry["error"] for entry in logs if "without leases" in entry["event"]] == ["Fluss does not support 1056"] * 2


def test_without_a_lease_the_read_is_an_error(world: LakeWorld, table: TableInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.storage, "acquire_lease", lambda *_, **__: ())
    read = opened(world, table)
    tasks, ticket = planned(world, read.ticket), read.ticket
    for number in range(2):
        live(world, table, number)
        _, ticket = world.coordinator.reads.renew(ticket)
    with pytest.raises(KvSnapshotGone):
        rows_of(tasks)
