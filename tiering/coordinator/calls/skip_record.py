"""`CALL sys.skip_record`: the way out for a bucket whose rows cannot take a record of its log (SYS.md).

The effect is in the cluster, durably, before the operation's row and the event are stored: if the coordinator dies between the two,
a repeat finds the record skipped already and only leaves those.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tiering.cluster.capabilities import RecordSkipping, SkipOutcome, SkippedRecord, SkipRequest
from tiering.coordinator.calls.effects import CallParts, Pool, effect
from tiering.coordinator.decisions import reconciliation
from tiering.coordinator.decisions.change import Change
from tiering.coordinator.decisions.records import EventRecord, Level
from tiering.coordinator.requests import Mutation
from tiering.errors import BucketStopped, InvalidArgument
from tiering.model.call_results import SkipRecordResult
from tiering.model.tables import TablePath


@dataclass(frozen=True)
class SkipRecord(Mutation[SkipRecordResult]):
    """Arguments of `CALL sys.skip_record` (SYS.md)."""

    procedure = "skip_record"
    result_class = SkipRecordResult
    free_words = ("reason",)
    path: TablePath
    bucket_id: int
    offset: int
    partition: str | None = None
    reason: str | None = None


@effect(SkipRecord, pool=Pool.REPAIR)
def skip_record(parts: CallParts, request: SkipRecord) -> SkipRecordResult:
    """Does it once for one idempotency key. Raises UnknownTable, UnknownPartition, InvalidArgument, ClusterUnavailable."""
    return parts.operations.in_turn(request.procedure, request, lambda: _skip(parts, request))


def _skip(parts: CallParts, request: SkipRecord) -> SkipRecordResult:
    cluster, records = parts.cluster, parts.table_records
    if not isinstance(cluster, RecordSkipping):
        raise InvalidArgument(f"the cluster of {request.path} skips no records: its own servers keep the rows of primary-key tables")
    skipped = cluster.skip_record(
        SkipRequest(request.path, request.partition, request.bucket_id, request.offset, request.caller, request.reason, request.dry_run)
    )
    result = SkipRecordResult(request.path, request.partition, request.bucket_id, request.offset, skipped.value, skipped.outcome.value)
    if skipped.outcome is not SkipOutcome.WOULD_SKIP and not request.dry_run:
        with records.changing():
            operations = parts.operations.done(request, skipped.table_id, result)
            records.put(*_retried(parts, request, skipped), operations=operations, events=[_event(request, result, records.now().wall)])
    return result


def _retried(parts: CallParts, request: SkipRecord, skipped: SkippedRecord) -> list[Change]:
    """A table that failed because the bucket stood is tiered again; what else it fails with is left as it is."""
    record = parts.table_records.get(skipped.table_id)
    if record is None or record.error is None or record.error.error_class != BucketStopped.__name__:
        return []
    return [reconciliation.retry(parts.table_records.context(request.caller), record)]


def _event(request: SkipRecord, result: SkipRecordResult, now: datetime) -> EventRecord:
    place = f"bucket {request.bucket_id}" + ("" if request.partition is None else f" of partition {request.partition}")
    return EventRecord(
        occurred_at=now,
        level=Level.WARN,
        event_type="RECORD_SKIPPED",
        message=f"{place}: the record at offset {request.offset} is left out" + (f": {request.reason}" if request.reason else ""),
        principal=request.caller,
        database_name=request.path.database_name,
        table_name=request.path.table_name,
        round_id=None,
        details={
            "partition_name": request.partition,
            "bucket_id": request.bucket_id,
            "offset": request.offset,
            "value": result.value,
            "outcome": result.outcome,
        },
    )
