"""OpenLineage's events of real rounds, at an HTTP server that receives them. OpenLineage's own client reads each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.lake_kinds.kinds import PAIMON
from support.orchestrators.environment import AIRFLOW, answer_of
from support.readers.environment import TEST_SECONDS
from support.repository import ROOT
from support.running.cluster_of_processes import SCHEMA, Deployment
from support.running.processes import wait_for
from support.telemetry.lineage_receiver import Event, LineageReceiver, lineage_receiver
from tiering import crash_points
from tiering.client import LakewardClient
from tiering.model.tables import TablePath
from tiering.telemetry.lineage_events import ROUND_FACET

ORDERS, CARS = TablePath("sales", "orders"), TablePath("sales", "cars")
CHECK = ROOT / "tests" / "support" / "orchestrators" / "lineage_check.py"
ROWS = 30

pytestmark = pytest.mark.timeout(TEST_SECONDS)


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    deployment = Deployment(tmp_path)
    try:
        yield deployment
    finally:
        deployment.close()


@pytest.fixture
def receiver() -> Iterator[LineageReceiver]:
    with lineage_receiver() as receiver:
        yield receiver


def assert_openlineage_reads(events: list[Event], home: Path) -> None:
    assert answer_of(AIRFLOW, CHECK, home, events) == [ROUND_FACET]


def start_tierer(deployment: Deployment) -> None:
    """Starts a tierer, and waits until it is connected: a CALL does not wait for a first one for long."""
    deployment.start_inline_tierer("t1")
    with LakewardClient(deployment.uri) as client:
        wait_for("the tierer is connected", lambda: client.read_system_table("tierers"))


def last_round(deployment: Deployment, path: TablePath, state: str) -> dict[str, Any]:
    """The latest round of a table in this state."""
    names = {"database_name": path.database_name, "table_name": path.table_name, "state": state}
    with LakewardClient(deployment.uri) as client:
        return client.read_system_table("tiering_rounds", newest_by="pending_time", limit=1, **names)[0]


def offsets_of(event: Event) -> dict[str, int]:
    return {entry["bucket"]: entry["offset"] for entry in event["run"]["facets"][ROUND_FACET]["offsets"]}


def test_rounds_of_both_formats(deployment: Deployment, receiver: LineageReceiver) -> None:
    deployment.start_coordinator("--openlineage-url", receiver.url, "--openlineage-namespace", "prod")
    start_tierer(deployment)
    deployment.create(ORDERS, freshness="1 h")
    deployment.create(CARS, freshness="1 h", kind=PAIMON)
    with LakewardClient(deployment.uri) as client:
        for path in (ORDERS, CARS):
            deployment.append(path, 0, ROWS)
            client.tier_table(path)
            deployment.append(path, ROWS, ROWS)
            assert_tells_the_round(deployment, _events_of(receiver, str(client.tier_table(path).round_id)), path)
    assert_openlineage_reads(receiver.events, deployment.folder)


def _events_of(receiver: LineageReceiver, run_id: str) -> dict[str, Event]:
    wait_for("both events of the round", lambda: len(receiver.of_run(run_id)) == 2)
    return receiver.of_run(run_id)


def assert_tells_the_round(deployment: Deployment, events: dict[str, Event], path: TablePath) -> None:
    start, complete = events["START"], events["COMPLETE"]
    status, row = deployment.status(path), last_round(deployment, path, "SUCCEEDED")
    [source], [lake] = complete["inputs"], complete["outputs"]
    assert (complete["job"]["namespace"], complete["job"]["name"]) == ("prod", f"tiering.{path}")
    assert (source["namespace"].partition("://")[0], source["name"]) == ("lakeward", str(path))
    assert lake["namespace"] == "file"
    assert (Path(lake["name"]).is_dir(), lake["facets"]["version"]["datasetVersion"]) == (True, str(status.lake_snapshot_id))
    assert lake["facets"]["storage"]["storageLayer"] == ("paimon" if path == CARS else "iceberg")
    assert [(field["name"], field["type"]) for field in source["facets"]["schema"]["fields"]] == [("id", "BIGINT"), ("text", "STRING")]
    assert list(lake["facets"]["columnLineage"]["fields"]) == SCHEMA.names
    statistics = lake["outputFacets"]["outputStatistics"]
    written = (statistics["rowCount"], statistics["size"], statistics["fileCount"])
    assert written == (ROWS, row["bytes_written"], row["files_written"])
    moved = {bucket: offset - offsets_of(start)[bucket] for bucket, offset in offsets_of(complete).items()}
    assert sum(moved.values()) == ROWS
    assert sum(offsets_of(complete).values()) == status.lake_records == 2 * ROWS


def test_the_coordinator_tells_the_end_of_a_round_whose_tierer_died(deployment: Deployment, receiver: LineageReceiver) -> None:
    deployment.start_coordinator("--openlineage-url", receiver.url)
    deployment.create(ORDERS)
    deployment.append(ORDERS, 0, ROWS)
    deployment.start_inline_tierer("t1", crash_point=crash_points.AFTER_FENCE).wait_ended()
    [start] = receiver.wait_for_events(1)
    deployment.kill_coordinator()
    deployment.start_coordinator("--openlineage-url", receiver.url, port=deployment.port)

    failed = wait_for("the end of the round", lambda: receiver.of_run(start["run"]["runId"]).get("FAIL"))

    row = last_round(deployment, ORDERS, "FAILED")
    assert row["round_id"] == start["run"]["runId"]
    assert row["error_message"] in failed["run"]["facets"]["errorMessage"]["message"]
    assert_openlineage_reads(receiver.events, deployment.folder)
