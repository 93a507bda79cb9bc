"""Between protobuf messages and the values that decisions are made of."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from tiering.coordinator.decisions.records import ErrorInfo, TableRecord, TextOffsets, from_text, to_text
from tiering.coordinator.decisions.round_lifecycle import Failure, Finished, Grant, Plan, RoundRef
from tiering.coordinator.tierers.known_tierers import incarnation_of
from tiering.errors import InvalidArgument
from tiering.model.rounds import RoundStats
from tiering.model.tables import TablePath
from tiering.redaction.redact import NAME_TEXT_LIMIT, outside_text
from tiering.rpc.v1 import common_pb2, coordinator_pb2
from tiering.wire.offsets import offsets_from_pb, offsets_to_pb

_PHASE_LIMIT = 40
UNEXPLAINED = "the tierer gave no reason"
"""Shown for a failure of an older tierer, which has no error_message."""


def path_pb(path: TablePath) -> common_pb2.PbTablePath:
    return common_pb2.PbTablePath(database_name=path.database_name, table_name=path.table_name)


def offsets_text(pb: Iterable[common_pb2.PbBucketOffset]) -> dict[str, int]:
    """Offsets as records keep them."""
    return to_text(offsets_from_pb(pb))


def text_offsets_pb(offsets: TextOffsets) -> list[common_pb2.PbBucketOffset]:
    return offsets_to_pb(from_text(offsets))


MAX_ROUND_ID_LENGTH = 200
"""They are made here, and are shorter; a longer one would be kept and repeated in errors."""


def round_ref(pb: coordinator_pb2.PbRound) -> RoundRef:
    """Raises InvalidArgument."""
    incarnation = incarnation_of(pb)
    return RoundRef(pb.table_id, pb.coordinator_epoch, pb.tiering_epoch, _round_id(pb.round_id), pb.tierer_id, incarnation)


def report_ref(pb: coordinator_pb2.PbHeartbeatReqForTable, tierer: coordinator_pb2.PbTierer) -> RoundRef:
    """Raises InvalidArgument."""
    round_id = _round_id(pb.round_id)
    return RoundRef(pb.table_id, pb.coordinator_epoch, pb.tiering_epoch, round_id, tierer.tierer_id, incarnation_of(tierer))


def _round_id(text: str) -> str:
    if len(text) > MAX_ROUND_ID_LENGTH:
        raise InvalidArgument(f"a round id has at most {MAX_ROUND_ID_LENGTH} characters; this one has {len(text)}")
    return text


def finished(pb: coordinator_pb2.PbHeartbeatReqForTable, *, forced: bool) -> Finished:
    return Finished(_stats(pb), pb.empty, forced)


def is_forced(pb: coordinator_pb2.PbHeartbeatReqForTable, forced_tables: Collection[int]) -> bool:
    """Whether a finished round stopped early. An older tierer says it of its table only."""
    return pb.forced if pb.HasField("forced") else pb.table_id in forced_tables


def failure(pb: coordinator_pb2.PbHeartbeatReqForTable, now: datetime) -> Failure:
    """Text from a tierer is redacted and cut here too; an older tierer says nothing, and may be retried."""
    error = ErrorInfo(
        error_class=outside_text(pb.error_class, NAME_TEXT_LIMIT) if pb.HasField("error_class") else "RoundFailed",
        message=outside_text(pb.error_message) if pb.HasField("error_message") else UNEXPLAINED,
        phase=outside_text(pb.error_phase, _PHASE_LIMIT) if pb.HasField("error_phase") else None,
        hint=outside_text(pb.error_hint),
        retryable=pb.error_retryable if pb.HasField("error_retryable") else True,
        time=now,
    )
    return Failure(error, fenced=pb.fenced, stopped=pb.tierer_stopped, stats=_stats(pb))


def plan(pb: coordinator_pb2.RecordPlanRequest) -> Plan:
    return Plan(pb.lake_table_uuid or None, offsets_text(pb.planned_stops), pb.splits)


def planned_head(pb: coordinator_pb2.RecordPlanRequest) -> int | None:
    """The head that the plan's base check passed, if it said."""
    return pb.passed_head if pb.HasField("passed_head") else None


def grant(pb: coordinator_pb2.BeginLakeCommitRequest) -> Grant:
    return Grant(
        base_round_id=pb.base_round_id if pb.HasField("base_round_id") else None,
        base_tag=pb.base_tag_snapshot_id if pb.HasField("base_tag_snapshot_id") else None,
        offsets=offsets_text(pb.offsets),
        records=pb.records,
        files=pb.files,
    )


def assignment(record: TableRecord, coordinator_epoch: int, min_round_ms: int) -> coordinator_pb2.PbLakeTieringTableInfo:
    """The table as its tierer gets it."""
    assert record.round is not None
    info = coordinator_pb2.PbLakeTieringTableInfo(
        table_id=record.table_id,
        table_path=path_pb(record.path),
        tiering_epoch=record.tiering_epoch,
        round_id=record.round.round_id,
        max_duration_ms=max(record.freshness_ms, min_round_ms),
    )
    lake = record.lake
    if lake.table_uuid is not None:
        info.lake_table_uuid = lake.table_uuid
    if lake.passed_head is not None:
        info.passed_head = lake.passed_head
    if lake.snapshot_id is not None and lake.offsets is not None:
        info.recorded.lake_snapshot_id = lake.snapshot_id
        info.recorded.offsets.extend(text_offsets_pb(lake.offsets))
    return info


def stats_of(pb: coordinator_pb2.PbRoundStats) -> RoundStats:
    """As a tierer tells them: they are shown, and decide nothing."""
    told = (pb.splits, pb.records_read, pb.bytes_read, pb.records_written, pb.bytes_written, pb.files_written, pb.deletes_written)
    return RoundStats(*(max(number, 0) for number in told))


def _stats(pb: coordinator_pb2.PbHeartbeatReqForTable) -> RoundStats | None:
    return stats_of(pb.stats) if pb.HasField("stats") else None


def passed_head(pb: coordinator_pb2.PbHeartbeatReqForTable) -> int | None:
    """The head that the round's base check passed, if it said."""
    return pb.passed_head if pb.HasField("passed_head") else None
