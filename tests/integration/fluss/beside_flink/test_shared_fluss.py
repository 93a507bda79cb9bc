"""Rounds of a real Fluss cluster that assigns its tables: to this deployment, or to another service that asks, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.clusters.fluss_tables import FlussTables
from support.running.cluster_of_processes import SCHEMA
from support.running.fluss_deployment import LAKE, FlussDeployment
from support.running.processes import wait_for
from support.telemetry.otlp_receiver import OtlpReceiver, otlp_receiver
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.client import LakewardClient

COUNT = 300


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[OtlpReceiver]:
    """Gets the spans of the processes that are started while it is there."""
    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "200")
        yield receiver


def acks_below_rounds(receiver: OtlpReceiver) -> bool:
    """Whether the coordinator's span of an ack has come, and the tierer's of its round."""
    rounds = {(span.trace_id, span.span_id) for span in receiver.spans if span.name == "tiering round"}
    return any((span.trace_id, span.parent_span_id) in rounds for span in receiver.spans if span.name.endswith("/CommitLakeSnapshot"))


@pytest.fixture
def deployment(fluss: LocalFlussCluster, tmp_path: Path) -> Iterator[FlussDeployment]:
    """A coordinator that relays; tierers are the test's."""
    deployment = FlussDeployment(tmp_path, servers=fluss.bootstrap_servers, mode="shared")
    try:
        deployment.start_coordinator()
        yield deployment
    finally:
        deployment.close()


def test_a_table_that_fluss_assigns_is_tiered_and_given_back(
    receiver: OtlpReceiver, deployment: FlussDeployment, tables: FlussTables
) -> None:
    """A coordinator that stops hands the table back, too: the next one gets it immediately, without Fluss's time-out of two minutes."""
    table = tables.create("assigned", SCHEMA, buckets=3, properties={**LAKE, "table.datalake.freshness": "4s"})
    deployment.write(tables, table, 0, COUNT)
    deployment.start_tierer("first")
    deployment.wait_tiered(table.path)
    deployment.write(tables, table, COUNT, COUNT)
    lines: list[str] = []
    with LakewardClient(deployment.uri) as client:
        result = client.tier_table(str(table.path), on_progress=lambda progress: lines.append(progress.message))
    assert result.state == "SUCCEEDED"
    assert any("waits until the cluster assigns it" in line for line in lines)
    deployment.restart_coordinator()
    deployment.write(tables, table, 2 * COUNT, COUNT)
    deployment.wait_tiered(table.path)
    deployment.assert_exact(table.path, 3 * COUNT)
    wait_for("a trace has both parts of a round", lambda: acks_below_rounds(receiver))
    tables.drop(table)
