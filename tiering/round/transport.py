"""The coordinator over gRPC, as a tierer sees it. While the coordinator is unavailable, calls are repeated: all of them are idempotent."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import grpc
import structlog
from tenacity import RetryCallState, Retrying, retry_if_exception_type, sleep_using_event, stop_when_event_set, wait_exponential_jitter

from tiering.errors import InvalidAnswer, InvalidArgument, LakewardError, PeerTooOld, ServiceBusy, ServiceUnreachable
from tiering.lake.marker import Marker
from tiering.model.rounds import Assignment, Phase
from tiering.model.tables import Offsets, TableBucket
from tiering.round.messages import ack_to_pb, plan_to_pb, progress_to_pb, proposed_commit_to_pb, report_answer
from tiering.round.ports import ProgressReport, ProposedCommit, ReportAnswer
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.rpc.v1.coordinator_pb2_grpc import TieringCoordinatorStub
from tiering.wire.channel import Connection, calling
from tiering.wire.errors import error_from_pb
from tiering.wire.model_codecs import SNAPSHOTS_TO_LEASE, TABLE_BUCKET

log = structlog.get_logger(__name__)
T = TypeVar("T")
CallMetadata = tuple[tuple[str, str], ...]
"""Metadata of one gRPC call: names and values."""

CALL_TIMEOUT_SECONDS = 30
"""Timeout of one attempt. For an ack the coordinator may have to read the lake."""
MAX_SERVICE_TIMEOUT_MS = 7 * 24 * 3_600_000
"""Maximum valid service timeout. Heartbeats are sent at a quarter of it; a longer one is treated as a mistake."""
REPORT_TIMEOUT_SECONDS = 10
"""Timeout of a progress report: the next report is sent after it."""
COMMAND_TIMEOUT_SECONDS = 5
"""Timeout of a call whose answer a user waits for."""


class GrpcHeartbeatCall:
    """A `HeartbeatCall` over a gRPC future."""

    def __init__(self, future: grpc.CallFuture[pb.LakeTieringHeartbeatResponse], uri: str) -> None:
        self._future = future
        self._uri = uri

    def wait(self, wake: threading.Event) -> bool:
        self._future.add_done_callback(lambda _: wake.set())
        wake.wait()
        return self._future.done()

    def result(self) -> pb.LakeTieringHeartbeatResponse:
        with calling(self._uri):
            return self._future.result()


class GrpcTransport:
    """Implements `Transport` over gRPC. `stop` ends all waiting for an unavailable coordinator.

    `incarnation` names this process, as in its heartbeats; None for a command that runs no rounds. `metadata_of` returns the metadata of
    calls about a round, by round id.
    """

    def __init__(
        self,
        uri: str,
        tierer_id: str,
        incarnation: str | None = None,
        metadata_of: Callable[[str], CallMetadata] | None = None,
    ) -> None:
        self._uri = uri
        self._tierer_id = tierer_id
        self._incarnation = incarnation
        self._metadata_of = metadata_of
        self._connection = Connection(uri)
        self._stub = TieringCoordinatorStub(self._connection.channel)
        self._stop = threading.Event()
        self._warned_of_reports = False

    def service_config(self) -> pb.GetServiceConfigResponse:
        """Returns the settings with which a tierer opens cluster and lake; waits for the coordinator. Raises InvalidAnswer for an invalid
        timeout.
        """
        config = self._patiently(self._stub.GetServiceConfig, pb.GetServiceConfigRequest())
        if not 0 < config.service_timeout_ms <= MAX_SERVICE_TIMEOUT_MS:
            raise InvalidAnswer(
                f"the service at {self._uri} has a service timeout of {config.service_timeout_ms} ms: a tierer cannot work with it"
            )
        return config

    def service_config_now(self) -> pb.GetServiceConfigResponse:
        """Returns the same settings for a command, without waiting. Raises ServiceUnreachable if the coordinator does not answer now."""
        return self._call(self._stub.GetServiceConfig, pb.GetServiceConfigRequest(), COMMAND_TIMEOUT_SECONDS)

    def heartbeat(self, request: pb.LakeTieringHeartbeatRequest, timeout_ms: int) -> GrpcHeartbeatCall:
        return GrpcHeartbeatCall(self._stub.LakeTieringHeartbeat.future(request, timeout=timeout_ms / 1_000), self._uri)

    def record_plan(self, assignment: Assignment, lake_table_uuid: str, stops: Offsets, splits: int, passed_head: int | None) -> None:
        request = plan_to_pb(assignment, self._tierer_id, lake_table_uuid, stops, splits, passed_head, self._incarnation)
        self._patiently(self._stub.RecordPlan, request, self._metadata(assignment))

    def begin_lake_commit(self, assignment: Assignment, proposed: ProposedCommit) -> Mapping[str, str]:
        request = proposed_commit_to_pb(assignment, self._tierer_id, proposed, self._incarnation)
        answer = self._patiently(self._stub.BeginLakeCommit, request, self._metadata(assignment))
        if not answer.granted:
            raise error_from_pb(answer.error)
        return dict(answer.snapshot_properties)

    def commit_lake_snapshot(self, assignment: Assignment, marker: Marker, lake_snapshot_id: int) -> None:
        request = ack_to_pb(assignment, self._tierer_id, marker, lake_snapshot_id, self._incarnation)
        self._patiently(self._stub.CommitLakeSnapshot, request, self._metadata(assignment))

    def acquire_lease(self, lease_id: str, ttl_ms: int, snapshots: Mapping[TableBucket, int]) -> Collection[TableBucket]:
        request = pb.AcquireKvSnapshotLeaseRequest(
            lease_id=lease_id, lease_duration_ms=ttl_ms, snapshots_to_lease=SNAPSHOTS_TO_LEASE.to_pb(snapshots), owner=self._tierer_id
        )
        answer = self._patiently(self._stub.AcquireKvSnapshotLease, request)
        return set(SNAPSHOTS_TO_LEASE.from_pb(answer.unavailable_snapshots))

    def release_lease(self, lease_id: str, buckets: Collection[TableBucket]) -> None:
        request = pb.ReleaseKvSnapshotLeaseRequest(lease_id=lease_id, buckets_to_release=map(TABLE_BUCKET.to_pb, buckets))
        self._call(self._stub.ReleaseKvSnapshotLease, request, COMMAND_TIMEOUT_SECONDS)

    def drop_lease(self, lease_id: str) -> None:
        self._call(self._stub.DropKvSnapshotLease, pb.DropKvSnapshotLeaseRequest(lease_id=lease_id), COMMAND_TIMEOUT_SECONDS)

    def report_progress(
        self, assignment: Assignment, phase: Phase, report: ProgressReport, answered: Callable[[ReportAnswer], None]
    ) -> None:
        request = progress_to_pb(assignment, self._tierer_id, phase, report, self._incarnation)
        call = self._stub.ReportProgress.future(request, timeout=REPORT_TIMEOUT_SECONDS)
        call.add_done_callback(lambda _: answered(self._report_answer(call)))

    def _report_answer(self, call: grpc.CallFuture[pb.ReportProgressResponse]) -> ReportAnswer:
        try:
            with self._connection.calling():
                return report_answer(call.result())
        except (PeerTooOld, InvalidArgument) as error:
            if not self._warned_of_reports:
                message = "the coordinator does not accept the progress reports of this tierer; rounds continue without them"
                log.warning(message, reason=error.message)
            self._warned_of_reports = True
            return ReportAnswer.REFUSED
        except (LakewardError, grpc.FutureCancelledError):
            return ReportAnswer.LOST

    def stop(self) -> None:
        """Ends all waiting: calls that cannot reach the coordinator now fail at once."""
        self._stop.set()

    def close(self) -> None:
        """Closes the channel."""
        self._stop.set()
        self._connection.close()

    def _metadata(self, assignment: Assignment) -> CallMetadata | None:
        return None if self._metadata_of is None else self._metadata_of(assignment.round_id)

    def _patiently(self, method: Callable[..., T], request: Any, metadata: CallMetadata | None = None) -> T:
        """Repeats the call until the coordinator answers or this tierer stops."""
        retrying = Retrying(
            retry=retry_if_exception_type((ServiceUnreachable, ServiceBusy)),
            stop=stop_when_event_set(self._stop),
            wait=wait_exponential_jitter(multiplier=0.1, max=2),
            sleep=sleep_using_event(self._stop),
            before_sleep=self._log_first_wait,
            reraise=True,
        )
        answer: T = retrying(self._call, method, request, CALL_TIMEOUT_SECONDS, metadata)
        return answer

    def _log_first_wait(self, state: RetryCallState) -> None:
        if state.attempt_number == 1:
            error = None if state.outcome is None else state.outcome.exception()
            log.warning("the coordinator does not answer; retrying until it does", uri=self._uri, reason=str(error or ""))

    def _call(self, method: Callable[..., T], request: Any, timeout_seconds: float, metadata: CallMetadata | None = None) -> T:
        with self._connection.calling():
            return method(request, timeout=timeout_seconds, metadata=metadata)
