"""Tierers and Fluss's coordinator are killed in the middle of rounds; afterwards the lake has every row once, and Fluss knows how far."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from support.clusters.fluss_tables import FlussTables
from support.lakes.lake_proof import lake_rows, marker_of
from support.running.cluster_of_processes import wait_stopped, wake
from support.running.fluss_deployment import FlussDeployment, make_orders
from support.running.processes import Process, wait_for
from tiering import crash_points
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.model.tables import TableInfo

COUNT = 60
ONE_TABLE = ("--master", "local[1]", "--slots", "1")
"""Options of a tierer that takes no second table."""
STOPPED_MS = 120_000
"""A service timeout that outlasts tierers that are stopped until another one is, too."""


@pytest.fixture(scope="module")
def deployment(fluss: LocalFlussCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlussDeployment]:
    """A coordinator that outlives all tests of this file; tierers are theirs."""
    deployment = FlussDeployment(tmp_path_factory.mktemp("crashes"), servers=fluss.bootstrap_servers)
    try:
        deployment.start_coordinator()
        yield deployment
    finally:
        deployment.close()


@pytest.mark.soak
@pytest.mark.parametrize("points", [crash_points.IN_ROUND], ids=["all"])
def test_a_tierer_killed_at_every_point_of_its_rounds_leaves_every_row_once(
    deployment: FlussDeployment, tables: FlussTables, points: Sequence[str]
) -> None:
    """Each start takes up what the one before left, is killed at the next point on the way, and is started again under its name."""
    table = make_orders(tables, "killed")
    written = 0
    for point in points:
        deployment.write(tables, table, written, COUNT)
        written += COUNT
        killed = deployment.start_tierer("restarted", crash_point=point)
        wait_for("the tierer is killed", lambda killed=killed, point=point: is_killed(killed, point), 120)
        assert_no_row_twice(deployment, table)
    last = deployment.start_tierer("restarted")
    deployment.wait_tiered(table.path)
    assert_all_is_known(deployment, table, written)
    last.close()
    tables.drop(table)


@pytest.mark.soak
def test_the_clusters_coordinator_is_killed_between_the_steps_of_commits(
    fluss: LocalFlussCluster, tables: FlussTables, tmp_path: Path
) -> None:
    """The coordinator dies for one table after its offsets were prepared and before the lake's commit, for another before the cluster was
    notified."""
    deployment = FlussDeployment(tmp_path, servers=fluss.bootstrap_servers)
    try:
        deployment.start_coordinator("--service-timeout-ms", str(STOPPED_MS))
        orders = [make_orders(tables, f"orphaned_{number}") for number in (1, 2)]
        for table in orders:
            deployment.write(tables, table, 0, COUNT)
        points = (crash_points.AFTER_FENCE, crash_points.AFTER_LAKE_COMMIT)
        tierers = [deployment.start_tierer(point, *ONE_TABLE, crash_point=f"{point}:stop") for point in points]
        for tierer in tierers:
            wait_stopped(tierer)
        fluss.coordinator.kill()
        for tierer in tierers:
            wake(tierer)
        for table in orders:
            wait_for("the lake has the rows", lambda table=table: is_in_lake(deployment, table, COUNT))
        fluss.coordinator.start()
        fluss.wait_ready()
        for table in orders:
            deployment.wait_tiered(table.path)
            assert_all_is_known(deployment, table, COUNT)
            deployment.write(tables, table, COUNT, COUNT)
        for table in orders:
            deployment.wait_tiered(table.path)
            assert_all_is_known(deployment, table, 2 * COUNT)
            tables.drop(table)
    finally:
        deployment.close()


def test_a_table_made_anew_in_the_middle_of_a_round_is_tiered_instead(deployment: FlussDeployment, tables: FlussTables) -> None:
    former = make_orders(tables, "anew_in_round")
    deployment.write(tables, former, 0, COUNT)
    tierer = deployment.start_tierer("surprised", crash_point=f"{crash_points.AFTER_FILES}:stop")
    wait_stopped(tierer)
    table = make_orders(tables, "anew_in_round")
    deployment.write(tables, table, 0, COUNT // 2)
    wait_for("the new table is known", lambda: deployment.visible_tables().get(table.path) == table.table_id)
    wake(tierer)
    deployment.wait_tiered(table.path)
    assert_all_is_known(deployment, table, COUNT // 2)
    tierer.close()
    tables.drop(table)


def is_killed(tierer: Process, point: str) -> bool:
    """Whether it was killed at its crash point; of a split that Spark runs a Python worker is, and then the tierer here."""
    if point == crash_points.IN_SPLIT and "state=FAILED" in tierer.output():
        tierer.popen.kill()
    return tierer.popen.poll() == -signal.SIGKILL


def assert_all_is_known(deployment: FlussDeployment, table: TableInfo, count: int) -> None:
    """The lake has every row once, and Fluss's record is the lake's marker."""
    deployment.assert_exact(table.path, count)
    recorded, marker = deployment.recorded(table.path), marker_of(deployment.data.lake_properties, table.path)
    assert recorded is not None
    assert marker is not None
    assert {bucket: at for bucket, at in recorded.offsets.items() if at} == {b: r.tiered for b, r in marker.buckets.items() if r.tiered}


def assert_no_row_twice(deployment: FlussDeployment, table: TableInfo) -> None:
    if Path(deployment.data.root / "lake").exists() and marker_of(deployment.data.lake_properties, table.path) is not None:
        ids = lake_rows(deployment.data.lake_properties, table.path)["id"].to_pylist()
        assert len(ids) == len(set(ids))


def is_in_lake(deployment: FlussDeployment, table: TableInfo, count: int) -> bool:
    marker = marker_of(deployment.data.lake_properties, table.path)
    return marker is not None and sum(tiered.tiered for tiered in marker.buckets.values()) == count
