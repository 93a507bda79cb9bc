"""The procedures that a client calls by name: what each takes and answers, once for the synchronous client and the one for asyncio.

Table paths are `db.t`, or a TablePath. What is None takes the procedure's default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tiering.model.call_results import (
    CancelResult,
    CheckResult,
    ExplainTieringResult,
    ExplainUpkeepResult,
    FenceTiererResult,
    LeaseResult,
    OrphanFilesResult,
    PauseResult,
    ReconcileResult,
    ResetResult,
    RetryResult,
    SetFreshnessResult,
    SetOptionResult,
    SkipRecordResult,
    TakeSnapshotResult,
    TierDatabaseResult,
    UpkeepResult,
    WaitForTieringResult,
)
from tiering.wire.calls import TableName
from tiering.wire.procedure_calls import ProcedureCall, check_zone

ANSWER_SECONDS = 30
"""What a call may take that waits for the store alone, or beyond the time that it waits for its table."""

LOOK_SECONDS = 300
"""What a call may take that looks at lake and cluster, or changes one of them."""

SWEEP_SECONDS = 3_600
"""What a sweep may take: it lists and reads the metadata of whole tables."""

VALIDATION_SECONDS = 24 * 3_600
"""What a validation may take: it reads whole tables."""

ROUND_GOES_ON_HINT = "Call again: the round goes on meanwhile."


def pause_tiering(table: TableName, reason: str | None, until: datetime | None) -> ProcedureCall[PauseResult]:
    return ProcedureCall("pause_tiering", PauseResult, {"table": table, "reason": reason, "until": until}, ANSWER_SECONDS)


def resume_tiering(table: TableName, reason: str | None) -> ProcedureCall[PauseResult]:
    return ProcedureCall("resume_tiering", PauseResult, {"table": table, "reason": reason}, ANSWER_SECONDS)


def cancel_tiering(round_id: str, message: str | None) -> ProcedureCall[CancelResult]:
    return ProcedureCall("cancel_tiering", CancelResult, {"round_id": round_id, "message": message}, ANSWER_SECONDS)


def retry_tiering(table: TableName) -> ProcedureCall[RetryResult]:
    return ProcedureCall("retry_tiering", RetryResult, {"table": table}, ANSWER_SECONDS)


def reset_errors(table: TableName) -> ProcedureCall[ResetResult]:
    return ProcedureCall("reset_errors", ResetResult, {"table": table}, ANSWER_SECONDS)


def set_freshness(table: TableName, freshness: str) -> ProcedureCall[SetFreshnessResult]:
    return ProcedureCall("set_freshness", SetFreshnessResult, {"table": table, "freshness": freshness}, ANSWER_SECONDS)


def fence_tierer(tierer_id: str, reason: str | None) -> ProcedureCall[FenceTiererResult]:
    return ProcedureCall("fence_tierer", FenceTiererResult, {"tierer_id": tierer_id, "reason": reason}, ANSWER_SECONDS)


def tier_database(
    database_name: str, include: str | None, exclude: str | None, only_stale: bool, wait: bool, timeout_ms: int
) -> ProcedureCall[TierDatabaseResult]:
    values = {
        "database": database_name,
        "include": include,
        "exclude": exclude,
        "only_stale": only_stale,
        "wait": wait,
        "timeout_ms": timeout_ms,
    }
    return ProcedureCall("tier_database", TierDatabaseResult, values, timeout_ms / 1_000 + ANSWER_SECONDS, ROUND_GOES_ON_HINT)


def wait_for_tiering(
    table: TableName, timestamp: datetime | None, offsets: Mapping[str, int] | None, timeout_ms: int
) -> ProcedureCall[WaitForTieringResult]:
    """Raises InvalidArgument for a timestamp without a zone."""
    if timestamp is not None:
        check_zone(timestamp, "the timestamp")
    values = {"table": table, "timestamp": timestamp, "offsets": offsets, "timeout_ms": timeout_ms}
    return ProcedureCall("wait_for_tiering", WaitForTieringResult, values, timeout_ms / 1_000 + ANSWER_SECONDS, ROUND_GOES_ON_HINT)


def explain_tiering(table: TableName) -> ProcedureCall[ExplainTieringResult]:
    return ProcedureCall("explain_tiering", ExplainTieringResult, {"table": table}, LOOK_SECONDS)


def validate_table(table: TableName, level: str, snapshot_id: int | None) -> ProcedureCall[tuple[CheckResult, ...]]:
    values = {"table": table, "level": level, "snapshot_id": snapshot_id}
    return ProcedureCall("validate_table", tuple[CheckResult, ...], values, VALIDATION_SECONDS)


def reconcile_lake(table: TableName, action: str) -> ProcedureCall[ReconcileResult]:
    return ProcedureCall("reconcile_lake", ReconcileResult, {"table": table, "action": action}, LOOK_SECONDS)


def skip_record(
    table: TableName, bucket_id: int, offset: int, partition: str | None, reason: str | None
) -> ProcedureCall[SkipRecordResult]:
    values = {"table": table, "bucket_id": bucket_id, "offset": offset, "partition": partition, "reason": reason}
    return ProcedureCall("skip_record", SkipRecordResult, values, LOOK_SECONDS)


def set_table_option(table: TableName, name: str, value: str | None) -> ProcedureCall[SetOptionResult]:
    return ProcedureCall("set_table_option", SetOptionResult, {"table": table, "name": name, "value": value}, LOOK_SECONDS)


def take_kv_snapshot(table: TableName) -> ProcedureCall[TakeSnapshotResult]:
    return ProcedureCall("take_kv_snapshot", TakeSnapshotResult, {"table": table}, LOOK_SECONDS)


def acquire_kv_snapshot_lease(lease_id: str, table: TableName, ttl_ms: int | None) -> ProcedureCall[LeaseResult]:
    values = {"lease_id": lease_id, "table": table, "ttl_ms": ttl_ms}
    return ProcedureCall("acquire_kv_snapshot_lease", LeaseResult, values, LOOK_SECONDS)


def renew_kv_snapshot_lease(lease_id: str, ttl_ms: int | None) -> ProcedureCall[LeaseResult]:
    return ProcedureCall("renew_kv_snapshot_lease", LeaseResult, {"lease_id": lease_id, "ttl_ms": ttl_ms}, LOOK_SECONDS)


def release_kv_snapshot_lease(lease_id: str, table: TableName) -> ProcedureCall[LeaseResult]:
    return ProcedureCall("release_kv_snapshot_lease", LeaseResult, {"lease_id": lease_id, "table": table}, LOOK_SECONDS)


def drop_kv_snapshot_lease(lease_id: str) -> ProcedureCall[LeaseResult]:
    return ProcedureCall("drop_kv_snapshot_lease", LeaseResult, {"lease_id": lease_id}, LOOK_SECONDS)


def rewrite_data_files(table: TableName, where: str | None, full: bool, waiting: UpkeepWait) -> ProcedureCall[UpkeepResult]:
    return _upkeep_call("rewrite_data_files", {"table": table, "where": where, "full": full}, waiting)


def expire_snapshots(
    table: TableName, older_than: datetime | None, retain_last: int | None, waiting: UpkeepWait
) -> ProcedureCall[UpkeepResult]:
    """Raises InvalidArgument for a time without a zone."""
    if older_than is not None:
        check_zone(older_than, "older_than")
    return _upkeep_call("expire_snapshots", {"table": table, "older_than": older_than, "retain_last": retain_last}, waiting)


def rewrite_manifests(table: TableName, waiting: UpkeepWait) -> ProcedureCall[UpkeepResult]:
    return _upkeep_call("rewrite_manifests", {"table": table}, waiting)


@dataclass(frozen=True)
class UpkeepWait:
    """How long a call for upkeep waits."""

    wait: bool
    timeout_ms: int
    wait_for_tierer: bool


def _upkeep_call(name: str, values: dict[str, Any], waiting: UpkeepWait) -> ProcedureCall[UpkeepResult]:
    seconds = waiting.timeout_ms / 1_000 + LOOK_SECONDS
    return ProcedureCall(name, UpkeepResult, values | vars(waiting), seconds, ROUND_GOES_ON_HINT)


def remove_orphan_files(table: TableName, older_than: datetime | None) -> ProcedureCall[OrphanFilesResult]:
    """Raises InvalidArgument for a time without a zone."""
    if older_than is not None:
        check_zone(older_than, "older_than")
    return ProcedureCall("remove_orphan_files", OrphanFilesResult, {"table": table, "older_than": older_than}, SWEEP_SECONDS)


def explain_upkeep(table: TableName) -> ProcedureCall[ExplainUpkeepResult]:
    return ProcedureCall("explain_upkeep", ExplainUpkeepResult, {"table": table}, LOOK_SECONDS)


def pause_upkeep(table: TableName, reason: str | None) -> ProcedureCall[PauseResult]:
    return ProcedureCall("pause_upkeep", PauseResult, {"table": table, "reason": reason}, ANSWER_SECONDS)


def resume_upkeep(table: TableName) -> ProcedureCall[PauseResult]:
    return ProcedureCall("resume_upkeep", PauseResult, {"table": table}, ANSWER_SECONDS)
