"""What a tierer tells the coordinator, as messages. Pure."""

from __future__ import annotations

from tiering.lake.marker import Marker
from tiering.model.rounds import Assignment, RecordedLakeSnapshot
from tiering.model.tables import Offsets, TablePath
from tiering.round.ports import Grant
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.wire.offsets import offsets_from_pb, offsets_to_pb


def assignment_from_pb(info: pb.PbLakeTieringTableInfo, coordinator_epoch: int) -> Assignment:
    """The assignment in a heartbeat's answer."""
    recorded = RecordedLakeSnapshot(info.recorded.lake_snapshot_id, offsets_from_pb(info.recorded.offsets))
    return Assignment(
        table_id=info.table_id,
        path=TablePath(info.table_path.database_name, info.table_path.table_name),
        tiering_epoch=info.tiering_epoch,
        coordinator_epoch=coordinator_epoch,
        round_id=info.round_id,
        lake_table_uuid=info.lake_table_uuid if info.HasField("lake_table_uuid") else None,
        passed_head=info.passed_head if info.HasField("passed_head") else None,
        recorded=recorded if info.HasField("recorded") else None,
        max_duration_ms=info.max_duration_ms,
    )


def round_pb(assignment: Assignment, tierer_id: str, incarnation: str | None = None) -> pb.PbRound:
    """Names the round, with the numbers that fence it, and the process that has it."""
    return pb.PbRound(
        table_id=assignment.table_id,
        coordinator_epoch=assignment.coordinator_epoch,
        tiering_epoch=assignment.tiering_epoch,
        round_id=assignment.round_id,
        tierer_id=tierer_id,
        incarnation=incarnation,
    )


def plan_request(
    assignment: Assignment,
    tierer_id: str,
    lake_table_uuid: str,
    stops: Offsets,
    splits: int,
    passed_head: int | None,
    incarnation: str | None = None,
) -> pb.RecordPlanRequest:
    """What the round is about to do."""
    return pb.RecordPlanRequest(
        round=round_pb(assignment, tierer_id, incarnation),
        lake_table_uuid=lake_table_uuid,
        planned_stops=offsets_to_pb(stops),
        splits=splits,
        passed_head=passed_head,
    )


def begin_request(assignment: Assignment, tierer_id: str, grant: Grant, incarnation: str | None = None) -> pb.BeginLakeCommitRequest:
    """Asks for the fence."""
    return pb.BeginLakeCommitRequest(
        round=round_pb(assignment, tierer_id, incarnation),
        base_round_id=grant.base_round_id,
        base_tag_snapshot_id=grant.base_tag,
        offsets=offsets_to_pb(grant.offsets),
        records=grant.records,
        files=grant.files,
    )


def commit_request(
    assignment: Assignment, tierer_id: str, marker: Marker, lake_snapshot_id: int, incarnation: str | None = None
) -> pb.CommitLakeSnapshotRequest:
    """The ack: the marker as found in the lake."""
    offsets = {bucket: tiered.tiered for bucket, tiered in marker.buckets.items()}
    return pb.CommitLakeSnapshotRequest(
        round=round_pb(assignment, tierer_id, incarnation),
        marker=pb.PbRecordedSnapshot(lake_snapshot_id=lake_snapshot_id, offsets=offsets_to_pb(offsets)),
        marker_round_id=marker.round_id,
        lake_table_uuid=marker.lake_table_uuid,
    )
