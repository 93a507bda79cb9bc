"""The tierer's transport over real gRPC: a coordinator that is away, refuses, or is older."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
import structlog

from tiering.cli.fluss_server.held_ports import HeldPort
from tiering.errors import Fenced, InvalidAnswer, LakewardError, PeerTooOld, ServiceUnreachable
from tiering.lake.marker import Marker, TieredRange
from tiering.model.rounds import Assignment, Phase, RoundProgress
from tiering.model.splits import SplitPosition, SplitProgress, TieringLogSplit
from tiering.model.tables import BucketKey, TableBucket, TablePath
from tiering.round.ports import ProgressReport, ProposedCommit, ReportAnswer
from tiering.round.transport import GrpcTransport
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.rpc.v1.coordinator_pb2_grpc import TieringCoordinatorServicer, add_TieringCoordinatorServicer_to_server
from tiering.wire.errors import error_to_pb

ASSIGNMENT = Assignment(7, TablePath("sales", "orders"), 3, 1, "round-3")
GRANT = ProposedCommit(None, None, {BucketKey(None, 0): 5}, 5, 1)
MARKER = Marker("c", 7, "u", "round-3", 3, None, {BucketKey(None, 0): TieredRange(0, 5), BucketKey(9, 1): TieredRange(2, 4)})


class OldCoordinator(TieringCoordinatorServicer):
    """Offers the fence only; everything else is UNIMPLEMENTED, as the generated base class has it."""

    def __init__(self) -> None:
        self.refusal: LakewardError | None = None

    def BeginLakeCommit(self, request: pb.BeginLakeCommitRequest, context: Any) -> pb.BeginLakeCommitResponse:
        if self.refusal is None:
            return pb.BeginLakeCommitResponse(granted=True)
        return pb.BeginLakeCommitResponse(granted=False, error=error_to_pb(self.refusal))


class Odd(OldCoordinator):
    """Tells tierers to beat at a pace that none can keep."""

    service_timeout_ms = 0

    def GetServiceConfig(self, request: pb.GetServiceConfigRequest, context: Any) -> pb.GetServiceConfigResponse:
        return pb.GetServiceConfigResponse(service_timeout_ms=self.service_timeout_ms)


class Acking(OldCoordinator):
    """Remembers acks."""

    def __init__(self) -> None:
        super().__init__()
        self.acks: list[pb.CommitLakeSnapshotRequest] = []

    def CommitLakeSnapshot(self, request: pb.CommitLakeSnapshotRequest, context: Any) -> pb.CommitLakeSnapshotResponse:
        self.acks.append(request)
        return pb.CommitLakeSnapshotResponse()


@pytest.fixture
def serve() -> Iterator[Callable[..., int]]:
    """Serves on a port; 0 picks one."""
    servers: list[grpc.Server] = []

    def start(servicer: TieringCoordinatorServicer, port: int = 0) -> int:
        server = grpc.server(ThreadPoolExecutor(2))
        add_TieringCoordinatorServicer_to_server(servicer, server)
        bound = server.add_insecure_port(f"127.0.0.1:{port}")
        server.start()
        servers.append(server)
        return bound

    yield start
    for server in servers:
        server.stop(None).wait(5)


@pytest.fixture
def connect() -> Iterator[Callable[[int], GrpcTransport]]:
    transports: list[GrpcTransport] = []

    def open_transport(port: int) -> GrpcTransport:
        transports.append(GrpcTransport(f"127.0.0.1:{port}", "t-1", "random-1"))
        return transports[-1]

    yield open_transport
    for transport in transports:
        transport.close()


UNUSED_PORT = 1
"""A port where no service listens."""


def test_a_refused_fence_is_raised_with_its_reason(serve: Callable[..., int], connect: Callable[[int], GrpcTransport]) -> None:
    servicer = OldCoordinator()
    transport = connect(serve(servicer))
    transport.begin_lake_commit(ASSIGNMENT, GRANT)
    servicer.refusal = Fenced("an older epoch")
    with pytest.raises(Fenced, match="an older epoch"):
        transport.begin_lake_commit(ASSIGNMENT, GRANT)


def test_an_ack_carries_the_marker_bucket_by_bucket(serve: Callable[..., int], connect: Callable[[int], GrpcTransport]) -> None:
    servicer = Acking()
    connect(serve(servicer)).commit_lake_snapshot(ASSIGNMENT, MARKER, 77)
    [ack] = servicer.acks
    assert (ack.marker.lake_snapshot_id, ack.marker_round_id, ack.lake_table_uuid) == (77, "round-3", "u")
    assert (ack.round.tierer_id, ack.round.incarnation) == ("t-1", "random-1")
    offsets = [
        (entry.bucket.partition_id if entry.bucket.HasField("partition_id") else None, entry.bucket.bucket_id, entry.offset)
        for entry in ack.marker.offsets
    ]
    assert offsets == [(None, 0, 5), (9, 1, 4)]


def answers_to(transport: GrpcTransport, *reports: ProgressReport) -> list[ReportAnswer]:
    """Returns the outcome of each report, one after the other."""
    answers: list[ReportAnswer] = []
    for report in reports:
        answered = threading.Event()

        def hear(answer: ReportAnswer, answered: threading.Event = answered) -> None:
            answers.append(answer)
            answered.set()

        transport.report_progress(ASSIGNMENT, Phase.WRITE, report, hear)
        assert answered.wait(30)
    return answers


def test_reports_of_progress_that_the_coordinator_refuses_are_warned_of_once(
    serve: Callable[..., int], connect: Callable[[int], GrpcTransport]
) -> None:
    split = SplitProgress(TieringLogSplit(ASSIGNMENT.path, BucketKey(None, 0), None, 0, 5, 5), SplitPosition())
    report = ProgressReport(RoundProgress(0, 1, 0, 5), 1, [(0, split)])
    with structlog.testing.capture_logs() as logs:
        assert answers_to(connect(serve(OldCoordinator())), report, report) == [ReportAnswer.REFUSED, ReportAnswer.REFUSED]
    assert [entry["log_level"] for entry in logs] == ["warning"]
    with structlog.testing.capture_logs() as logs:
        assert answers_to(connect(UNUSED_PORT), report) == [ReportAnswer.LOST]
    assert logs == []


def test_a_coordinator_that_knows_no_leases_says_so_to_each_call(
    serve: Callable[..., int], connect: Callable[[int], GrpcTransport]
) -> None:
    transport = connect(serve(OldCoordinator()))
    bucket = TableBucket(7, BucketKey(None, 0))
    for call in (
        lambda: transport.acquire_lease("lease", 60_000, {bucket: 3}),
        lambda: transport.release_lease("lease", [bucket]),
        lambda: transport.drop_lease("lease"),
    ):
        with pytest.raises(PeerTooOld, match="UNIMPLEMENTED"):
            call()


def test_a_coordinator_that_comes_back_is_found(serve: Callable[..., int], connect: Callable[[int], GrpcTransport]) -> None:
    granted = threading.Event()

    def ask() -> None:
        transport.begin_lake_commit(ASSIGNMENT, GRANT)
        granted.set()

    with HeldPort() as port:
        transport = connect(port.number)
        threading.Thread(target=ask, daemon=True).start()
        assert not granted.wait(0.3)
        serve(OldCoordinator(), port.number)
        assert granted.wait(30)


def test_a_stop_ends_the_waiting(connect: Callable[[int], GrpcTransport]) -> None:
    transport = connect(UNUSED_PORT)
    threading.Timer(0.2, transport.stop).start()
    with pytest.raises(ServiceUnreachable):
        transport.begin_lake_commit(ASSIGNMENT, GRANT)


@pytest.mark.parametrize("service_timeout_ms", [0, -1, 2**63 - 1])
def test_a_pace_that_no_tierer_can_keep_is_refused(service_timeout_ms: int, serve: Callable[..., int]) -> None:
    odd = Odd()
    odd.service_timeout_ms = service_timeout_ms
    transport = GrpcTransport(f"127.0.0.1:{serve(odd)}", "t-1")
    try:
        with pytest.raises(InvalidAnswer, match="service timeout"):
            transport.service_config()
    finally:
        transport.close()
