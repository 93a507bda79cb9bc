"""The state store is deleted, or set back to a backup, under real tables: the coordinator goes on exactly once, and says what was lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.faulty.deployment import ORDERS, FaultyDeployment
from support.lakes.lake_proof import marker_of
from support.running.cluster_of_processes import wait_stopped, wake
from sys_tables.catalog_client import SystemCatalog
from tiering import crash_points
from tiering.coordinator.memory.sql_store import SqlStore

ROUNDS = 3


def epochs(scene: FaultyDeployment) -> int:
    marker = marker_of(scene.data.lake_properties, ORDERS)
    assert marker is not None
    return marker.tiering_epoch


def lost_events(scene: FaultyDeployment) -> list[str]:
    store = SqlStore.for_reading(scene.data.store_file)
    try:
        return [event.message for event in store.events() if event.event_type == "STATE_LOST"]
    finally:
        store.close()


def state(scene: FaultyDeployment, command: str, backup: Path) -> None:
    process = scene.start_program("-m", "tiering.cli.main", "state", command, str(backup), "--data", str(scene.data.root), log_name="state")
    assert process.wait_ended() == 0, process.output()


def test_epochs_go_on_above_those_of_rounds_that_outlived_the_store(scene: FaultyDeployment) -> None:
    """The round may have sent its commit, and only its tierer knows of it: neither the store nor, yet, the lake."""
    first = scene.start_inline_tierer("first")
    for _ in range(ROUNDS):
        scene.write()
        scene.settle()
    first.close()
    asleep = scene.start_inline_tierer("asleep", crash_point=f"{crash_points.AFTER_FENCE}:stop")
    scene.write()
    wait_stopped(asleep)
    outlived = {row["table_name"]: row for row in rounds(scene) if row["state"] == "RUNNING"}
    port = scene.port
    scene.kill_coordinator()
    for file in scene.data.root.glob("coordinator.db*"):
        file.unlink()
    scene.start_coordinator(port=port)
    wake(asleep)
    scene.write()  # of the commit that the sleeper had sent the new store knows nothing
    scene.settle()
    later = [row for row in rounds(scene) if row["started_time"] is not None and row["table_name"] in outlived]
    assert later
    for row in later:
        former = outlived[row["table_name"]]
        assert row["tiering_epoch"] > former["tiering_epoch"]
        assert row["coordinator_epoch"] > former["coordinator_epoch"]
    assert any("a tierer runs a round with epoch" in message for message in lost_events(scene))
    scene.validate(ORDERS)


def rounds(scene: FaultyDeployment) -> list[dict[str, Any]]:
    """All that the store knows."""
    with SystemCatalog(scene.uri) as catalog:
        return list(catalog.read("tiering_rounds"))


@pytest.mark.soak
@pytest.mark.parametrize("kept", ["nothing", "an old backup"])
def test_a_lost_store_loses_history_alone(scene: FaultyDeployment, kept: str) -> None:
    backup = scene.folder / "backup.db"
    tierer = scene.start_inline_tierer("only")
    for number in range(ROUNDS):
        scene.write()
        scene.settle()
        if number == 0 and kept != "nothing":
            state(scene, "backup", backup)
    before = epochs(scene)
    port = scene.port
    scene.kill_coordinator()
    for file in scene.data.root.glob("coordinator.db*"):
        file.unlink()
    if kept != "nothing":
        state(scene, "restore", backup)
    scene.start_coordinator(port=port)
    scene.write()
    scene.settle()
    assert epochs(scene) > before
    assert lost_events(scene)
    tierer.close()
