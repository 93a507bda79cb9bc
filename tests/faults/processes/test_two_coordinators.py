"""Two coordinators on one folder: one waits, and takes over when the other is gone; one that only slept is fenced when it wakes up."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from support.faulty.deployment import FaultyDeployment
from support.faulty.network import FaultyNetwork
from support.faulty.preloaded import MovedClock
from support.running.cluster_of_processes import is_stopped, wait_stopped, wake
from support.running.processes import Process, wait_for
from tiering import crash_points
from tiering.cluster.embedded.folder import LOCK_FILE as CLUSTER_LOCK
from tiering.files.folder_lock import LOCK_FILE

WAITING = "waiting for another coordinator"


def start_waiting(scene: FaultyDeployment, port: int, **env: str) -> Process:
    """A coordinator that waits for the folder."""
    second = scene.start_program("-m", "tiering.cli.main", *scene.coordinator_arguments(port), log_name="coordinator", env=env)
    wait_for("the second coordinator waits", lambda: WAITING in second.output())
    return second


@pytest.mark.soak
@pytest.mark.parametrize("days", [-5, 5])
def test_the_second_coordinator_waits_and_takes_over_when_the_first_is_killed(scene: FaultyDeployment, tmp_path: Path, days: int) -> None:
    """On another machine, whose wall clock differs."""
    first, clock = scene.coordinator, MovedClock(tmp_path / "clock")
    clock.move(days * 24 * 3_600)
    tierer = scene.start_inline_tierer("only", crash_point=f"{crash_points.AFTER_FENCE}:stop")
    scene.write()
    wait_stopped(tierer)
    second = start_waiting(scene, scene.port, **clock.env)
    first.send(signal.SIGKILL)
    second.wait_ready()
    wake(tierer)
    scene.write()
    scene.settle()


def test_a_coordinator_that_slept_while_another_took_over_ends_at_its_first_write(scene: FaultyDeployment) -> None:
    """The test removes the locks of the sleeping coordinator, like a network file system that lost contact with it."""
    first = scene.coordinator
    with FaultyNetwork(scene.port) as network:
        sleeper = scene.start_inline_tierer("sleeper", network.uri, crash_point=f"{crash_points.AFTER_FENCE}:stop")
        scene.write()
        wait_stopped(sleeper)
        second = start_waiting(scene, 0)
        first.send(signal.SIGSTOP)
        wait_stopped(first)
        for lock in (scene.data.cluster / CLUSTER_LOCK, scene.data.root / LOCK_FILE):
            lock.unlink()
        scene.uri = second.wait_ready()
        network.port = scene.port
        network.reset()
        other = scene.start_inline_tierer("other")
        scene.settle()
        wake(first)
        assert first.wait_ended() != 0
        assert "another coordinator took over the store" in first.output()
        wake(sleeper)
        wait_for("the sleeper's round is fenced", lambda: "FENCED" in sleeper.output())
        scene.assert_lake()
        other.close()
        scene.write()
        scene.settle()
    assert not is_stopped(second)
