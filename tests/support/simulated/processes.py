"""Tierer processes and their way to the coordinator: messages get lost, come twice or late, and go to a coordinator that was replaced."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from support.simulated.chance import Chance, PanicException, SimulatedDeath
from support.worlds.leases import DirectLeaseCalls
from tiering.clock import Clock
from tiering.coordinator.server.coordinator import Coordinator
from tiering.coordinator.tierers.leases import Leases
from tiering.errors import LakewardError, ServiceUnreachable
from tiering.lake.marker import Marker
from tiering.model.rounds import Assignment, Phase
from tiering.model.tables import Offsets, TableBucket
from tiering.round.lease_keeper import LeaseKeeper
from tiering.round.messages import RoundReport, ack_to_pb, plan_to_pb, proposed_commit_to_pb, renewal_to_pb, report_to_pb
from tiering.round.ports import HeartbeatCall, ProgressReport, ProposedCommit, ReportAnswer
from tiering.round.runner import RoundRunner
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.wire.errors import error_from_pb

LOST_SHARE = 0.04
REPEATED_SHARE = 0.03
LATE_SHARE = 0.02
GIVES_UP_SHARE = 0.3
LONG_LEASE_MS, SHORT_LEASE_MS = 20_000, 3_000
"""A short one lapses while everybody is silent for the service timeout."""


class HandLeaseKeeper(LeaseKeeper):
    """A `LeaseKeeper` without a thread: `turn` does what that does."""

    def _ensure_thread(self) -> None:
        """Nothing runs by itself here."""

    def turn(self) -> bool:
        """Releases and renews, once; whether both went well. The next turn tries again."""
        released = True
        try:
            with self._calls:
                self._release_now()
        except LakewardError:
            released = False
        return self.renew() and released


@dataclass
class TiererProcess:
    """One process. `slots` rounds at a time; reports that were not answered yet. `asleep`: it does nothing, and its clock stands."""

    tierer_id: str
    incarnation: str | None
    slots: int = 2
    started_at_ms: int = 0
    sequence: int = 0
    running: dict[str, tuple[Assignment, RoundRunner]] = field(default_factory=dict)
    outbox: list[RoundReport] = field(default_factory=list)
    asleep: bool = False
    fenced: bool = False
    """An operator took it out of service."""
    busy: set[str] = field(default_factory=set)
    """Rounds that are within a step just now."""
    leases: HandLeaseKeeper | None = None

    def heartbeat(self) -> tuple[pb.LakeTieringHeartbeatRequest, list[RoundReport]]:
        """The next one, and the reports in it."""
        self.sequence += 1
        reports = list(self.outbox)
        process = pb.PbTierer(
            tierer_id=self.tierer_id,
            sequence=self.sequence,
            started_at_ms=self.started_at_ms,
            slots=self.slots,
            incarnation=self.incarnation,
        )
        request = pb.LakeTieringHeartbeatRequest(
            tierer=process,
            tiering_tables=[renewal_to_pb(assignment) for assignment, _ in self.running.values()],
            finished_tables=[report_to_pb(report) for report in reports if report.finished],
            failed_tables=[report_to_pb(report) for report in reports if not report.finished],
            request_table=len(self.running) < self.slots,
        )
        return request, reports


class Wire:
    """The network between tierers and coordinators. `coordinator` picks the one that a message reaches; `died` is told when one dies.

    `on_grant` gets each grant, also one whose answer gets lost; `excuse` each error that no caller waits for; `on_late_release` the id of a
    lease of which something is released when its tierer has gone on.
    """

    def __init__(self, chance: Chance, coordinator: Callable[[], Coordinator], died: Callable[[], None]) -> None:
        self.chance = chance
        self._coordinator, self._died = coordinator, died
        self.on_grant: Callable[[Assignment], None] = lambda assignment: None
        self.excuse: Callable[[LakewardError], None] = lambda error: None
        self.on_late_release: Callable[[str], None] = lambda lease_id: None
        self.late: list[Callable[[Coordinator], object]] = []

    def call(self, send: Callable[[Coordinator], Any]) -> Any:
        """The answer of one request. Raises ServiceUnreachable when request or answer get lost, and what the coordinator raises."""
        if self.chance.strikes("request-lost", LOST_SHARE):
            raise ServiceUnreachable("the request got lost")
        if self.chance.strikes("request-late", LATE_SHARE):
            self.late.append(send)
            raise ServiceUnreachable("the request has not arrived yet")
        if self.chance.strikes("request-repeated", REPEATED_SHARE):
            self._arrive(send)
        answer = self._arrive(send)
        if self.chance.strikes("answer-lost", LOST_SHARE):
            raise ServiceUnreachable("the answer got lost")
        return answer

    def deliver_late(self) -> None:
        """Delivers a request that was under way for long; no process waits for its answer."""
        if self.late:
            send = self.late.pop(self.chance.random.randrange(len(self.late)))
            try:
                self._arrive(send)
            except LakewardError as error:
                self.excuse(error)

    def _arrive(self, send: Callable[[Coordinator], Any]) -> Any:
        try:
            return send(self._coordinator())
        except SimulatedDeath:
            self._died()
            raise ServiceUnreachable("the coordinator is gone") from None
        except PanicException as panic:
            raise ServiceUnreachable(f"the coordinator met a panic: {panic}") from None


class WireTransport(DirectLeaseCalls):
    """A `Transport` of one process over the wire."""

    def __init__(self, process: TiererProcess, wire: Wire) -> None:
        self._process, self._wire = process, wire

    def heartbeat(self, request: pb.LakeTieringHeartbeatRequest, timeout_ms: int) -> HeartbeatCall:
        raise AssertionError("a round sends no heartbeat")

    def record_plan(self, assignment: Assignment, lake_table_uuid: str, stops: Offsets, splits: int, passed_head: int | None) -> None:
        request = plan_to_pb(assignment, self._process.tierer_id, lake_table_uuid, stops, splits, passed_head, self._process.incarnation)
        self._patiently(lambda coordinator: coordinator.commits.record_plan(request))

    def begin_lake_commit(self, assignment: Assignment, proposed: ProposedCommit) -> Mapping[str, str]:
        request = proposed_commit_to_pb(assignment, self._process.tierer_id, proposed, self._process.incarnation)

        def send(coordinator: Coordinator) -> pb.BeginLakeCommitResponse:
            answer = coordinator.commits.begin_lake_commit(request)
            if answer.granted:
                self._wire.on_grant(assignment)
            return answer

        answer = self._patiently(send)
        if not answer.granted:
            raise error_from_pb(answer.error)
        return dict(answer.snapshot_properties)

    def commit_lake_snapshot(self, assignment: Assignment, marker: Marker, lake_snapshot_id: int) -> None:
        request = ack_to_pb(assignment, self._process.tierer_id, marker, lake_snapshot_id, self._process.incarnation)
        self._patiently(lambda coordinator: coordinator.commits.commit_lake_snapshot(request))

    def report_progress(
        self, assignment: Assignment, phase: Phase, report: ProgressReport, answered: Callable[[ReportAnswer], None]
    ) -> None:
        """Not looked at."""

    def acquire_lease(self, lease_id: str, ttl_ms: int, snapshots: Mapping[TableBucket, int]) -> Collection[TableBucket]:
        unavailable: Collection[TableBucket] = self._wire.call(
            lambda coordinator: _Leases(coordinator).acquire_lease(lease_id, ttl_ms, snapshots)
        )
        return unavailable

    def release_lease(self, lease_id: str, buckets: Collection[TableBucket]) -> None:
        """One that arrives late also releases what was leased again meanwhile: it names no snapshots, only buckets."""
        is_late = False

        def send(coordinator: Coordinator) -> None:
            if is_late:
                self._wire.on_late_release(lease_id)
            _Leases(coordinator).release_lease(lease_id, buckets)

        try:
            self._wire.call(send)
        finally:
            is_late = True

    def drop_lease(self, lease_id: str) -> None:
        self._wire.call(lambda coordinator: _Leases(coordinator).drop_lease(lease_id))

    def _patiently(self, send: Callable[[Coordinator], Any]) -> Any:
        """Repeats a call that got no answer, as the real transport does; at times it gives up, as a stopping tierer does."""
        while True:
            try:
                return self._wire.call(send)
            except ServiceUnreachable:
                if self._wire.chance.random.random() < GIVES_UP_SHARE:
                    raise


class _Leases(DirectLeaseCalls):
    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    def lease_service(self) -> Leases:
        return self._coordinator.leases


def lease_keeper(transport: WireTransport, clock: Clock, lease_id: str, ttl_ms: int) -> HandLeaseKeeper:
    """One process's."""
    return HandLeaseKeeper(transport, clock, lease_id, ttl_ms)
