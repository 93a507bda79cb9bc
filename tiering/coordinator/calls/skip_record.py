"""`CALL sys.skip_record`: the way out for a bucket whose rows cannot take a record of its log (SYS.md).

The effect is in the cluster, durably, before the operation's row and the event are stored: if the coordinator dies between the two,
a repeat finds the record skipped already and only leaves those.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from tiering.cluster.base import TableCatalog
from tiering.cluster.capabilities import RecordSkipping, SkipOutcome, SkippedRecord, SkipRequest
from tiering.coordinator.calls.mutations import Mutation
from tiering.coordinator.decisions import reconciliation
from tiering.coordinator.decisions.change import Change
from tiering.coordinator.decisions.records import EventRecord, Level
from tiering.coordinator.memory.idempotency import IdempotentOperations
from tiering.coordinator.memory.table_records import TableRecords
from tiering.errors import BucketStopped, InvalidArgument
from tiering.model.tables import TablePath


@dataclass(frozen=True)
class SkipRecordResult:
    """The record, with its value as text, cut. `outcome`: a `SkipOutcome`."""

    path: TablePath
    partition_name: str | None
    bucket_id: int
    offset: int
    value: str
    outcome: str


@dataclass(frozen=True)
class SkipRecord(Mutation[SkipRecordResult]):
    """Arguments of `CALL sys.skip_record` (SYS.md)."""

    procedure = "skip_record"
    result_class = SkipRecordResult
    path: TablePath
    bucket_id: int
    offset: int
    partition: str | None = None
    reason: str | None = None


class RecordSkips:
    """They block."""

    def __init__(self, table_records: TableRecords, cluster: TableCatalog, operations: IdempotentOperations) -> None:
        self._table_records = table_records
        self._cluster = cluster
        self._operations = operations
        self._one_at_a_time = threading.Lock()

    def skip(self, call: SkipRecord) -> SkipRecordResult:
        """Does it once for one idempotency key. Raises UnknownTable, UnknownPartition, InvalidArgument, ClusterUnavailable."""
        with self._one_at_a_time:
            earlier = self._operations.answer(call)
            return self._do(call) if earlier is None else earlier

    def _do(self, call: SkipRecord) -> SkipRecordResult:
        if not isinstance(self._cluster, RecordSkipping):
            raise InvalidArgument(f"the cluster of {call.path} skips no records: its own servers keep the rows of primary-key tables")
        request = SkipRequest(call.path, call.partition, call.bucket_id, call.offset, call.caller, call.reason, call.dry_run)
        skipped = self._cluster.skip_record(request)
        result = SkipRecordResult(call.path, call.partition, call.bucket_id, call.offset, skipped.value, skipped.outcome.value)
        if skipped.outcome is not SkipOutcome.WOULD_SKIP and not call.dry_run:
            with self._table_records.changing():
                operations = self._operations.done(call, skipped.table_id, result)
                self._table_records.put(*self._retried(call, skipped), operations=operations, events=[self._event(call, result)])
        return result

    def _retried(self, call: SkipRecord, skipped: SkippedRecord) -> list[Change]:
        """A table that failed because the bucket stood is tiered again; what else it fails with is left as it is."""
        record = self._table_records.get(skipped.table_id)
        if record is None or record.error is None or record.error.error_class != BucketStopped.__name__:
            return []
        return [reconciliation.retry(self._table_records.context(call.caller), record)]

    def _event(self, call: SkipRecord, result: SkipRecordResult) -> EventRecord:
        place = f"bucket {call.bucket_id}" + ("" if call.partition is None else f" of partition {call.partition}")
        return EventRecord(
            occurred_at=self._table_records.now().wall,
            level=Level.WARN,
            event_type="RECORD_SKIPPED",
            message=f"{place}: the record at offset {call.offset} is left out" + (f": {call.reason}" if call.reason else ""),
            principal=call.caller,
            database_name=call.path.database_name,
            table_name=call.path.table_name,
            round_id=None,
            details={
                "partition_name": call.partition,
                "bucket_id": call.bucket_id,
                "offset": call.offset,
                "value": result.value,
                "outcome": result.outcome,
            },
        )
