"""`CALL sys.explain_upkeep`: what the next upkeep of a table would do, and what it waits for. It changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from tiering import errors
from tiering.coordinator.call_support.lake_outlook import outlook_of, upkeep_plan
from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.call_support.record_change import lake_table
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.observing.upkeep_needs import UpkeepExplanation
from tiering.counts import counted
from tiering.durations import format_duration
from tiering.lake.table_options import AUTO_COMPACTION, AUTO_EXPIRE, SNAPSHOT_MAX_AGE, SNAPSHOT_MIN_COUNT
from tiering.model.tables import TableInfo
from tiering.model.upkeep import ExpiryOrder, UpkeepOrder
from tiering.procedures.explain_upkeep import ExplainUpkeep, UpkeepDecision, UpkeepLine

LEFT_ALONE = "upkeep cannot rewrite them, because of another writer, a former partition spec, or deletes that it cannot apply"
"""Why a plan skips files (`UpkeepPlan.left_alone`)."""


def explain_upkeep(parts: CallParts, request: ExplainUpkeep) -> tuple[UpkeepLine, ...]:
    """Returns the explanation. A problem of the lake is a line. Raises UnknownTable, UnknownDatabase, LakeDisabled, ClusterUnavailable."""
    info, record = lake_table(parts, request.path)
    explanation = parts.upkeep.explain(record, tierer_connected=parts.tierer_connected())
    lines = [*_next(record, explanation, parts.table_records.now().wall), *_requests(record), *_last(record), *_options(info)]
    try:
        lines += [*_rewrites(parts, info, explanation), *_snapshots(parts, info)]
    except errors.LakewardError as error:
        lines.append(UpkeepLine(UpkeepDecision.NOTE, f"the lake cannot be read now: {error.error_class}: {error.message}"))
    return tuple(lines)


def _next(record: TableRecord, explanation: UpkeepExplanation, now: datetime) -> Iterator[UpkeepLine]:
    running = record.running
    if running is not None and record.upkeep_runs:
        why = f": {running.upkeep_reason}" if running.upkeep_reason else ""
        yield UpkeepLine(UpkeepDecision.RUNNING, f"upkeep round {running.round_id} runs on the tierer {running.tierer_id}{why}")
    if explanation.order is None:
        yield UpkeepLine(UpkeepDecision.NOTHING, explanation.reason)
    elif explanation.waits_for is None:
        yield UpkeepLine(UpkeepDecision.BEGIN, explanation.reason)
    if explanation.waits_for is not None:
        later = explanation.next_time
        at = "" if later is None or later <= now else f", not before {later.isoformat(timespec='seconds')}"
        need = f" ({explanation.reason})" if explanation.order is not None else ""
        yield UpkeepLine(UpkeepDecision.WAIT, f"waits for: {explanation.waits_for}{at}{need}")


def _requests(record: TableRecord) -> Iterator[UpkeepLine]:
    for request in record.upkeep.requests:
        text = f"CALL {request.procedure} by {request.caller} has waited since {request.queued_time.isoformat(timespec='seconds')}"
        yield UpkeepLine(UpkeepDecision.NOTE, text)


def _last(record: TableRecord) -> Iterator[UpkeepLine]:
    upkeep = record.upkeep
    if upkeep.last_time is None:
        yield UpkeepLine(UpkeepDecision.LAST, "the table has had no upkeep round yet")
        return
    how = "" if upkeep.last_outcome is None else f", {upkeep.last_outcome.value}"
    error = "" if upkeep.last_error is None else f": {upkeep.last_error.message}"
    round_id = "" if upkeep.last_round_id is None else f" (round {upkeep.last_round_id})"
    yield UpkeepLine(
        UpkeepDecision.LAST, f"the latest upkeep ended at {upkeep.last_time.isoformat(timespec='seconds')}{round_id}{how}{error}"
    )


def _options(info: TableInfo) -> Iterator[UpkeepLine]:
    retention = info.snapshot_retention
    yield UpkeepLine(UpkeepDecision.OPTION, f"{AUTO_COMPACTION.name} = {str(info.auto_compaction).lower()}")
    yield UpkeepLine(UpkeepDecision.OPTION, f"{AUTO_EXPIRE.name} = {str(retention is not None).lower()}")
    if retention is not None:
        yield UpkeepLine(UpkeepDecision.OPTION, f"{SNAPSHOT_MAX_AGE.name} = {format_duration(retention.max_age_ms)}")
        yield UpkeepLine(UpkeepDecision.OPTION, f"{SNAPSHOT_MIN_COUNT.name} = {retention.min_count}")


def _rewrites(parts: CallParts, info: TableInfo, explanation: UpkeepExplanation) -> Iterator[UpkeepLine]:
    """Yields what CALL rewrite_data_files would do if upkeep itself has nothing to do."""
    plan = upkeep_plan(parts, info, explanation.order or UpkeepOrder())
    if plan is None:
        return
    for task in plan.tasks:
        text = f"{counted(task.files, 'file')} would be rewritten"
        yield UpkeepLine(UpkeepDecision.REWRITE, text, task.partition_name, task.bucket.bucket_id, task.files, task.size_bytes)
    if plan.bytes_left:
        yield UpkeepLine(UpkeepDecision.LEFT, "bytes that the following round would rewrite", bytes=plan.bytes_left)
    if plan.left_alone:
        text = f"{counted(plan.left_alone, 'file')} would be skipped: {LEFT_ALONE}"
        yield UpkeepLine(UpkeepDecision.NOTE, text, files=plan.left_alone)


def _snapshots(parts: CallParts, info: TableInfo) -> Iterator[UpkeepLine]:
    outlook = outlook_of(parts, info.path, ExpiryOrder())
    if outlook is None or info.snapshot_retention is None:
        return
    kept = ", ".join(f"{number} ({reason})" for reason, number in outlook.kept.items())
    yield UpkeepLine(
        UpkeepDecision.NOTE, f"{counted(outlook.expirable, 'snapshot')} would expire with the next commit; others stay: {kept}"
    )
