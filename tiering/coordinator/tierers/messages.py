"""Converts tierers' messages to the values that decisions use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from tiering.coordinator.decisions.backlog import assigned_backlog
from tiering.coordinator.decisions.dead_letters import remaining_dead_letters
from tiering.coordinator.decisions.moment import milliseconds
from tiering.coordinator.decisions.records import ErrorInfo, TableRecord, TextOffsets, from_text, to_text
from tiering.coordinator.decisions.round_lifecycle import Failure, Finished, GrantRequest, Plan, RoundRef
from tiering.errors import BucketStopped, InvalidArgument
from tiering.model.rounds import Assignment, RecordedLakeSnapshot, RoundProgress, RoundStats
from tiering.model.splits import SplitProgress
from tiering.redaction.redact import NAME_TEXT_LIMIT, outside_text
from tiering.rpc.v1 import common_pb2
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.wire.codec import Codec
from tiering.wire.model_codecs import OFFSETS, not_negative, split_from_pb, stats_from_pb

UNEXPLAINED = "the tierer gave no reason"
"""The text for a failure without error_message."""

MAX_ROUND_ID_LENGTH = 200
"""Upper bound of a round id. The coordinator's own ids are shorter; a longer one would be stored and repeated in errors."""

MAX_SPLITS = 2_000
"""Upper bound of splits in one report: twice what a tierer sends."""

_PHASE_LIMIT = 40
_ID_LIMIT = 1_000
"""Upper bound of characters in an id, which holds two names or a path."""
_MAX_IDS = 20
"""Upper bound of ids in an error; no error has that many."""

PROGRESS = Codec(
    RoundProgress, pb.ReportProgressRequest, beside=("round", "phase", "run", "splits", "splits_told"), reading={int: not_negative}
)
_ROUND_REF = Codec(RoundRef, pb.PbRound)
_GRANT_REQUEST = Codec(GrantRequest, pb.BeginLakeCommitRequest, elsewhere=("offsets",), beside=("round", "offsets"))


@dataclass(frozen=True)
class SplitsReport:
    """One report about the splits of a round; its fields are those of `ReportProgressRequest`."""

    table_id: int
    round_id: str
    run: int
    splits_told: int
    splits: Sequence[tuple[int, SplitProgress]]


def incarnation_from_pb(message: pb.PbTierer | pb.PbRound) -> str | None:
    """Returns the process that sent the message; None if the message does not name it."""
    return message.incarnation if message.HasField("incarnation") else None


def round_ref_from_pb(message: pb.PbRound) -> RoundRef:
    """Returns the round that a request is about. Raises InvalidArgument for an invalid round id."""
    checked_round_id(message.round_id)
    return _ROUND_REF.from_pb(message)


def report_ref_from_pb(message: pb.PbHeartbeatReqForTable, tierer: pb.PbTierer) -> RoundRef:
    """Returns the round that a heartbeat's report is about. Raises InvalidArgument for an invalid round id."""
    incarnation = incarnation_from_pb(tierer)
    round_id = checked_round_id(message.round_id)
    return RoundRef(message.table_id, message.coordinator_epoch, message.tiering_epoch, round_id, tierer.tierer_id, incarnation)


def checked_round_id(text: str) -> str:
    """Returns `text` if it can be a round id. Raises InvalidArgument."""
    if len(text) > MAX_ROUND_ID_LENGTH:
        raise InvalidArgument(f"a round id has at most {MAX_ROUND_ID_LENGTH} characters; this one has {len(text)}")
    return text


def finished_from_pb(message: pb.PbHeartbeatReqForTable, now: datetime) -> Finished:
    """Returns a round that ended well. Its only possible error is that of a bucket that stopped."""
    stopped = _error_from_pb(message, now) if message.error_class == BucketStopped.__name__ else None
    return Finished(_stats_from_pb(message), message.empty, message.forced, stopped)


def failure_from_pb(message: pb.PbHeartbeatReqForTable, now: datetime) -> Failure:
    """Returns a failed round.

    Its texts are redacted and truncated here, too. A failure without an error is retryable.
    """
    error = _error_from_pb(message, now)
    return Failure(error, fenced=message.fenced, stopped=message.tierer_stopped, stats=_stats_from_pb(message))


