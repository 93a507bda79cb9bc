"""An executor is killed in the middle of its tasks: Spark runs them again elsewhere, and every offset is in the lake once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.running.cluster_of_processes import Deployment
from support.running.processes import Process, wait_for
from tiering import crash_points
from tiering.model.tables import TablePath

ORDERS = TablePath("sales", "orders")
COUNT = 30_000
EXECUTOR = "CoarseGrainedExecutorBackend"


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    """Every round is a Spark job; the service timeout is longer than Spark needs to miss an executor."""
    deployment = Deployment(tmp_path)
    try:
        deployment.start_coordinator("--inline-round-bytes", "0", "--service-timeout-ms", "60000")
        yield deployment
    finally:
        deployment.close()


def processes_of(tierer: Process, holding: str) -> dict[int, str]:
    """Pid -> state letter of those in the tierer's session whose command line holds a text."""
    offsets_by_bucket = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _parent, _group, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            command = (folder / "cmdline").read_bytes().decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
        if int(session) == tierer.popen.pid and holding in command:
            offsets_by_bucket[int(folder.name)] = state
    return offsets_by_bucket


def stopped_workers(tierer: Process) -> list[int]:
    return [pid for pid, state in processes_of(tierer, "python").items() if state == "T"]


def test_tasks_of_a_killed_executor_run_again_elsewhere_and_stay_exact(deployment: Deployment) -> None:
    deployment.create(ORDERS)
    deployment.append(ORDERS, 0, COUNT, pieces=9)
    stop_in_task = f"spark.executorEnv.{crash_points.VARIABLE}={crash_points.IN_SPLIT}:stop"
    tierer = deployment.start_tierer("cluster", "--master", "local-cluster[2,1,1024]", "--conf", stop_in_task)
    wait_for("both executors are in a task", lambda: len(stopped_workers(tierer)) >= 2, 120)
    victim, *others = processes_of(tierer, EXECUTOR)
    assert others
    os.kill(victim, signal.SIGKILL)

    def tiered() -> bool:
        """Each worker stops once in its first task: woken as soon as the dead executor's successor runs."""
        if len(set(processes_of(tierer, EXECUTOR)) - {victim}) >= 2:
            for pid in stopped_workers(tierer):
                os.kill(pid, signal.SIGCONT)
        return deployment.status(ORDERS).lake_records == COUNT

    wait_for("the round ends", tiered, 120)
    deployment.assert_exact(ORDERS, COUNT)
    assert deployment.status(ORDERS).error_count == 0  # the same round, not another one
