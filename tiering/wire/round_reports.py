"""How the end of a round is reported in a heartbeat. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tiering.errors import Cancelled
from tiering.model.rounds import Assignment, RoundState, RoundStats
from tiering.round.steps.actions import RoundOutcome
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.wire.errors import sendable

_WENT_WELL = (RoundState.SUCCEEDED, RoundState.FORCE_FINISHED, RoundState.EMPTY)


@dataclass(frozen=True)
class Report:
    """One ended round, waiting to be told; repeated until a heartbeat was answered."""

    assignment: Assignment
    outcome: RoundOutcome
    tierer_stopped: bool = False

    @property
    def finished(self) -> bool:
        return self.outcome.state in _WENT_WELL

    @property
    def forced(self) -> bool:
        return self.outcome.state is RoundState.FORCE_FINISHED

    def to_pb(self) -> pb.PbHeartbeatReqForTable:
        """As it travels in finished_tables or failed_tables."""
        outcome = self.outcome
        message = renewal(self.assignment)
        message.stats.CopyFrom(pb_stats(outcome.stats))
        message.forced = self.forced
        message.empty = outcome.state is RoundState.EMPTY
        message.fenced = outcome.state is RoundState.FENCED
        message.tierer_stopped = self.tierer_stopped and isinstance(outcome.error, Cancelled)
        if outcome.passed_head is not None:
            message.passed_head = outcome.passed_head
        if outcome.error is not None:
            message.error_message = sendable(outcome.error.message)
            message.error_class = outcome.error.error_class
            message.error_hint = sendable(outcome.error.hint)
            message.error_phase = outcome.phase.value
            message.error_retryable = outcome.error.retryable or isinstance(outcome.error, Cancelled)
        return message


def renewal(assignment: Assignment) -> pb.PbHeartbeatReqForTable:
    """Says that the round goes on."""
    return pb.PbHeartbeatReqForTable(
        table_id=assignment.table_id,
        coordinator_epoch=assignment.coordinator_epoch,
        tiering_epoch=assignment.tiering_epoch,
        round_id=assignment.round_id,
    )


def pb_stats(stats: RoundStats) -> pb.PbRoundStats:
    """Field by field."""
    return pb.PbRoundStats(
        splits=stats.splits,
        records_read=stats.records_read,
        bytes_read=stats.bytes_read,
        records_written=stats.records_written,
        bytes_written=stats.bytes_written,
        files_written=stats.files_written,
        deletes_written=stats.deletes_written,
    )
