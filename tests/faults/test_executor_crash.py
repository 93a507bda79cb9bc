"""An executor is killed in the middle of its tasks: Spark runs them again elsewhere, and every offset is in the lake once."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.lake_kinds.kinds import ICEBERG, PAIMON_CLEAN, LakeKind
from support.running.cluster_of_processes import Deployment
from support.running.processes import Process, wait_for
from support.running.sessions import processes_of
from support.spark.class_archive import executor_conf
from sys_tables.catalog_client import SystemCatalog
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


def stopped_workers(tierer: Process) -> list[int]:
    return [pid for pid, state in processes_of(tierer.popen.pid, "python").items() if state == "T"]


def executor_name(pid: int) -> str:
    """Returns the name in `sys.tiering_splits`."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    return f"{words[words.index('--executor-id') + 1]}@{socket.gethostname()}"


def running_splits(catalog: SystemCatalog) -> list[dict[str, Any]]:
    return catalog.read("tiering_splits", table_name=ORDERS.table_name, state="RUNNING")


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("kind", [ICEBERG, PAIMON_CLEAN], ids=lambda kind: kind.name)
def test_tasks_of_a_killed_executor_run_again_elsewhere_and_stay_exact(deployment: Deployment, kind: LakeKind) -> None:
    """A writer of each format, and one of each layout: a Spark of two executors takes a minute."""
    deployment.create(ORDERS, kind=kind)
    deployment.append(ORDERS, 0, COUNT, pieces=9)
    stop_in_task = f"spark.executorEnv.{crash_points.VARIABLE}={crash_points.IN_SPLIT}:stop"
    tierer = deployment.start_tierer("cluster", "--master", "local-cluster[2,1,1024]", "--conf", stop_in_task, *executor_conf())
    wait_for("both executors are in a task", lambda: len(stopped_workers(tierer)) >= 2, 120)
    victim, *others = processes_of(tierer.popen.pid, EXECUTOR)
    assert others
    lost = executor_name(victim)
    with SystemCatalog(deployment.uri) as catalog:
        begun = wait_for("both tasks are shown", lambda: rows if len(rows := running_splits(catalog)) == 2 else None)
        assert lost in {row["executor"] for row in begun}
        assert {row["attempt"] for row in begun} == {0}
        os.kill(victim, signal.SIGKILL)
        again = wait_for("a task is tried again", lambda: [row for row in running_splits(catalog) if row["attempt"] == 1], 120)
    [former] = [row for row in begun if row["executor"] == lost]
    assert [row["split_id"] for row in again] == [former["split_id"]]
    assert again[0]["executor"] not in {row["executor"] for row in begun}

    def tiered() -> bool:
        """Each worker stops once in its first task: woken as soon as the dead executor's successor runs."""
        if len(set(processes_of(tierer.popen.pid, EXECUTOR)) - {victim}) >= 2:
            for pid in stopped_workers(tierer):
                os.kill(pid, signal.SIGCONT)
        return deployment.status(ORDERS).lake_records == COUNT

    wait_for("the round ends", tiered, 120)
    deployment.assert_exact(ORDERS, COUNT)
    assert deployment.status(ORDERS).error_count == 0  # the same round, not another one
