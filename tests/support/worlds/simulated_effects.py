"""Clock, ids and the way to the coordinator in a simulated deployment."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from support.worlds.leases import NoLeaseCalls
from tiering.coordinator.server.coordinator import Coordinator
from tiering.errors import ServiceUnreachable
from tiering.lake.marker import Marker
from tiering.model.rounds import Assignment, Phase
from tiering.model.tables import Offsets
from tiering.round.messages import ack_to_pb, plan_to_pb, proposed_commit_to_pb
from tiering.round.ports import HeartbeatCall, ProgressReport, ProposedCommit, ReportAnswer
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.wire.errors import error_from_pb


class SimulatedClock:
    """Wall and monotonic time, by hand. `wall_offset_ms` is how far the wall clock was set away."""

    def __init__(self) -> None:
        self.ms = 0
        self.wall_offset_ms = 0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(milliseconds=self.ms + self.wall_offset_ms)

    def monotonic_ms(self) -> int:
        return self.ms


class SeededIds:
    """Names in order."""

    def __init__(self) -> None:
        self._count = 0

    def new_id(self) -> str:
        self._count += 1
        return f"id-{self._count:05d}"


class SimulatedTransport(NoLeaseCalls):
    """A `Transport` that calls the coordinator of the moment, when `lost` says that neither request nor answer gets lost.

    `granted` gets each grant, also one whose answer gets lost.
    """

    def __init__(
        self,
        tierer_id: str,
        incarnation: str,
        coordinator: Callable[[], Coordinator],
        lost: Callable[[], bool],
        granted: Callable[[Assignment], None],
        chance: random.Random,
    ) -> None:
        self._tierer_id = tierer_id
        self._incarnation = incarnation
        self._coordinator = coordinator
        self._lost, self._granted = lost, granted
        self._random = chance

    def heartbeat(self, request: pb.LakeTieringHeartbeatRequest, timeout_ms: int) -> HeartbeatCall:
        raise AssertionError("a round sends no heartbeat")

    def record_plan(self, assignment: Assignment, lake_table_uuid: str, stops: Offsets, splits: int, passed_head: int | None) -> None:
        request = plan_to_pb(assignment, self._tierer_id, lake_table_uuid, stops, splits, passed_head, self._incarnation)
        self._lossy(lambda coordinator: coordinator.commits.record_plan(request))

    def begin_lake_commit(self, assignment: Assignment, proposed: ProposedCommit) -> Mapping[str, str]:
        request = proposed_commit_to_pb(assignment, self._tierer_id, proposed, self._incarnation)

        def send(coordinator: Coordinator) -> pb.BeginLakeCommitResponse:
            answer = coordinator.commits.begin_lake_commit(request)
            if answer.granted:
                self._granted(assignment)
            return answer

        answer = self._lossy(send)
        if not answer.granted:
            raise error_from_pb(answer.error)
        return dict(answer.snapshot_properties)

    def commit_lake_snapshot(self, assignment: Assignment, marker: Marker, lake_snapshot_id: int) -> None:
        request = ack_to_pb(assignment, self._tierer_id, marker, lake_snapshot_id, self._incarnation)
        self._lossy(lambda coordinator: coordinator.commits.commit_lake_snapshot(request))

    def report_progress(
        self, assignment: Assignment, phase: Phase, report: ProgressReport, answered: Callable[[ReportAnswer], None]
    ) -> None:
        """Not looked at."""

    def _lossy(self, call):  # type: ignore[no-untyped-def]
        """Repeats the call as the real transport does; at times it gives up, as a stopping tierer does."""
        while True:
            if not self._lost():
                answer = call(self._coordinator())
                if not self._lost():
                    return answer
            if self._random.random() < 0.2:
                raise ServiceUnreachable("the coordinator does not answer")
