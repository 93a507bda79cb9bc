"""What both sides of a round say in terms of the model: the assignment, the round's name and its statistics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

from tiering.model.rounds import Assignment, PhaseTimes, RanOn, RecordedLakeSnapshot, RoundPlace, RoundProgress, RoundStats
from tiering.model.splits import AssignedBacklog
from tiering.model.tables import BucketKey, SkippedRecords
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.rpc.v1.common_pb2 import PbBucketOffset
from tiering.rpc.v1.control_pb2 import PbRoundProgress
from tiering.wire.common import bucket_from_pb, bucket_to_pb, offsets_from_pb, offsets_to_pb, path_from_pb, path_to_pb
from tiering.wire.request_bounds import informative
from tiering.wire.upkeep import upkeep_order_from_pb, upkeep_order_to_pb, upkeep_stats_from_pb, upkeep_stats_to_pb


def assignment_to_pb(assignment: Assignment) -> pb.PbLakeTieringTableInfo:
    """The assignment as a heartbeat's answer carries it, beside the coordinator's epoch."""
    recorded = assignment.recorded
    return pb.PbLakeTieringTableInfo(
        table_id=assignment.table_id,
        table_path=path_to_pb(assignment.path),
        tiering_epoch=assignment.tiering_epoch,
        round_id=assignment.round_id,
        lake_table_uuid=assignment.lake_table_uuid,
        passed_head=assignment.passed_head,
        recorded=None if recorded is None else recorded_to_pb(recorded),
        max_duration_ms=assignment.max_duration_ms,
        recorded_round_id=assignment.recorded_round_id,
        moved_back=offsets_to_pb(assignment.moved_back),
        unresolved=assignment.unresolved,
        skipped=_skipped_to_pb(assignment.skipped),
        backlog=_backlog_to_pb(assignment.backlog),
        upkeep=None if assignment.upkeep is None else upkeep_order_to_pb(assignment.upkeep),
        upkeep_paused=assignment.upkeep_paused,
    )


def assignment_from_pb(message: pb.PbLakeTieringTableInfo, coordinator_epoch: int) -> Assignment:
    """The assignment in a heartbeat's answer."""
    return Assignment(
        table_id=message.table_id,
        path=path_from_pb(message.table_path),
        tiering_epoch=message.tiering_epoch,
        coordinator_epoch=coordinator_epoch,
        round_id=message.round_id,
        lake_table_uuid=message.lake_table_uuid if message.HasField("lake_table_uuid") else None,
        passed_head=message.passed_head if message.HasField("passed_head") else None,
        recorded=recorded_from_pb(message.recorded) if message.HasField("recorded") else None,
        max_duration_ms=message.max_duration_ms,
        recorded_round_id=message.recorded_round_id if message.HasField("recorded_round_id") else None,
        moved_back=offsets_from_pb(message.moved_back),
        unresolved=message.unresolved,
        skipped=_skipped_from_pb(message.skipped),
        backlog=_backlog_from_pb(message.backlog),
        upkeep=upkeep_order_from_pb(message.upkeep) if message.HasField("upkeep") else None,
        upkeep_paused=message.upkeep_paused,
    )


def _skipped_to_pb(skipped: SkippedRecords) -> list[PbBucketOffset]:
    return [
        PbBucketOffset(bucket=bucket_to_pb(bucket), offset=offset, trace=trace)
        for bucket, records in skipped.items()
        for offset, trace in records.items()
    ]


def _skipped_from_pb(messages: Iterable[PbBucketOffset]) -> dict[BucketKey, dict[int, str | None]]:
    skipped: dict[BucketKey, dict[int, str | None]] = {}
    for message in messages:
        records = skipped.setdefault(bucket_from_pb(message.bucket), {})
        records[message.offset] = message.trace if message.HasField("trace") else None
    return skipped


def _backlog_to_pb(backlog: AssignedBacklog) -> pb.PbBacklog:
    touched = None if backlog.touched is None else pb.PbBacklog.PbTouched(buckets=[str(bucket) for bucket in backlog.touched])
    return pb.PbBacklog(offsets=offsets_to_pb(backlog.offsets), begins=backlog.begins, touched=touched)


