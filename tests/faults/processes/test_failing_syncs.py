"""fsync fails, under the coordinator or under the tierer: it is said, nothing that was acknowledged is lost, and it goes on by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.faulty.deployment import ORDERS, FaultyDeployment
from support.faulty.preloaded import FailingSyncs
from support.running.processes import wait_for
from tiering.errors import LakewardError


@pytest.fixture
def syncs(tmp_path: Path) -> FailingSyncs:
    return FailingSyncs(tmp_path)


def test_a_coordinator_whose_disk_does_not_sync_refuses_writes_and_goes_on_later(scene: FaultyDeployment, syncs: FailingSyncs) -> None:
    scene.start_inline_tierer("only")
    scene.kill_coordinator()
    syncs.process = scene.start_coordinator(port=scene.port, **syncs.env)
    scene.write()
    scene.settle()
    syncs.begin()
    for _ in range(3):
        with pytest.raises(LakewardError, match=r"disk I/O error|Input/output error"):
            scene.write()
    wait_for("the coordinator says what its store lacks", lambda: "disk I/O error" in scene.coordinator.output())
    syncs.end()
    scene.write()
    scene.settle()


@pytest.mark.soak
def test_a_tierer_whose_disk_does_not_sync_fails_its_rounds_and_goes_on_later(scene: FaultyDeployment, syncs: FailingSyncs) -> None:
    syncs.process = scene.start_inline_tierer("only", **syncs.env)
    scene.write()
    scene.settle()
    syncs.begin()
    scene.write()
    error = wait_for("the table fails", lambda: scene.status(ORDERS).last_error)
    assert "Input/output error" in error
    syncs.end()
    scene.write()
    scene.settle()
    scene.validate(ORDERS)
