"""Rounds of a Fluss cluster whose tablet servers are killed: with another leader, without one, and of a log that lost its end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.clusters.fluss_server import is_led, kill_with_notes, leader_number, noted_end, start_all
from support.clusters.fluss_tables import FlussTables
from support.lakes.lake_proof import lake_rows
from support.running.fluss_deployment import FlussDeployment, make_orders
from support.running.processes import wait_for
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.cluster.fluss.log.bucket_log import BucketLog
from tiering.errors import ClusterUnavailable
from tiering.model.tables import BucketKey

COUNT = 60
PATIENCE_S = 120
"""For an election after a kill: a session of ZooKeeper's has to end, on a busy machine."""
B0 = BucketKey(None, 0)


@pytest.fixture(scope="module")
def tables(fluss_of_two: LocalFlussCluster) -> Iterator[FlussTables]:
    tables = FlussTables(fluss_of_two.bootstrap_servers)
    yield tables
    tables.close()


@pytest.fixture
def running(fluss_of_two: LocalFlussCluster) -> Iterator[LocalFlussCluster]:
    """The cluster, all of whose servers run again after the test."""
    yield fluss_of_two
    start_all(fluss_of_two)


@pytest.fixture(scope="module")
def deployment(fluss_of_two: LocalFlussCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlussDeployment]:
    """A coordinator and a tierer that outlive all tests of this file."""
    deployment = FlussDeployment(tmp_path_factory.mktemp("living"), servers=fluss_of_two.bootstrap_servers)
    try:
        deployment.start_coordinator()
        deployment.start_tierer("first")
        yield deployment
    finally:
        deployment.close()


@pytest.mark.soak
def test_rounds_go_on_with_another_leader_and_wait_for_a_bucket_without_one(
    running: LocalFlussCluster, deployment: FlussDeployment, tables: FlussTables
) -> None:
    replicated = make_orders(tables, "replicated", buckets=2, replication_factor="2")
    alone = make_orders(tables, "alone", buckets=1)
    for table in (replicated, alone):
        deployment.write(tables, table, 0, COUNT)
    for table in (replicated, alone):
        deployment.wait_tiered(table.path)
    number = leader_number(running, tables.client, alone, B0)
    wait_for("the log's end is noted", lambda: noted_end(running, number, alone) == COUNT, PATIENCE_S)
    running.tablet_servers[number].kill()

    def moved() -> bool:
        try:
            return all(leader_number(running, tables.client, replicated, BucketKey(None, bucket)) != number for bucket in (0, 1))
        except ClusterUnavailable:
            return False

    wait_for("the other server leads", moved, PATIENCE_S)
    deployment.write(tables, replicated, COUNT, COUNT)
    deployment.wait_tiered(replicated.path, PATIENCE_S)
    deployment.assert_exact(replicated.path, 2 * COUNT)
    wait_for("rounds of the other table fail", lambda: deployment.status(alone.path).error_class == "ClusterUnavailable", PATIENCE_S)
    assert deployment.status(alone.path).error_retryable

    running.tablet_servers[number].start()
    running.wait_ready()
    wait_for("the bucket has a leader again", lambda: is_led(running, tables.client, alone, B0), PATIENCE_S)
    deployment.write(tables, alone, COUNT, COUNT)
    deployment.wait_tiered(alone.path, PATIENCE_S)
    deployment.assert_exact(alone.path, 2 * COUNT)
    for table in (replicated, alone):
        tables.drop(table)


@pytest.mark.soak
def test_a_log_that_lost_tiered_records_and_outgrew_the_lake_parks_its_table(
    running: LocalFlussCluster, deployment: FlussDeployment, tables: FlussTables
) -> None:
    """A server without replicas is killed before it noted how far its log is committed; writers go on meanwhile."""
    table = make_orders(tables, "rewritten", buckets=1)
    deployment.write(tables, table, 0, COUNT)
    deployment.wait_tiered(table.path)
    number = leader_number(running, tables.client, table, B0)
    kill_with_notes(running, number, table, COUNT // 3)
    running.wait_ready()
    wait_for("the bucket has a leader again", lambda: is_led(running, tables.client, table, B0), PATIENCE_S)
    assert BucketLog(tables.client, table.path, table.table_id, B0).bounds().log_end < COUNT
    deployment.write(tables, table, COUNT, 2 * COUNT, pieces=1)
    wait_for("the table is parked", lambda: deployment.status(table.path).error_class in ("LogRewritten", "LogBehindLake"), PATIENCE_S)
    deployment.lakeward("tier", str(table.path), status=1)
    status = deployment.status(table.path)
    assert (status.status, status.error_class, status.error_retryable) == ("Failed", "LogRewritten", False)
    in_lake = lake_rows(deployment.data.lake_properties, table.path)["id"].to_pylist()
    assert sorted(in_lake) == list(range(COUNT))  # the files of a second round, if there was one, come first
    tables.drop(table)
