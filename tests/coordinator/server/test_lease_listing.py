"""ListKvSnapshotLeases over gRPC, through the public client: whole leases over any pages, all of one moment."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from support.services.served import at_uri
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA, LakeWorld
from tiering.client import AsyncLakewardClient, LakewardClient
from tiering.errors import InvalidArgument
from tiering.model.leases import join_parts
from tiering.model.tables import TableBucket
from tiering.rpc.v1.status_pb2 import ListKvSnapshotLeasesRequest
from tiering.rpc.v1.status_pb2_grpc import TieringStatusStub
from tiering.wire.channel import Connection

MINUTE_MS = 60_000


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LakeWorld]:
    """Leases `a` (four buckets of one table), `b` (two of them, with an owner) and `c` (ended, not swept yet)."""
    lake_world = LakeWorld(tmp_path)
    table = lake_world.primary_key_table("planes", buckets=4)
    lake_world.storage.upsert(table.path, pa.table({"id": range(40), "text": ["x"] * 40}, schema=PRIMARY_KEY_SCHEMA), "test", 0)
    held = {
        TableBucket(table.table_id, bucket): snapshot.snapshot_id
        for bucket, snapshot in lake_world.storage.take_kv_snapshots(table.path).items()
    }
    assert len(held) == 4
    lake_world.storage.acquire_lease("c", MINUTE_MS, held)
    lake_world.clock.advance(61)
    lake_world.storage.acquire_lease("a", MINUTE_MS, held)
    lake_world.storage.acquire_lease("b", 2 * MINUTE_MS, dict(list(held.items())[:2]), "tierer-7")
    yield lake_world
    lake_world.close()


def test_leases_come_whole_over_pages_of_any_size(world: LakeWorld) -> None:
    expected = list(world.storage.leases())
    assert [(lease.lease_id, len(lease.snapshots), lease.owner) for lease in expected] == [
        ("a", 4, None),
        ("b", 2, "tierer-7"),
        ("c", 4, None),
    ]
    with at_uri(world) as uri, LakewardClient(uri) as client:  # type: ignore[arg-type]
        for page_size in (0, 1, 3, 1_000):
            assert client.list_kv_snapshot_leases(page_size=page_size) == expected
        assert client.list_kv_snapshot_leases("b", page_size=1) == [expected[1]]
        assert client.list_kv_snapshot_leases("nobody") == []
        with pytest.raises(InvalidArgument, match="negative"):
            client.list_kv_snapshot_leases(page_size=-1)

        async def use() -> None:
            async with AsyncLakewardClient(uri) as other:
                assert await other.list_kv_snapshot_leases(page_size=2) == expected

        asyncio.run(use())


def test_all_pages_show_the_moment_of_the_first(world: LakeWorld) -> None:
    with at_uri(world) as uri, Connection(uri) as connection:  # type: ignore[arg-type]
        stub = TieringStatusStub(connection.channel)
        first = stub.ListKvSnapshotLeases(ListKvSnapshotLeasesRequest(page_size=6))
        assert [(lease.lease_id, len(lease.snapshots)) for lease in first.leases] == [("a", 4), ("b", 2)]
        world.storage.drop_lease("c")
        world.clock.advance(10)
        second = stub.ListKvSnapshotLeases(ListKvSnapshotLeasesRequest(page_size=6, page_token=first.next_page_token))
        assert [(lease.lease_id, len(lease.snapshots)) for lease in second.leases] == [("c", 4)]
        assert (second.observed_time, second.next_page_token) == (first.observed_time, "")
        with pytest.raises(InvalidArgument), connection.calling():
            stub.ListKvSnapshotLeases(ListKvSnapshotLeasesRequest(page_token="guessed:1"))


def test_a_lease_is_taken_apart_and_put_together_again(world: LakeWorld) -> None:
    leases = list(world.storage.leases())
    assert join_parts(part for lease in leases for part in lease.parts()) == leases
    ended = leases[2]
    assert ended.expires_at + timedelta(seconds=1) == world.clock.now()
