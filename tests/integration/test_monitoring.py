"""`lakeward up` as those see it who watch it: scrapes, probes, log lines and traces of one real round."""

from __future__ import annotations

import json
import re
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import grpc
import pyarrow as pa
import pytest
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2_grpc import HealthStub
from prometheus_client.parser import text_string_to_metric_families

from support.running.cluster_of_processes import Deployment
from support.running.processes import Process, wait_for
from support.telemetry.otlp_receiver import OtlpReceiver, attributes_of, otlp_receiver
from tiering.cli.processes.service_access import owner_token_path
from tiering.client import LakewardClient
from tiering.cluster.writable import TableSpec
from tiering.model.names import table_path
from tiering.telemetry.alerts import ALERTS
from tiering.telemetry.dashboard import PANELS
from tiering.telemetry.metrics import METRICS, Kind

ORDERS = table_path("sales", "orders")
URL = re.compile(r"lakeward metrics: (http://\S+)/metrics")
OPTIONAL = {
    "lakeward_kv_snapshot_lease_remaining_seconds_min",
    "lakeward_table_dead_row_share",
    "lakeward_table_health_score",
    "lakeward_table_metadata_bytes",
    "lakeward_table_small_files",
    "lakeward_openlineage_events_total",
    "lakeward_openlineage_events_waiting",
}
"""Absent without leases or an OpenLineage endpoint; the others until the coordinator has looked at the health of the lake tables."""


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with otlp_receiver() as receiver:
        yield receiver


@pytest.fixture
def service(tmp_path: Path, receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint)
    deployment = Deployment(tmp_path)
    ports = ("--metrics-port", "0", "--tierer-metrics-port", "0")
    try:
        deployment.start_up(*ports, "--log-format", "json", "--log-level", "debug")
        yield deployment
    finally:
        deployment.close()


def get(url: str, token: str | None = None) -> tuple[int, str]:
    request = urllib.request.Request(url, headers={} if token is None else {"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def base_url(text: str) -> str:
    match = URL.search(text)
    assert match is not None, text
    return match[1]


def series(url: str, token: str | None = None) -> dict[str, float]:
    """The last value of each name."""
    families = text_string_to_metric_families(get(f"{url}/metrics", token)[1])
    return {sample.name: sample.value for family in families for sample in family.samples}


def make_orders(service: Deployment) -> None:
    """A primary-key table that was never tiered, with a KV snapshot of its only bucket."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string())])
    with service.cluster() as cluster:
        cluster.create_database(ORDERS.database_name, ignore_if_exists=True)
        properties = {"table.datalake.enabled": "true", "table.datalake.freshness": "1 h"}
        cluster.create_table(ORDERS, TableSpec(schema, 1, primary_key=("id",), properties=properties))
        cluster.upsert(ORDERS, pa.table({"id": range(20), "text": ["first"] * 20}, schema=schema), "test", 0)
        cluster.take_kv_snapshots(ORDERS)


def test_a_round_is_seen_by_scrapes_probes_logs_and_traces(service: Deployment, receiver: OtlpReceiver) -> None:
    up: Process = service.processes[0]
    coordinator, tierer = base_url(up.output()), base_url((service.data.root / "logs" / "tierer.log").read_text())
    make_orders(service)
    with LakewardClient(service.uri) as client:
        result = client.tier_table(ORDERS)
    assert result.state == "SUCCEEDED"
    round_id = result.round_id

    for url in (coordinator, tierer):
        assert [get(f"{url}/{page}")[0] for page in ("healthz", "readyz")] == [200, 200]
    with grpc.insecure_channel(service.uri) as channel:
        assert HealthStub(channel).Check(health_pb2.HealthCheckRequest()).status == health_pb2.HealthCheckResponse.SERVING

    wait_for("the tierer's count", lambda: series(tierer).get("lakeward_tierer_records_written_total") == 20)
    owner = owner_token_path(service.data.root).read_text().strip()
    wait_for("the lake's size", lambda: series(coordinator, owner).get("lakeward_lakeTiering_table_recordCount") == 20)
    scraped = series(coordinator, owner) | series(tierer)
    suffixes = {Kind.HISTOGRAM: ("_bucket", "_count", "_sum")}
    assert {f"{metric.name}{suffix}" for metric in METRICS for suffix in suffixes.get(metric.kind, ("",))} - set(scraped) <= OPTIONAL
    queries = [query.expression for panel in PANELS for query in panel.queries] + [alert.expression for alert in ALERTS]
    assert {name for query in queries for name in re.findall(r"lakeward_\w+", query)} - set(scraped) <= OPTIONAL

    check_logs(up.output(), (service.data.root / "logs" / "tierer.log").read_text(), round_id)
    wait_for("the trace", lambda: any(span.name == "tiering round" for span in receiver.spans))
    spans = [span for span in receiver.spans if attributes_of(span)["round_id"] == round_id]
    calls = [span for span in spans if "/" in span.name]  # the coordinator's own spans, which it sends when it likes
    steps = [span for span in spans if span not in calls]
    assert sorted(span.name for span in steps) == ["ack", "commit", "lease", "plan", "read", "tiering round", "write"]
    assert all(span.name.startswith("tiering.rpc.v1.TieringCoordinator/") for span in calls)
    assert len({span.trace_id for span in spans}) == 1
    assert {(attributes_of(span)["table"], attributes_of(span)["tiering_epoch"]) for span in steps} == {("sales.orders", 1)}
    up.send(signal.SIGTERM)
    assert up.wait_ended() == 0


def check_logs(coordinator: str, tierer: str, round_id: str) -> None:
    """Both logs are JSON, and each has lines of the round, all of which name its table and epoch."""
    for text, events in ((coordinator, {"the round may commit to the lake"}), (tierer, {"round started", "round step", "round ended"})):
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        of_round = [line for line in lines if line.get("round_id") == round_id]
        assert events <= {line["event"] for line in of_round}
        assert {(line["table"], line["tiering_epoch"]) for line in of_round} == {("sales.orders", 1)}
        assert all("round_id" in line for line in lines if line["event"].startswith("round "))
