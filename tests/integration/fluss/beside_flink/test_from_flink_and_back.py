"""The way that docs/fluss-migration.md describes: from Flink's tiering to Lakeward beside it, then in its place, and back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.flink.fluss_lake_world import FlussLakeWorld
from support.lakes.lake_proof import lake_rows
from support.running.fluss_deployment import FlussDeployment
from support.running.processes import wait_for
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.model.tables import TableInfo


@pytest.fixture
def world(fluss: LocalFlussCluster, tmp_path: Path) -> Iterator[FlussLakeWorld]:
    """The world's lake and Flink; the test does not use its coordinator."""
    world = FlussLakeWorld(tmp_path / "world", fluss.bootstrap_servers)
    yield world
    world.close()


@pytest.fixture
def deployment(fluss: LocalFlussCluster, world: FlussLakeWorld, tmp_path: Path) -> Iterator[FlussDeployment]:
    deployment = FlussDeployment(tmp_path, servers=fluss.bootstrap_servers, mode="shared")
    try:
        yield deployment
    finally:
        deployment.close()


def start(deployment: FlussDeployment, world: FlussLakeWorld, mode: str) -> None:
    deployment.mode = mode
    deployment.start_coordinator(*(f"--lake-property={name}={value}" for name, value in world.lake_properties.items()))
    deployment.start_tierer(f"of-{mode}")


def stop(deployment: FlussDeployment) -> None:
    while deployment.processes:
        deployment.processes.pop().close()


def in_lake(world: FlussLakeWorld, table: TableInfo) -> list[int]:
    return sorted(lake_rows(world.lake_properties, table.path)["id"].to_pylist())


@pytest.mark.soak
def test_tables_go_from_flink_to_lakeward_and_back(deployment: FlussDeployment, world: FlussLakeWorld) -> None:
    table = world.table("orders")
    world.lake.ensure_table(table)  # as the plugin of Fluss's coordinator does
    world.append(table, 0, 50)
    world.flink(table).whole()

    start(deployment, world, "shared")
    world.append(table, 50, 50)
    deployment.wrote()
    deployment.wait_tiered(table.path)
    assert in_lake(world, table) == list(range(100))

    late = world.flink(table).assign()
    world.append(table, 100, 50)
    late.plan().check().prepare().fail()  # its job starts again, its committer sleeps on
    deployment.wrote()
    deployment.wait_tiered(table.path)
    late.append().tell()
    world.append(table, 150, 10)
    wait_for("the overlap is named", lambda: deployment.status(table.path).error_class == "ForeignTieringOverlap")
    call = "CALL fluss.sys.reconcile_lake(table => 'sales.orders', action => 'deduplicate')"
    assert "reconciled" in deployment.lakeward("sql", call, "--master", "local[1]")
    deployment.wrote()
    deployment.wait_tiered(table.path)
    assert in_lake(world, table) == list(range(160))

    stop(deployment)
    start(deployment, world, "exclusive")
    world.append(table, 160, 40)
    deployment.wrote()
    deployment.wait_tiered(table.path)
    commit_beside_exclusive(deployment, world, table, 200)

    stop(deployment)
    world.append(table, 260, 40)
    world.flink(table).whole()
    assert in_lake(world, table) == list(range(300))


def commit_beside_exclusive(deployment: FlussDeployment, world: FlussLakeWorld, table: TableInfo, rows: int) -> None:
    """A Flink job that was not stopped commits while this deployment takes itself for the only one: named, and nothing is lost."""
    deployment.processes.pop().close()  # no tierer, so that Flink is first
    world.append(table, rows, 50)
    world.flink(table).whole()
    world.append(table, rows + 50, 10)
    deployment.start_tierer("after-flink")
    wait_for("the other service is named", lambda: deployment.status(table.path).error_class == "ForeignTiering")
    status = deployment.status(table.path)
    assert "__fluss_lake_tiering" in str(status.last_error)
    assert "stop the other one" in str(status.error_hint)
    assert in_lake(world, table) == list(range(rows + 50))
    call = "CALL fluss.sys.reconcile_lake(table => 'sales.orders', action => 'adopt')"
    assert "reconciled" in deployment.lakeward("sql", call, "--master", "local[1]")
    deployment.wrote()
    deployment.wait_tiered(table.path)
    assert in_lake(world, table) == list(range(rows + 60))