def _backlog_from_pb(message: pb.PbBacklog) -> AssignedBacklog:
    """That of an older coordinator, which says nothing, is empty."""
    touched = frozenset(BucketKey.parse(bucket) for bucket in message.touched.buckets) if message.HasField("touched") else None
    return AssignedBacklog(offsets_from_pb(message.offsets), message.begins, touched)


def round_progress_to_pb(progress: RoundProgress) -> PbRoundProgress:
    """How far a round is, for a client."""
    return PbRoundProgress(
        splits_done=progress.splits_done,
        splits_total=progress.splits_total,
        records_done=progress.records_done,
        records_total=progress.records_total,
    )


def round_progress_from_pb(message: PbRoundProgress | pb.ReportProgressRequest) -> RoundProgress:
    """How far a round is, as a tierer or the coordinator says. Numbers below 0 are taken for 0."""
    numbers = (message.splits_done, message.splits_total, message.records_done, message.records_total)
    return RoundProgress(*(max(number, 0) for number in numbers))


def recorded_to_pb(recorded: RecordedLakeSnapshot) -> pb.PbRecordedSnapshot:
    """A lake snapshot and its offsets as a message."""
    return pb.PbRecordedSnapshot(lake_snapshot_id=recorded.lake_snapshot_id, offsets=offsets_to_pb(recorded.offsets))


def recorded_from_pb(message: pb.PbRecordedSnapshot) -> RecordedLakeSnapshot:
    """The lake snapshot that `recorded_to_pb` made the message of."""
    return RecordedLakeSnapshot(message.lake_snapshot_id, offsets_from_pb(message.offsets))


def round_to_pb(assignment: Assignment, tierer_id: str, incarnation: str | None = None) -> pb.PbRound:
    """Names the round with the numbers that fence it, and the process that runs it."""
    return pb.PbRound(
        table_id=assignment.table_id,
        coordinator_epoch=assignment.coordinator_epoch,
        tiering_epoch=assignment.tiering_epoch,
        round_id=assignment.round_id,
        tierer_id=tierer_id,
        incarnation=incarnation,
    )


def stats_to_pb(stats: RoundStats) -> pb.PbRoundStats:
    """A round's statistics as a message."""
    return pb.PbRoundStats(
        splits=stats.splits,
        records_read=stats.records_read,
        bytes_read=stats.bytes_read,
        records_written=stats.records_written,
        bytes_written=stats.bytes_written,
        files_written=stats.files_written,
        deletes_written=stats.deletes_written,
        **vars(stats.times),
        **({} if stats.place is None else vars(stats.place)),
        upkeep=None if stats.upkeep is None else upkeep_stats_to_pb(stats.upkeep),
    )


def stats_from_pb(message: pb.PbRoundStats) -> RoundStats:
    """A round's statistics as its tierer reports them, none below 0: they are shown and decide nothing."""
    return RoundStats(
        splits=max(message.splits, 0),
        records_read=max(message.records_read, 0),
        bytes_read=max(message.bytes_read, 0),
        records_written=max(message.records_written, 0),
        bytes_written=max(message.bytes_written, 0),
        files_written=max(message.files_written, 0),
        deletes_written=max(message.deletes_written, 0),
        times=_times_from_pb(message),
        place=_place_from_pb(message),
        upkeep=upkeep_stats_from_pb(message.upkeep) if message.HasField("upkeep") else None,
    )


def _place_from_pb(message: pb.PbRoundStats) -> RoundPlace | None:
    """None also for a place that only a newer tierer knows."""
    if message.ran_on not in list(RanOn):
        return None
    application_id = informative(message.spark_application_id) or None
    return RoundPlace(RanOn(message.ran_on), application_id, message.spark_job_id if message.HasField("spark_job_id") else None)


def _times_from_pb(message: pb.PbRoundStats) -> PhaseTimes:
    present = {descriptor.name: value for descriptor, value in message.ListFields()}
    return PhaseTimes(**{part.name: max(present[part.name], 0) for part in fields(PhaseTimes) if part.name in present})
