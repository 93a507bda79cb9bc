"""The coordinator is killed in the middle of sweeps and reconciliations: the same call, made again, goes on, and nothing live is lost."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from support.faulty.deployment import ENDED_SECONDS, ORDERS, FaultyDeployment
from support.lake_kinds.kinds import ICEBERG
from support.running.cluster_of_processes import SCHEMA, rows
from support.running.processes import wait_for
from tiering import crash_points
from tiering.client import LakewardClient
from tiering.errors import LakewardError
from tiering.model.tables import TablePath
from tiering.procedures.adopt_table import AdoptTableResult

BEFORE_A_SWEEP_MS = 0
"""No guard: what a dead round left may go at once."""


def dying(scene: FaultyDeployment, point: str, call: Callable[[LakewardClient], object]) -> None:
    """Makes the call to a coordinator that is killed at `point` on the way, and starts the next one."""
    scene.kill_coordinator()
    doomed = scene.start_coordinator(port=scene.port, crash_point=point)
    doomed.wait_ready()
    with LakewardClient(scene.uri) as client, pytest.raises(LakewardError):
        call(client)
    assert doomed.wait_ended(ENDED_SECONDS) == -signal.SIGKILL
    scene.start_coordinator(port=scene.port)


def dead_files(scene: FaultyDeployment) -> set[Path]:
    """Data files of orders that no snapshot names."""
    live = {str(path).removeprefix("file:") for path in scene.by_hand(ICEBERG).data_files(ORDERS)}
    folder = next((scene.data.root / "lake").glob("sales/orders*"))
    return {file for file in folder.rglob("lakeward-*.parquet") if str(file) not in live}


@pytest.mark.in_turn("point")
@pytest.mark.parametrize("point", crash_points.IN_SWEEP)
def test_a_coordinator_killed_in_a_sweep_deletes_the_rest_when_it_is_called_again(scene: FaultyDeployment, point: str) -> None:
    scene.write()
    scene.leave_dead_files()
    scene.start_inline_tierer("next")
    scene.settle()
    left = dead_files(scene)
    assert len(left) > 1
    dying(scene, point, lambda client: client.sweep_lake(ORDERS, older_than_ms=BEFORE_A_SWEEP_MS))
    assert len(left & dead_files(scene)) == (len(left) - 1 if point == crash_points.SWEEP_DELETING else 0)
    with scene.client() as client:
        [result] = client.sweep_lake(ORDERS, older_than_ms=BEFORE_A_SWEEP_MS)
    assert result.error is None
    assert not dead_files(scene)
    scene.settle()


@pytest.mark.in_turn("point")
@pytest.mark.parametrize("point", crash_points.IN_ADOPTION)
def test_a_coordinator_killed_in_an_adoption_completes_it_with_the_same_call(scene: FaultyDeployment, point: str) -> None:
    scene.write()
    lake, legacy = scene.by_hand(ICEBERG), TablePath("legacy", "orders")
    lake.create(legacy, SCHEMA)
    lake.append(legacy, rows(0, scene.written), {})
    offsets = {str(bucket): offset for bucket, offset in scene._ends(ORDERS).items()}

    def call(client: LakewardClient) -> AdoptTableResult:
        return client.adopt_table(ORDERS, str(legacy), offsets, idempotency_key="once")

    dying(scene, point, call)
    with scene.client() as client:
        result = call(client)
        assert call(client) == result
    assert result.outcome in ("adopted", "already_adopted")
    assert lake.tables("legacy") == []
    scene.write()
    scene.start_inline_tierer("only")
    scene.wait_tiered(ORDERS)
    assert sorted(lake.rows(ORDERS)["id"].to_pylist()) == list(range(scene.written))
    scene.validate(ORDERS)


@pytest.mark.soak
@pytest.mark.parametrize("point", crash_points.IN_RECONCILE)
def test_a_coordinator_killed_in_a_reconciliation_goes_on_with_the_same_call(scene: FaultyDeployment, point: str) -> None:
    scene.write()
    scene.start_inline_tierer("only")
    scene.settle()
    scene.by_hand(ICEBERG).drop(ORDERS)
    scene.write()
    wait_for("the dropped lake table is an error", lambda: scene.status(ORDERS).error_class == "LakeTableReplaced")
    dying(scene, point, lambda client: client.reconcile_lake(ORDERS, "retier", idempotency_key="once"))
    with scene.client() as client:
        result = client.reconcile_lake(ORDERS, "retier", idempotency_key="once")
        assert client.reconcile_lake(ORDERS, "retier", idempotency_key="once") == result
    assert result.outcome == "reconciled"
    scene.settle()
    scene.validate(ORDERS)
