"""Streaming queries of real drivers that are killed and restarted from their checkpoint: each row is in exactly one batch."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.running.cluster_of_processes import Deployment
from support.running.processes import Process
from support.spark.stream_driver import DriverPlan, batches
from tiering.cli.spark.properties import CATALOG, catalog_properties, plugin_jar
from tiering.model.tables import TablePath

MAX_RECORDS = 25


@pytest.fixture(params=["data source", "catalog"])
def query(request: pytest.FixtureRequest, service: Deployment, tmp_path: Path) -> DriverPlan:
    """A query that has not begun, by either way to read a table. Its path has the name of the test."""
    name = f"{request.node.originalname}_{request.param.replace(' ', '_')}".removeprefix("test_")
    if request.param == "data source":
        return DriverPlan(str(tmp_path), options={"table": f"sales.{name}", "uri": service.uri})
    properties = catalog_properties(service.uri, plugin_jar())
    return DriverPlan(str(tmp_path), f"{CATALOG}.sales.{name}", properties=properties)


def path_of(query: DriverPlan) -> TablePath:
    return TablePath("sales", (query.table or query.options["table"]).split(".")[-1])


def run(service: Deployment, query: DriverPlan, **changes: Any) -> Process:
    """Runs the driver to its end."""
    plan = replace(query, **changes)
    driver = service.start_program(
        "-m", "support.spark.stream_driver", plan.encode(), log_name="driver", env={"PYTHONPATH": os.pathsep.join(sys.path)}
    )
    driver.wait_ended()
    return driver


def ids(query: DriverPlan) -> list[int]:
    return sorted(row["id"] for rows in batches(query).values() for row in rows)


def test_a_killed_query_continues_with_each_row_in_one_batch(service: Deployment, query: DriverPlan) -> None:
    path = path_of(query)
    query = replace(query, options={**query.options, "maxRecordsPerTrigger": str(MAX_RECORDS)})
    service.create(path, freshness="1 h")
    service.append(path, 0, 60)
    service.lakeward("tier", str(path))
    service.append(path, 60, 30)

    for start, kill in ((90, {"kill_within": 0}), (100, {"kill_before": 2}), (110, {"kill_after": 3})):
        assert run(service, query, **kill).popen.returncode == -signal.SIGKILL
        service.append(path, start, 10)
        service.lakeward("tier", str(path))
    driver = run(service, query)

    assert driver.popen.returncode == 0, driver.output()
    assert ids(query) == list(range(120))
    assert all(len(rows) <= MAX_RECORDS for rows in batches(query).values())
