"""A Fluss whose server knows no leases on KV snapshots: rounds go on without, and say so once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from support.clusters.fluss_snapshots import snapshots_up_to
from support.flink.fluss_lake_world import FlussLakeWorld
from support.worlds.validated import check, faults
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.cluster.fluss.wire.api import LEASES, SupportedApis
from tiering.cluster.fluss.wire.connection import ServerConnection
from tiering.model.assignments import ServiceMode
from tiering.model.reading.scans import ReadScan
from tiering.model.rounds import RoundState
from tiering.rpc.fluss import fluss_pb2 as pb

LEASE_KEYS = {api.key for api in LEASES}


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Keys of the calls that are made from now on, of a server that names all but the lease calls (its answer to ApiVersions is cut)."""
    keys: list[int] = []
    offered, call = SupportedApis.of, ServerConnection.call

    def without_leases(answer: pb.ApiVersionsResponse) -> SupportedApis:
        return SupportedApis({key: versions for key, versions in offered(answer).versions.items() if key not in LEASE_KEYS})

    def noted(connection: ServerConnection, api: object, request: object) -> object:
        keys.append(api.key)  # type: ignore[attr-defined]
        return call(connection, api, request)  # type: ignore[arg-type]

    monkeypatch.setattr(SupportedApis, "of", staticmethod(without_leases))
    monkeypatch.setattr(ServerConnection, "call", noted)
    return keys


@pytest.fixture
def world(fluss: LocalFlussCluster, tmp_path: Path, called: list[int]) -> Iterator[FlussLakeWorld]:
    world = FlussLakeWorld(tmp_path, fluss.bootstrap_servers, ServiceMode.EXCLUSIVE)
    yield world
    world.close()


def test_a_round_that_begins_with_a_kv_snapshot_goes_on_without_a_lease(world: FlussLakeWorld, called: list[int]) -> None:
    table = world.primary_key_table("unleased")
    world.upsert(table, range(40), "first")
    world.upsert(table, range(10), "second")
    snapshots_up_to(world.written, table, 40)
    with capture_logs() as logs:
        assert world.tier(table).state is RoundState.SUCCEEDED
        world.upsert(table, range(20, 30), "third")
        assert world.tier(table).state is RoundState.SUCCEEDED
    warnings = [entry for entry in logs if "without leases" in entry["event"]]
    assert [entry["log_level"] for entry in warnings] == ["warning"]
    assert "1056" in warnings[0]["error"]
    assert called
    assert not LEASE_KEYS & set(called)
    assert faults(check(world, table)) == []
    world.assert_told(table)


def test_a_fresh_read_that_begins_with_a_kv_snapshot_needs_no_lease(world: FlussLakeWorld, called: list[int]) -> None:
    table = world.primary_key_table("unleased_read")
    world.upsert(table, range(40), "first")
    snapshots_up_to(world.written, table, 40)
    world.upsert(table, range(10), "second")
    reads = world.coordinator.reads
    opened = reads.open(table.path, "tests", "")
    assert opened.read.moment.kv_snapshots
    _, ticket = reads.renew(opened.ticket)
    rows = [row for task in reads.plan(ticket, ReadScan())[0] for batch in task.read() for row in batch.to_pylist()]
    reads.close(ticket)
    assert {row["id"]: row["text"] for row in rows} == {key: f"second {key}" if key < 10 else f"first {key}" for key in range(40)}
    assert len(rows) == 40
    assert called
    assert not LEASE_KEYS & set(called)
