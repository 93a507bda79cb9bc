"""Parts of a deployment that note in a history what passes through them: a lake, and a way to the coordinator."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from support.histories.history import History, Operation, text_offsets
from tiering.errors import CommitOutcomeUnknown, Fenced, LakewardError, PermanentTieringError, ServiceUnreachable, UnknownTable
from tiering.lake.base import (
    NO_PROPERTIES,
    Committable,
    LakeCommitter,
    LakeTieringFactory,
    LakeView,
    LakeWriter,
    WriterInitContext,
)
from tiering.lake.marker import Marker
from tiering.model.rounds import Assignment, Phase
from tiering.model.tables import Offsets, TableBucket, TableInfo, TablePath
from tiering.round.ports import HeartbeatCall, ProgressReport, ProposedCommit, ReportAnswer, Transport
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.wire.model_codecs import ASSIGNMENT

if TYPE_CHECKING:
    from tiering.lake.iceberg.lake import IcebergLake as _AnyLake
else:
    _AnyLake = object

COORDINATOR = "coordinator"
"""The client that reconciles: its commits need no grant."""


class RecordsHistory(_AnyLake):
    """Put before a `Lake` among the bases of a class. `history` is to be set before the lake is used."""

    history: History
    before_commit: Callable[[Marker], None] = staticmethod(lambda marker: None)
    """Called before a commit is sent, and may take its time."""
    loses_answer: Callable[[], bool] = staticmethod(lambda: False)
    """Whether the answer to a commit that landed is lost."""

    def view(self, path: TablePath) -> LakeView | None:
        with self.history.operation("read", path) as operation:
            view = super().view(path)  # type: ignore[safe-super]
            operation.of_view(view)
            operation.answer = "read"
        return view

    def tiering_factory(self, table: TableInfo) -> Any:
        return RecordedFactory(super().tiering_factory(table), self, table.path)  # type: ignore[safe-super]


class RecordedFactory:
    """A `LakeTieringFactory` whose commits are noted."""

    def __init__(self, factory: LakeTieringFactory, lake: RecordsHistory, path: TablePath) -> None:
        self._factory, self._lake, self._path = factory, lake, path

    def create_writer(self, context: WriterInitContext) -> LakeWriter:
        return self._factory.create_writer(context)

    def create_committer(self) -> RecordedCommitter:
        return RecordedCommitter(self._factory.create_committer(), self._lake, self._path)


class RecordedCommitter:
    """A `LakeCommitter` whose commits are noted. One that fails in any way has an unknown outcome."""

    def __init__(self, committer: LakeCommitter, lake: RecordsHistory, path: TablePath) -> None:
        self._committer, self._lake, self._path = committer, lake, path

    def commit(self, committable: Committable, base: LakeView, marker: Marker, properties: Mapping[str, str] = NO_PROPERTIES) -> int:
        self._lake.before_commit(marker)
        history = self._lake.history
        with history.operation("repair" if history.client() == COORDINATOR else "commit", self._path) as operation:
            operation.of_marker(marker)
            operation.epoch = marker.tiering_epoch
            snapshot_id = self._committer.commit(committable, base, marker, properties)
            if self._lake.loses_answer():
                raise CommitOutcomeUnknown("the answer was lost")
            operation.answer = "landed"
        return snapshot_id

    def abort(self, committable: Committable) -> None:
        self._committer.abort(committable)


def note_claim(operation: Operation, assignment: Assignment) -> None:
    """A claim that was answered."""
    operation.epoch, operation.round = assignment.tiering_epoch, assignment.round_id
    operation.lake = assignment.lake_table_uuid or ""
    operation.offsets = None if assignment.recorded is None else text_offsets(assignment.recorded.offsets)
    operation.answer = "assigned"


class RecordedHeartbeat:
    """A `HeartbeatCall`. One that is overtaken claims nothing."""

    def __init__(self, call: HeartbeatCall, history: History, started: int) -> None:
        self._call, self._history, self._started = call, history, started

    def wait(self, wake: threading.Event) -> bool:
        return self._call.wait(wake)

    def result(self) -> pb.LakeTieringHeartbeatResponse:
        answer = self._call.result()
        if answer.HasField("tiering_table"):
            assignment = ASSIGNMENT.from_pb(answer.tiering_table, coordinator_epoch=answer.coordinator_epoch)
            with self._history.operation("claim", assignment.path) as operation:
                operation.call = self._started
                note_claim(operation, assignment)
        return answer


class UnansweredHeartbeat:
    """A `HeartbeatCall` that reaches no coordinator."""

    def wait(self, wake: threading.Event) -> bool:
        return True

    def result(self) -> pb.LakeTieringHeartbeatResponse:
        raise _unreachable()


class RecordedTransport:
    """A `Transport` that notes claims, grants and acks. `loses_answer`: whether the answer to the next grant or ack is lost."""

    def __init__(self, transport: Transport, history: History, loses_answer: Callable[[], bool] = lambda: False) -> None:
        self._transport, self._history, self._loses_answer = transport, history, loses_answer
        self.is_dead = False
        """The process ended: no later message of it reaches a receiver."""

    def heartbeat(self, request: pb.LakeTieringHeartbeatRequest, timeout_ms: int) -> HeartbeatCall:
        if self.is_dead:
            return UnansweredHeartbeat()
        started = self._history.moment()
        return RecordedHeartbeat(self._transport.heartbeat(request, timeout_ms), self._history, started)

    def record_plan(self, assignment: Assignment, lake_table_uuid: str, stops: Offsets, splits: int, passed_head: int | None) -> None:
        self._check_alive()
        self._transport.record_plan(assignment, lake_table_uuid, stops, splits, passed_head)

    def begin_lake_commit(self, assignment: Assignment, proposed: ProposedCommit) -> Mapping[str, str]:
        self._check_alive()
        with self._history.operation("grant", assignment.path) as operation:
            operation.epoch, operation.round, operation.base = assignment.tiering_epoch, assignment.round_id, proposed.base_round_id or ""
            operation.offsets = text_offsets(proposed.offsets)
            try:
                properties = self._transport.begin_lake_commit(assignment, proposed)
            except (Fenced, UnknownTable):
                operation.answer = "fenced"
                raise
            self._lose_answer()
            operation.answer = "granted"
        return properties

    def commit_lake_snapshot(self, assignment: Assignment, marker: Marker, lake_snapshot_id: int) -> None:
        self._check_alive()
        with self._history.operation("ack", assignment.path) as operation:
            operation.of_marker(marker)
            operation.epoch = assignment.tiering_epoch
            try:
                self._transport.commit_lake_snapshot(assignment, marker, lake_snapshot_id)
            except (Fenced, UnknownTable, PermanentTieringError):
                operation.answer = "refused"
                raise
            self._lose_answer()
            operation.answer = "recorded"

    def acquire_lease(self, lease_id: str, ttl_ms: int, snapshots: Mapping[TableBucket, int]) -> Collection[TableBucket]:
        return self._transport.acquire_lease(lease_id, ttl_ms, snapshots)

    def release_lease(self, lease_id: str, buckets: Collection[TableBucket]) -> None:
        self._transport.release_lease(lease_id, buckets)

    def drop_lease(self, lease_id: str) -> None:
        self._transport.drop_lease(lease_id)

    def report_progress(
        self, assignment: Assignment, phase: Phase, report: ProgressReport, answered: Callable[[ReportAnswer], None]
    ) -> None:
        self._transport.report_progress(assignment, phase, report, answered)

    def _lose_answer(self) -> None:
        if self._loses_answer():
            raise _unreachable()

    def _check_alive(self) -> None:
        if self.is_dead:
            raise _unreachable()


def _unreachable() -> LakewardError:
    return ServiceUnreachable("the coordinator does not answer")
