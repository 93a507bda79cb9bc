"""The state store is deleted, or set back to a backup, under real tables: the coordinator goes on exactly once, and says what was lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.faulty.deployment import ORDERS, FaultyDeployment
from support.lakes.lake_proof import marker_of
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
