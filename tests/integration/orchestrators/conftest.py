"""One deployment without Spark, whose tables are in the states that the examples of Airflow and Dagster meet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.lake_kinds.kinds import ICEBERG
from support.running.cluster_of_processes import Deployment
from support.running.processes import wait_for
from tiering.client import LakewardClient
from tiering.model.tables import TablePath

FLIGHTS, BOATS, PLANES, CARS, TRAINS = (TablePath("demo", name) for name in ("flights", "boats", "planes", "cars", "trains"))
ROWS = 20


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """`demo.flights` is fresh, `demo.cars` failed for good. `demo.boats`, `demo.planes` and the paused `demo.trains` have new rows."""
    deployment = Deployment(tmp_path_factory.mktemp("service"))
    try:
        deployment.start_coordinator()
        deployment.start_inline_tierer("t1")
        with LakewardClient(deployment.uri) as client:
            wait_for("the tierer is connected", lambda: client.read_system_table("tierers"))
            for path in (FLIGHTS, BOATS, PLANES, CARS, TRAINS):
                deployment.create(path, freshness="1 h")
                deployment.append(path, 0, ROWS)
            client.pause_tiering(TRAINS)
            client.tier_table(FLIGHTS)
            client.tier_table(CARS)
            deployment.by_hand(ICEBERG).drop(CARS)
            deployment.append(CARS, ROWS, ROWS)
            client.tier_table(CARS, wait=False)
            wait_for("demo.cars failed", lambda: deployment.status(CARS).error_retryable is False)
        yield deployment
    finally:
        deployment.close()
