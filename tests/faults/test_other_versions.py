"""A data folder, a state store or a cluster of another version: the process says so, touches nothing, and ends."""

from __future__ import annotations

import signal
import sqlite3
from pathlib import Path

from support.running.cluster_of_processes import Deployment
from tiering.cluster.embedded.metadata import database
from tiering.coordinator.memory import sql_schema
from tiering.model.tables import TablePath

ORDERS = TablePath("sales", "orders")
COUNT = 90


def change(database: Path, statement: str) -> None:
    connection = sqlite3.connect(database)
    with connection:
        connection.execute(statement)
    connection.close()


def refused(deployment: Deployment) -> str:
    process = deployment._start("coordinator", "--data", str(deployment.data.root), "--port", "0")
    assert process.wait_ended() == 1
    output = process.output()
    assert "Traceback" not in output
    assert "lakeward is ready" not in output
    return output


def test_each_part_of_another_version_is_refused_and_runs_again_once_it_is_the_known_one(deployment: Deployment) -> None:
    deployment.create(ORDERS)
    deployment.append(ORDERS, 0, COUNT)
    deployment.processes[0].send(signal.SIGTERM)
    assert deployment.processes[0].wait_ended() == 0
    root = deployment.data.root

    known = (root / "VERSION").read_text()
    (root / "VERSION").write_text("99\n")
    output = refused(deployment)
    assert "format version 99" in output
    assert str(root) in output
    (root / "VERSION").write_text(known)

    change(root / "coordinator.db", "UPDATE lakeward_owner SET version = 99")
    assert "the state store has version 99" in refused(deployment)
    change(root / "coordinator.db", f"UPDATE lakeward_owner SET version = {sql_schema.VERSION}")

    change(root / "cluster" / database.FILE_NAME, "UPDATE facts SET value = '99' WHERE name = 'format_version'")
    output = refused(deployment)
    assert "newer version" in output
    assert "99" in output
    change(root / "cluster" / database.FILE_NAME, f"UPDATE facts SET value = '{database.FORMAT_VERSION}' WHERE name = 'format_version'")

    deployment.start_coordinator()
    with deployment.cluster() as cluster:
        offsets = cluster.offsets(cluster.table(ORDERS))
    assert sum(log.log_end for log in offsets.values()) == COUNT
