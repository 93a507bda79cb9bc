"""Drawn and heavy requests of a caller with all rights on one table: none delays another caller's health check or heartbeat.

Where other programs use the machine, a check may take longer by as much as any work does (`support.telemetry.slowness`). A delay by
requests comes again with the same requests, so a late check counts only if the same requests delay checks each time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import grpc
import pyarrow as pa
import pytest
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2_grpc import HealthStub

from support.depth import examples
from support.services.guarded_service import GuardedService, guarded_service
from support.services.malformed import DATABASE, LOG_TABLE, Case, cases, methods
from support.telemetry.slowness import Slowness, watched_slowness
from sys_tables.rpc.v1 import sys_catalog_pb2
from tiering.cluster.writable import TableSpec
from tiering.coordinator.tierers.heartbeats import MAX_REPORTS
from tiering.model.tables import TablePath
from tiering.rpc.v1 import common_pb2, coordinator_pb2, embedded_pb2
from tiering.rpc.v1.common_pb2 import Literal
from tiering.rpc.v1.control_pb2 import Argument, CallProcedureRequest
from tiering.rpc.v1.coordinator_pb2_grpc import TieringCoordinatorStub
from tiering.wire import server_guard

OWN = TablePath(DATABASE, LOG_TABLE)
POLICIES = f"""
permit (principal == User::"ana", action, resource == Table::"{OWN}");
permit (principal == User::"tim", action, resource);
permit (principal == User::"eve", action, resource);
"""
MOST_SECONDS = 1.0
"""How long a health check or a heartbeat may take beside requests of another caller, on an idle machine."""
ATTEMPTS = 3
AT_ONCE = 8
"""Requests of the caller that are under way together."""
SECONDS = 20.0
REQUEST_SECONDS = 3.0
"""How long the caller waits for an answer: some CALLs wait for a round."""


@pytest.fixture(scope="module")
def slowness() -> Iterator[Slowness]:
    with watched_slowness() as slowness:
        yield slowness


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedService]:
    with guarded_service(tmp_path_factory.mktemp("service"), POLICIES, {"ana": (), "eve": (), "tim": ()}) as service:
        service.storage.create_database(OWN.database_name, True)
        schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string())])
        service.storage.create_table(OWN, TableSpec(schema, 2, properties={"table.datalake.enabled": "true"}), True)
        service.storage.append(OWN, pa.table({"id": range(20), "text": ["a"] * 20}, schema=schema), "w", 0)
        service.running.coordinator.discovery.run()
        yield service


def case(name: str, request: Message) -> Case:
    return Case(next(method for method in methods() if method.name == name), request.SerializeToString(), "heavy")


def call_of(procedure: str, **arguments: str) -> Case:
    values = [Argument(name=name, value=Literal(text=text)) for name, text in arguments.items()]
    return case("CallProcedure", CallProcedureRequest(name=procedure, arguments=values))


def heavy(table_id: int) -> list[Case]:
    """Requests that stopped a service once, each as large as it may be."""
    tierer = coordinator_pb2.PbTierer(tierer_id="t", sequence=1, incarnation="a")
    reports = [coordinator_pb2.PbHeartbeatReqForTable(table_id=table_id, round_id=f"r{number}") for number in range(MAX_REPORTS)]
    buckets = [common_pb2.PbTableBucket(table_id=table_id, bucket=common_pb2.PbBucket(bucket_id=number)) for number in range(60_000)]
    snapshots = [coordinator_pb2.PbSnapshotToLease(bucket=bucket, snapshot_id=1) for bucket in buckets]
    history = sys_catalog_pb2.ReadTableRequest(namespace="sys", name="tiering_events")
    history.order.add(column="message")
    return [
        call_of("tier_database", database=DATABASE, include="%" * 2_000 + "x"),
        call_of("tier_table", table=f"{DATABASE}.{'order' * 30}"),
        call_of("x" * 2_000),
        case("LakeTieringHeartbeat", coordinator_pb2.LakeTieringHeartbeatRequest(tierer=tierer, finished_tables=reports)),
        case(
            "AcquireKvSnapshotLease",
            coordinator_pb2.AcquireKvSnapshotLeaseRequest(lease_id="l", lease_duration_ms=60_000, snapshots_to_lease=snapshots),
        ),
        case("CreateDatabase", embedded_pb2.CreateDatabaseRequest(database_name="x" * 1_000_000)),
        case("ReadTable", history),
    ]


class Checks:
    """Health checks and heartbeats of a tierer, one after the other, until they are ended."""

    def __init__(self, service: GuardedService, slowness: Slowness) -> None:
        self.slowest = 0.0
        """Seconds that the slowest check took, or would have taken on an idle machine."""
        self.number = 0
        self._service = service
        self._slowness = slowness
        self._sequence = 0

    def run(self, ended: threading.Event) -> None:
        with grpc.insecure_channel(self._service.running.uri) as channel:
            health, tierers = HealthStub(channel), TieringCoordinatorStub(channel)
            while not ended.is_set():
                self._timed(lambda: health.Check(health_pb2.HealthCheckRequest(), timeout=SECONDS))
                self._timed(lambda: tierers.LakeTieringHeartbeat(self._heartbeat(), metadata=self._token(), timeout=SECONDS))

    def _timed(self, check: Callable[[], Any]) -> None:
        started = time.monotonic()
        check()
        ended = time.monotonic()
        self.slowest = max(self.slowest, (ended - started) / self._slowness.between(started, ended))
        self.number += 1

    def _heartbeat(self) -> coordinator_pb2.LakeTieringHeartbeatRequest:
        self._sequence += 1
        tierer = coordinator_pb2.PbTierer(tierer_id="tim", sequence=self._sequence, incarnation="tim")
        return coordinator_pb2.LakeTieringHeartbeatRequest(tierer=tierer)

    def _token(self) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self._service.tokens['tim']}"),)


@contextmanager
def checked(service: GuardedService, slowness: Slowness) -> Iterator[Checks]:
    """Checks are made during the block, at least one of each kind. Raises what a check raises."""
    checks, ended = Checks(service, slowness), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(checks.run, ended)
        try:
            yield checks
        finally:
            ended.set()
        running.result(2 * SECONDS)


def slowest_check_beside(service: GuardedService, slowness: Slowness, requests: Sequence[Case], caller: str = "ana") -> float:
    """Seconds that the slowest check took while the caller made the requests (`Checks.slowest`)."""
    metadata = (("authorization", f"Bearer {service.tokens[caller]}"),)
    with grpc.insecure_channel(service.running.uri) as channel, ThreadPoolExecutor(AT_ONCE) as pool, checked(service, slowness) as checks:

        def make(request: Case) -> None:
            with suppress(grpc.RpcError):  # most of them are refused
                list(channel.unary_stream(request.path, bytes, bytes)(request.body, metadata=metadata, timeout=REQUEST_SECONDS))

        list(pool.map(make, requests))
    assert checks.number >= 2
    return checks.slowest


def assert_no_check_is_late(service: GuardedService, slowness: Slowness, requests: Sequence[Case], caller: str = "ana") -> None:
    delays: list[float] = []
    while len(delays) < ATTEMPTS:
        delays.append(slowest_check_beside(service, slowness, requests, caller))
        if delays[-1] <= MOST_SECONDS:
            return
    pytest.fail(f"health checks or heartbeats took {delays} s beside {[(request.path, request.kind) for request in requests]}")


@pytest.mark.parametrize("caller", ["ana", "eve"])
@pytest.mark.parametrize("number", range(7))
def test_a_heavy_request_delays_no_check_of_another_caller(service: GuardedService, slowness: Slowness, number: int, caller: str) -> None:
    """`eve` may do anything, so that requests of tierers are worked on, too."""
    request = heavy(service.storage.table(OWN).table_id)[number]
    assert_no_check_is_late(service, slowness, [request] * AT_ONCE * 2, caller)


@pytest.mark.parametrize("seed", range(examples(2)))
def test_drawn_requests_delay_no_check_of_another_caller(service: GuardedService, slowness: Slowness, seed: int) -> None:
    drawn = list(cases(seed, 400))
    for first in range(0, len(drawn), 50):
        assert_no_check_is_late(service, slowness, drawn[first : first + 50])


def test_a_server_that_stands_still_is_noticed(service: GuardedService, slowness: Slowness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counter-check: the interpreter is held by each request, as a backtracking pattern holds it."""
    read = server_guard._read

    def held(*arguments: Any) -> Any:
        if b"stand still" in arguments[1]:
            stood = 0.0
            while stood < 1.5 * MOST_SECONDS:  # on the event loop
                began = time.monotonic()
                time.sleep(0.1)
                stood += (time.monotonic() - began) / slowness.between(began, time.monotonic())
        return read(*arguments)

    monkeypatch.setattr(server_guard, "_read", held)
    request = call_of("help", topic="stand still")
    assert slowest_check_beside(service, slowness, [request]) > MOST_SECONDS
