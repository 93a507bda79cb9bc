"""The coordinator beside a real Fluss is killed between store, lake and cluster; then all three agree, and the lake has every row once."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from support.clusters.fluss_tables import FlussTables
from support.lake_kinds.kinds import ICEBERG
from support.lakes.lake_proof import marker_of
from support.running.fluss_deployment import FlussDeployment, make_orders
from support.running.processes import wait_for
from tiering import crash_points
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.client import LakewardClient
from tiering.errors import LakewardError, ServiceBusy, ServiceUnreachable
from tiering.model.tables import TableInfo

COUNT = 60
AROUND_AN_ACK = (crash_points.ACK_STORED, crash_points.LAKE_RECORD_PREPARED)


@pytest.fixture
def deployment(fluss: LocalFlussCluster, tmp_path: Path) -> Iterator[FlussDeployment]:
    deployment = FlussDeployment(tmp_path, servers=fluss.bootstrap_servers)
    try:
        deployment.start_coordinator()
        deployment.start_inline_tierer("only")
        yield deployment
    finally:
        deployment.close()


def assert_all_is_known(deployment: FlussDeployment, table: TableInfo, count: int) -> None:
    """The lake has every row once, and Fluss's record becomes the lake's marker, without another row."""
    deployment.assert_exact(table.path, count)
    marker = marker_of(deployment.data.lake_properties, table.path)
    assert marker is not None
    tiered = {bucket: reached.tiered for bucket, reached in marker.buckets.items() if reached.tiered}

    def is_recorded() -> bool:
        recorded = deployment.recorded(table.path)
        return recorded is not None and {bucket: at for bucket, at in recorded.offsets.items() if at} == tiered

    wait_for("the cluster is told", is_recorded)


def start_to_die(deployment: FlussDeployment, point: str) -> None:
    """Kills the coordinator, and starts one in its place that is killed at `point`."""
    deployment.kill_coordinator()
    deployment.start_coordinator(port=deployment.port, crash_point=point)


@pytest.mark.soak
@pytest.mark.parametrize("points", [AROUND_AN_ACK], ids=["ack"])
def test_a_coordinator_killed_around_an_ack_tells_the_cluster_later(
    deployment: FlussDeployment, tables: FlussTables, points: Sequence[str]
) -> None:
    table = make_orders(tables, "acks_that_died")
    for number, point in enumerate(points):
        start_to_die(deployment, point)
        deployment.write(tables, table, number * COUNT, COUNT)
        assert deployment.coordinator.wait_ended(120) == -signal.SIGKILL
        deployment.start_coordinator(port=deployment.port)
        deployment.wait_tiered(table.path)
        assert_all_is_known(deployment, table, (number + 1) * COUNT)
    tables.drop(table)


@pytest.mark.soak
@pytest.mark.parametrize("points", [crash_points.IN_RECONCILE], ids=["reconcile"])
def test_a_coordinator_killed_in_a_reconciliation_goes_on_with_the_same_call(
    deployment: FlussDeployment, tables: FlussTables, points: Sequence[str]
) -> None:
    table = make_orders(tables, "reconciliations_that_died")
    deployment.write(tables, table, 0, COUNT)
    deployment.wait_tiered(table.path)
    for number, point in enumerate(points, 1):
        deployment.by_hand(ICEBERG).drop(table.path)
        deployment.write(tables, table, number * COUNT, COUNT)
        wait_for("the dropped lake table is an error", lambda: error_class(deployment, table) == "LakeTableReplaced")
        start_to_die(deployment, point)
        deployment.coordinator.wait_ready()
        with LakewardClient(deployment.uri) as client, pytest.raises(LakewardError):
            client.reconcile_lake(table.path, "retier", idempotency_key=point)
        assert deployment.coordinator.wait_ended() == -signal.SIGKILL
        deployment.start_coordinator(port=deployment.port)
        with LakewardClient(deployment.uri) as client:
            assert client.reconcile_lake(table.path, "retier", idempotency_key=point).outcome == "reconciled"
        deployment.wait_tiered(table.path)
        assert_all_is_known(deployment, table, (number + 1) * COUNT)
    tables.drop(table)


def error_class(deployment: FlussDeployment, table: TableInfo) -> str | None:
    with suppress(ServiceUnreachable, ServiceBusy):
        return deployment.status(table.path).error_class
    return None
