"""Processes killed at every point of a round, and in a sweep, over a lake in S3."""

from __future__ import annotations

import signal
from collections.abc import Sequence

import pytest
from pyiceberg.catalog import load_catalog

from support.faulty.deployment import ACCOUNTS, ENDED_SECONDS, ORDERS
from support.lake_kinds.kinds import ICEBERG, PAIMON, PAIMON_CLEAN
from support.object_store.deployment import DeploymentOnS3
from support.object_store.paimon_warehouse import PaimonWarehouse
from support.object_store.scene import Scene
from support.running.processes import wait_for
from tiering import crash_points
from tiering.client import LakewardClient
from tiering.errors import LakewardError


@pytest.mark.in_turn("kind", "point")
@pytest.mark.parametrize("kind", [ICEBERG, PAIMON_CLEAN], ids=lambda kind: kind.name, indirect=True)
@pytest.mark.parametrize("point", crash_points.IN_ROUND)
def test_a_tierer_killed_anywhere_in_its_round_leaves_everything_once(scene: Scene, point: str) -> None:
    ours = scene.deployment
    ours.write()
    doomed = ours.start_inline_tierer("doomed", crash_point=point)
    assert doomed.wait_ended(ENDED_SECONDS) == -signal.SIGKILL
    ours.write()
    ours.start_inline_tierer("next")
    ours.settle()
    ours.assert_no_secret_left()


def dead_files(ours: DeploymentOnS3) -> set[str]:
    """Data files of orders in S3 that the head does not name."""
    if isinstance(ours.catalog, PaimonWarehouse):
        folder = f"{ours.catalog.folder}/{ORDERS.database_name}.db/{ORDERS.table_name}"
        live = {str(file) for file in ours.by_hand(ours.kind).data_files(ORDERS)}
    else:
        table = load_catalog("lake", **ours.lake_properties).load_table(str(ORDERS))
        folder = table.location().split("/", 3)[3]
        live = {task.file.file_path.removeprefix("s3://") for task in table.scan().plan_files()}
    return {file for file in ours.catalog.store.files(folder) if file.endswith(".parquet")} - live


IN_SWEEPS = [(crash_points.SWEEP_DELETING,), pytest.param(crash_points.IN_SWEEP, marks=pytest.mark.soak)]
"""In a lake on this machine a test of every day dies at each of them (processes/test_killed_repairs.py)."""


@pytest.mark.soak
@pytest.mark.parametrize("kind", [ICEBERG, PAIMON], ids=lambda kind: kind.name, indirect=True)
@pytest.mark.parametrize("points", IN_SWEEPS, ids=["deleting", "sweep"])
def test_a_coordinator_killed_in_a_sweep_deletes_the_rest_when_it_is_called_again(scene: Scene, points: Sequence[str]) -> None:
    ours = scene.deployment
    for point in points:
        ours.write()
        ours.leave_dead_files()
        tierer = ours.start_inline_tierer("next")
        ours.settle()
        left = dead_files(ours)
        assert len(left) > 1

        ours.kill_coordinator()
        dying = ours.start_coordinator(port=ours.port, crash_point=point)
        dying.wait_ready()
        with LakewardClient(ours.uri) as client, pytest.raises(LakewardError):
            client.sweep_lake(ORDERS, older_than_ms=0)
        assert dying.wait_ended(ENDED_SECONDS) == -signal.SIGKILL
        assert len(dead_files(ours)) == (len(left) - 1 if point == crash_points.SWEEP_DELETING else 0)

        ours.start_coordinator(port=ours.port)
        with ours.client() as client:
            [result] = client.sweep_lake(ORDERS, older_than_ms=0)
        assert result.error is None
        assert not dead_files(ours)
        ours.settle()
        tierer.close()


@pytest.mark.soak
@pytest.mark.parametrize("kind", [ICEBERG, PAIMON_CLEAN], ids=lambda kind: kind.name, indirect=True)
def test_a_lake_table_that_the_catalog_lost_is_made_anew_by_the_named_call(scene: Scene) -> None:
    ours = scene.deployment
    ours.write()
    ours.start_inline_tierer("only")
    ours.settle()
    for path in (ORDERS, ACCOUNTS):
        ours.by_hand(ours.kind).drop(path)
    ours.write()
    for path in (ORDERS, ACCOUNTS):
        wait_for("the lost lake table is an error", lambda path=path: ours.status(path).error_class == "LakeTableReplaced")  # type: ignore[misc]
        with ours.client() as client:
            assert client.reconcile_lake(path, "retier").outcome == "reconciled"
    ours.settle()
