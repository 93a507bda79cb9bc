"""Encodes a tierer's reports and requests as messages to the coordinator."""

from __future__ import annotations

from dataclasses import dataclass

from tiering.errors import AccessDenied, Cancelled, Unauthenticated
from tiering.lake.marker import Marker
from tiering.model.rounds import Assignment, Phase, RecordedLakeSnapshot, RoundState
from tiering.model.tables import Offsets
from tiering.round.ports import ProgressReport, ProposedCommit, ReportAnswer
from tiering.round.steps.actions import RoundOutcome
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.wire.codec import Codec
from tiering.wire.errors import sendable
from tiering.wire.model_codecs import OFFSETS, RECORDED_SNAPSHOT, ROUND_STATS, split_to_pb

_ENDED_BY_THE_SERVICE = (Cancelled, Unauthenticated, AccessDenied)
"""Errors that are not the table's fault: the service ended the round, or no longer recognized its tierer. The service knows the reporting
tierer.
"""


_PROPOSED_COMMIT = Codec(ProposedCommit, pb.BeginLakeCommitRequest, beside=("round",))


@dataclass(frozen=True)
class RoundReport:
    """The outcome of a round. The tierer repeats the report in every heartbeat until the coordinator has answered one."""

    assignment: Assignment
    outcome: RoundOutcome
    tierer_stopped: bool = False

    @property
    def finished(self) -> bool:
        """Whether the report belongs to finished_tables; otherwise it belongs to failed_tables."""
        return self.outcome.state.ended_well

    @property
    def forced(self) -> bool:
        """Whether the round stopped early, at its maximum duration."""
        return self.outcome.state is RoundState.FORCE_FINISHED


def report_to_pb(report: RoundReport) -> pb.PbHeartbeatReqForTable:
    """Returns the report as an entry of finished_tables or failed_tables. The error's texts were redacted and cut when the error was
    created.
    """
    outcome, error = report.outcome, report.outcome.error
    message = renewal_to_pb(report.assignment)
    message.stats.CopyFrom(ROUND_STATS.to_pb(outcome.stats))
    message.forced = report.forced
    message.empty = outcome.state is RoundState.EMPTY
    message.fenced = outcome.state is RoundState.FENCED
    message.tierer_stopped = report.tierer_stopped and isinstance(error, Cancelled)
    if outcome.passed_head is not None:
        message.passed_head = outcome.passed_head
    if error is not None:
        message.error_message = sendable(error.message)
        message.error_class = error.error_class
        message.error_hint = sendable(error.hint)
        message.error_phase = outcome.phase.value
        message.error_retryable = error.retryable or isinstance(error, _ENDED_BY_THE_SERVICE)
        message.error_ids.update({name: sendable(value) for name, value in error.ids.items()})
    return message


def renewal_to_pb(assignment: Assignment) -> pb.PbHeartbeatReqForTable:
    """Returns the message that a round is still running."""
    return pb.PbHeartbeatReqForTable(
        table_id=assignment.table_id,
        coordinator_epoch=assignment.coordinator_epoch,
        tiering_epoch=assignment.tiering_epoch,
        round_id=assignment.round_id,
    )


def round_to_pb(assignment: Assignment, tierer_id: str, incarnation: str | None = None) -> pb.PbRound:
    """Returns the message that names a round, with the numbers that fence it and the process that runs it."""
    return pb.PbRound(
        table_id=assignment.table_id,
        coordinator_epoch=assignment.coordinator_epoch,
        tiering_epoch=assignment.tiering_epoch,
        round_id=assignment.round_id,
        tierer_id=tierer_id,
        incarnation=incarnation,
    )


def plan_to_pb(
    assignment: Assignment,
    tierer_id: str,
    lake_table_uuid: str,
    stops: Offsets,
    splits: int,
    passed_head: int | None,
    incarnation: str | None = None,
) -> pb.RecordPlanRequest:
    """Returns the message with the plan of the round. `stops` has the planned end offsets."""
    return pb.RecordPlanRequest(
        round=round_to_pb(assignment, tierer_id, incarnation),
        lake_table_uuid=lake_table_uuid,
        planned_stops=OFFSETS.to_pb(stops),
        splits=splits,
        passed_head=passed_head,
    )


def proposed_commit_to_pb(
    assignment: Assignment, tierer_id: str, proposed: ProposedCommit, incarnation: str | None = None
) -> pb.BeginLakeCommitRequest:
    """Returns the request to pass the fence with the proposed commit."""
    return _PROPOSED_COMMIT.to_pb(proposed, round=round_to_pb(assignment, tierer_id, incarnation))


def ack_to_pb(
    assignment: Assignment, tierer_id: str, marker: Marker, lake_snapshot_id: int, incarnation: str | None = None
) -> pb.CommitLakeSnapshotRequest:
    """Returns the acknowledgement of a commit, with the commit's marker as read from the lake."""
    offsets = {bucket: tiered.tiered for bucket, tiered in marker.buckets.items()}
    return pb.CommitLakeSnapshotRequest(
        round=round_to_pb(assignment, tierer_id, incarnation),
        marker=RECORDED_SNAPSHOT.to_pb(RecordedLakeSnapshot(lake_snapshot_id, offsets)),
        marker_round_id=marker.round_id,
        lake_table_uuid=marker.lake_table_uuid,
    )


def progress_to_pb(
    assignment: Assignment, tierer_id: str, phase: Phase, report: ProgressReport, incarnation: str | None = None
) -> pb.ReportProgressRequest:
    """Returns the message with the progress of a running round."""
    return pb.ReportProgressRequest(
        round=round_to_pb(assignment, tierer_id, incarnation),
        phase=phase.value,
        splits_done=report.progress.splits_done,
        splits_total=report.progress.splits_total,
        records_done=report.progress.records_done,
        records_total=report.progress.records_total,
        run=report.run,
        splits=[split_to_pb(number, split) for number, split in report.splits],
        splits_told=report.splits_told,
    )


def report_answer(response: pb.ReportProgressResponse) -> ReportAnswer:
    """Returns what the coordinator did with a report that it answered."""
    return ReportAnswer.SEND_ALL if response.send_all else ReportAnswer.TAKEN
