"""Rounds of a real Fluss cluster that assigns its tables: to this deployment, or to another service that asks, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.clusters.fluss_tables import FlussTables
from support.running.cluster_of_processes import SCHEMA
from support.running.fluss_deployment import LAKE, FlussDeployment
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.client import LakewardClient

COUNT = 300


@pytest.fixture
def deployment(fluss: LocalFlussCluster, tmp_path: Path) -> Iterator[FlussDeployment]:
    """A coordinator that relays; tierers are the test's."""
    deployment = FlussDeployment(tmp_path, servers=fluss.bootstrap_servers, mode="shared")
    try:
        deployment.start_coordinator()
        yield deployment
    finally:
        deployment.close()


def test_a_table_that_fluss_assigns_is_tiered_and_given_back(deployment: FlussDeployment, tables: FlussTables) -> None:
    """Also by a coordinator that stops: the next one gets the table at once, and not after Fluss's time-out of two minutes."""
    table = tables.create("assigned", SCHEMA, buckets=3, properties={**LAKE, "table.datalake.freshness": "4s"})
    deployment.write(tables, table, 0, COUNT)
    deployment.start_tierer("first")
    deployment.wait_tiered(table.path)
    deployment.write(tables, table, COUNT, COUNT)
    lines: list[str] = []
    with LakewardClient(deployment.uri) as client:
        result = client.tier_table(str(table.path), on_progress=lambda progress: lines.append(progress.message))
    assert result.state == "SUCCEEDED"
    assert any("waits until the cluster assigns it" in line for line in lines)
    deployment.restart_coordinator()
    deployment.write(tables, table, 2 * COUNT, COUNT)
    deployment.wait_tiered(table.path)
    deployment.assert_exact(table.path, 3 * COUNT)
    tables.drop(table)
