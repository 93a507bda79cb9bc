"""A coordinator that takes over is killed, or falls asleep, anywhere on its way: the next one goes on, and each row is in the lake once."""

from __future__ import annotations

import signal

import pytest

from support.faulty.deployment import ENDED_SECONDS, FaultyDeployment
from support.running.cluster_of_processes import wait_stopped, wake
from support.running.processes import Process, wait_for
from tiering import crash_points

WAITING = "waiting for another coordinator"


def start_waiting(scene: FaultyDeployment, crash_point: str | None = None) -> Process:
    """A coordinator that waits for the folder, to serve where the present one does."""
    env = {} if crash_point is None else {crash_points.VARIABLE: crash_point}
    arguments = ("-m", "tiering.cli.main", *scene.coordinator_arguments(scene.port))
    process = scene.start_program(*arguments, log_name="coordinator", env=env)
    wait_for("the coordinator waits for the folder", lambda: WAITING in process.output())
    return process


@pytest.mark.soak
@pytest.mark.parametrize("point", crash_points.IN_TAKE_OVER)
def test_a_coordinator_that_dies_in_a_take_over_leaves_it_to_the_next(scene: FaultyDeployment, point: str) -> None:
    """A round that may have sent its commit waits for the coordinator that serves in the end."""
    leader = scene.coordinator
    tierer = scene.start_inline_tierer("only", crash_point=f"{crash_points.AFTER_FENCE}:stop")
    scene.write()
    wait_stopped(tierer)
    heir = start_waiting(scene, point)
    leader.send(signal.SIGKILL)
    assert heir.wait_ended(ENDED_SECONDS) == -signal.SIGKILL
    last = scene.start_coordinator(port=scene.port)
    wake(tierer)
    scene.settle()
    assert "STATE_LOST" not in last.output()