def _error_from_pb(message: pb.PbHeartbeatReqForTable, now: datetime) -> ErrorInfo:
    return ErrorInfo(
        error_class=outside_text(message.error_class, NAME_TEXT_LIMIT) if message.HasField("error_class") else "RoundFailed",
        message=outside_text(message.error_message) if message.HasField("error_message") else UNEXPLAINED,
        phase=outside_text(message.error_phase, _PHASE_LIMIT) if message.HasField("error_phase") else None,
        hint=outside_text(message.error_hint),
        retryable=message.error_retryable if message.HasField("error_retryable") else True,
        time=now,
        ids=_ids_from_pb(message.error_ids),
    )


def _ids_from_pb(ids: Mapping[str, str]) -> dict[str, str]:
    """Returns a few of the ids in an error, because they are kept in the table's record."""
    few = islice(sorted(ids.items()), _MAX_IDS)
    return {outside_text(name, _ID_LIMIT): outside_text(value, _ID_LIMIT) for name, value in few}


def _stats_from_pb(message: pb.PbHeartbeatReqForTable) -> RoundStats | None:
    return stats_from_pb(message.stats) if message.HasField("stats") else None


def passed_head_from_pb(message: pb.PbHeartbeatReqForTable | pb.RecordPlanRequest) -> int | None:
    """Returns the head of the lake table that the round's base check passed; None if there is none, or it is unknown."""
    return message.passed_head if message.HasField("passed_head") else None


def plan_from_pb(message: pb.RecordPlanRequest) -> Plan:
    """Returns the plan of a round."""
    return Plan(message.lake_table_uuid or None, text_offsets_from_pb(message.planned_stops), message.splits)


def splits_report_from_pb(message: pb.ReportProgressRequest, record: TableRecord) -> SplitsReport | None:
    """Returns the report about the splits of the record's running round; None if it has none. Raises InvalidArgument."""
    if message.run < 1 or record.round is None:
        return None
    if len(message.splits) > MAX_SPLITS:
        raise InvalidArgument(f"a report has at most {MAX_SPLITS} splits; this one has {len(message.splits)}")
    splits = [(split.number, split_from_pb(split, record.path)) for split in message.splits]
    return SplitsReport(record.table_id, record.round.round_id, message.run, message.splits_told, splits)


def grant_request_from_pb(message: pb.BeginLakeCommitRequest) -> GrantRequest:
    """Returns the commit for which a round asks to pass the fence."""
    return _GRANT_REQUEST.from_pb(message, offsets=text_offsets_from_pb(message.offsets))


def text_offsets_from_pb(messages: Iterable[common_pb2.PbBucketOffset]) -> TextOffsets:
    """Returns offsets in the form that records store."""
    return to_text(OFFSETS.from_pb(messages))


def assignment_of(record: TableRecord, coordinator_epoch: int, read_snapshots: frozenset[int] | None = frozenset()) -> Assignment:
    """Returns the table with its running round, in the form that its tierer gets. `read_snapshots` None: unknown, so none is removed."""
    current, lake = record.round, record.lake
    assert current is not None
    assert current.started_time is not None
    assert current.completion_target is not None
    recorded = None
    if lake.snapshot_id is not None and lake.offsets is not None:
        recorded = RecordedLakeSnapshot(lake.snapshot_id, from_text(lake.offsets))
    return Assignment(
        table_id=record.table_id,
        path=record.path,
        tiering_epoch=record.tiering_epoch,
        coordinator_epoch=coordinator_epoch,
        round_id=current.round_id,
        lake_table_uuid=lake.table_uuid,
        passed_head=lake.passed_head,
        recorded=recorded,
        max_duration_ms=milliseconds(current.completion_target - current.started_time),
        recorded_round_id=lake.marker_round_id,
        moved_back=from_text(lake.moved_back),
        unresolved=lake.unresolved_epoch is not None,
        skipped=lake.skipped_records,
        dead_letters=remaining_dead_letters(record, current.started_time),
        backlog=assigned_backlog(record),
        upkeep=current.upkeep if current.upkeep is None or read_snapshots is not None else replace(current.upkeep, expiry=None),
        upkeep_paused=record.upkeep.pause is not None,
        read_snapshots=read_snapshots or frozenset(),
        reads_unknown=read_snapshots is None,
    )
