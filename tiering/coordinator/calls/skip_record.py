"""`CALL sys.skip_record`: leaves out the record at which a bucket stops (docs/reference.md).

A record that the embedded cluster's KV state cannot accept is skipped in the cluster, durably, before the operation's row and the event are
stored. If the coordinator dies in between, a repeat finds the record skipped already, and only stores these two.

A record that a round cannot read or write, in any table of any cluster, is skipped in the table's record, in one write with the operation's
row and the event. Assignments tell rounds to leave it out, and their markers name it for later comparisons with the lake. A running round
was assigned without the skip, and is fenced if its plan passes the record. The skip is bound to the record's trace: if the log was
rewritten, another record at the same offset is not left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tiering.access.privileges import Privilege
from tiering.cluster.capabilities import RecordSkipping, SkipOutcome, SkipRequest
from tiering.cluster.log_state import traces_at
from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.call_support.record_change import call_event
from tiering.coordinator.decisions import reconciliation
from tiering.coordinator.decisions.change import Change
from tiering.coordinator.decisions.lake_acks import late_commits
from tiering.coordinator.decisions.records import EventRecord, Level, TableRecord
from tiering.coordinator.memory.table_records import TableRecords
from tiering.errors import BucketStopped, InvalidArgument, TableBusy, UnknownPartition
from tiering.model.refused_records import MAX_VALUE_CHARACTERS, RECORD_ID
from tiering.model.tables import BucketKey, TableInfo, TableType
from tiering.procedures.skip_record import SkipRecord, SkipRecordResult


def skip_record(parts: CallParts, request: SkipRecord) -> SkipRecordResult:
    """Skips the record, once per idempotency key. Raises UnknownTable, UnknownPartition, InvalidArgument, TableBusy, ClusterUnavailable."""
    result = parts.operations.in_turn(request.procedure, request, lambda: _skip(parts, request))
    reads = parts.grants.current().may_table(Privilege.SELECT, request.path)
    return result if reads else replace(result, value="")


def _skip(parts: CallParts, request: SkipRecord) -> SkipRecordResult:
    cluster, info = parts.cluster, parts.cluster.table(request.path)
    refused = InvalidArgument(f"{_place(request)} of {request.path} is not stopped at a record: there is nothing to skip")
    if isinstance(cluster, RecordSkipping) and info.table_type is TableType.PRIMARY_KEY:
        try:
            return _skip_in_cluster(parts, cluster, request)
        except InvalidArgument as error:  # the KV state has accepted the record
            refused = error
    return _skip_in_rounds(parts, info, request, refused)


def _skip_in_cluster(parts: CallParts, cluster: RecordSkipping, request: SkipRecord) -> SkipRecordResult:
    records = parts.table_records
    skipped = cluster.skip_record(
        SkipRequest(request.path, request.partition, request.bucket_id, request.offset, request.caller, request.reason, request.dry_run)
    )
    result = SkipRecordResult(request.path, request.partition, request.bucket_id, request.offset, skipped.value, skipped.outcome.value)
    if skipped.outcome is not SkipOutcome.WOULD_SKIP and not request.dry_run:
        with records.changing():
            operations = parts.operations.done(request, skipped.table_id, result)
            changes = _retried(parts, request, records.get(skipped.table_id))
            records.put(*changes, operations=operations, events=[_event(parts, request, result)])
    return result


def _skip_in_rounds(parts: CallParts, info: TableInfo, request: SkipRecord, refused: InvalidArgument) -> SkipRecordResult:
    """Skips the record for rounds.

    Raises `refused` unless a round failed at that record, UnknownPartition, TableBusy, ClusterUnavailable.
    """
    bucket, records = _bucket(parts, info, request), parts.table_records
    place = (bucket, request.offset + 1)
    trace_now = traces_at(parts.cluster, info, {bucket: place[1]}).get(place)
    with records.changing():
        record = records.get(info.table_id)
        if record is None:
            raise refused
        stop = _stop_at(record, bucket, request.offset)
        trace = trace_now if stop is None or stop.trace is None else stop.trace
        is_repeat = record.lake.has_skipped(str(bucket), request.offset, trace_now)
        if not is_repeat:
            if stop is None:
                raise refused
            _check_still_there(record, request, trace, trace_now)
            _check_not_passed(records, record, request, bucket)
        outcome = SkipOutcome.ALREADY_SKIPPED if is_repeat else SkipOutcome.SKIPPED
        outcome = SkipOutcome.WOULD_SKIP if request.dry_run and outcome is SkipOutcome.SKIPPED else outcome
        value = "" if stop is None else stop.value
        result = SkipRecordResult(request.path, request.partition, request.bucket_id, request.offset, value, outcome.value)
        if not request.dry_run:
            lake = record.lake if is_repeat else record.lake.with_skipped(str(bucket), request.offset, trace)
            changed = replace(record, lake=lake)
            changes = _fenced(parts, request, changed, bucket) or _retried(parts, request, changed) or [Change(changed)]
            operations = parts.operations.done(request, info.table_id, result)
            records.put(*changes, operations=operations, events=[_event(parts, request, result)])
    return result


def _check_still_there(record: TableRecord, request: SkipRecord, trace: str | None, trace_now: str | None) -> None:
    """Raises InvalidArgument if the log now has another record at the offset than the one at which the round stopped."""
    if trace_now is not None and trace_now != trace:
        raise InvalidArgument(
            f"{_place(request)} of {request.path} now has another record at offset {request.offset} than the one in its error: "
            "the cluster lost records and wrote others at their offsets",
            hint=f"Nothing was left out. If the lake cannot hold the new record either, the next round of {record.path} reports it.",
        )


def _check_not_passed(records: TableRecords, record: TableRecord, request: SkipRecord, bucket: BucketKey) -> None:
    """Raises InvalidArgument if the lake has the record, TableBusy if a granted commit may still bring it there.

    A granted commit goes exactly as far as its grant. It does not know that the record is left out, so it would contradict the answer.
    """
    key, offset = str(bucket), request.offset
    if offset < (record.shown_offsets or {}).get(key, 0):
        raise InvalidArgument(f"{_place(request)} of {request.path} is past offset {offset}: the lake has that record already")
    running, commit = record.running, record.commit
    if running is not None and record.granted and not running.acked and commit is not None and commit.offsets.get(key, 0) > offset:
        raise TableBusy(
            f"round {running.round_id} of {request.path} is committing records of {_place(request)} behind offset {offset}",
            hint="Nothing was left out. Call again when that round is over: SELECT status FROM fluss.sys.lake_tiering_status shows it.",
            round_id=running.round_id,
        )
    if record.lake.unresolved_epoch is None:
        return
    late = late_commits(record, records.newest_commits(record.table_id))
    if late is None or any(row.offsets.get(key, 0) > offset for row in late):
        raise TableBusy(
            f"a commit of {request.path} was granted and its outcome is unknown: {_place(request)} may be past offset {offset}",
            hint="Nothing was left out. Call again after the next round, which finds out what the lake holds: "
            f"CALL sys.tier_table('{request.path}') runs one.",
        )


def _bucket(parts: CallParts, info: TableInfo, request: SkipRecord) -> BucketKey:
    if bool(info.partition_keys) != (request.partition is not None):
        requirement = "is partitioned: name the partition" if info.partition_keys else "has no partitions: leave the partition out"
        raise InvalidArgument(f"{info.path} {requirement}", table_id=info.table_id)
    if request.partition is None:
        return BucketKey(None, request.bucket_id)
    ids = {partition.partition_name: partition.partition_id for partition in parts.cluster.partitions(info)}
    if request.partition not in ids:
        raise UnknownPartition(f"the table {info.path} has no partition {request.partition[:250]!r}", table_path=info.path)
    return BucketKey(ids[request.partition], request.bucket_id)


@dataclass(frozen=True)
class _Stop:
    """A record at which a round stopped: its text, and its trace at that time; None if unknown."""

    value: str
    trace: str | None


def _stop_at(record: TableRecord, bucket: BucketKey, offset: int) -> _Stop | None:
    """Returns the record in a round's error, even of an earlier round; None if no round stopped there.

    A recreated partition has the name of the former one but another id, so errors are compared by id.
    """
    stops = [(error.error_class, error.bucket, str(error.offset), error.record_text, error.message, error.trace) for error in record.errors]
    if (error := record.error) is not None:
        ids = error.ids
        record_text = ids.get(RECORD_ID)
        stops.insert(0, (error.error_class, ids.get("bucket"), ids.get("offset", ""), record_text, error.message, ids.get("trace")))
    for *stop, record_text, message, trace in stops:
        if stop == [BucketStopped.__name__, str(bucket), str(offset)]:
            in_message = message.partition(f" stands at offset {offset}: ")[2]  # an error of an older version
            return _Stop((record_text or in_message)[:MAX_VALUE_CHARACTERS], trace)
    return None


def _retried(parts: CallParts, request: SkipRecord, record: TableRecord | None) -> list[Change]:
    """Returns a retry of a table that failed because the bucket stopped. A table with another error is left unchanged."""
    if record is None or record.error is None or record.error.error_class != BucketStopped.__name__:
        return []
    return [reconciliation.retry(parts.table_records.context(request.caller), record)]


def _fenced(parts: CallParts, request: SkipRecord, record: TableRecord, bucket: BucketKey) -> list[Change]:
    """Returns the fencing of a running round whose plan passes the record, because it would not leave the record out.

    A granted round goes only as far as its grant, which `_check_not_passed` compared with the record. An upkeep round reads no record.
    """
    running = record.running
    if running is None or record.granted or record.upkeep_runs:
        return []
    if running.planned_stops is not None and running.planned_stops.get(str(bucket), 0) <= request.offset:
        return []
    why = f"fenced by skip_record of {request.caller}: the round was begun with the record at offset {request.offset} of {_place(request)}"
    return [reconciliation.fence_and_retry(parts.table_records.context(request.caller), record, why)]


def _place(request: SkipRecord) -> str:
    return f"bucket {request.bucket_id}" + ("" if request.partition is None else f" of partition {request.partition}")


def _event(parts: CallParts, request: SkipRecord, result: SkipRecordResult) -> EventRecord:
    message = f"{_place(request)}: the record at offset {request.offset} is left out" + (f": {request.reason}" if request.reason else "")
    details = {"partition_name": request.partition, "bucket_id": request.bucket_id, "offset": request.offset, "outcome": result.outcome}
    return call_event(parts, request, "RECORD_SKIPPED", message, details, level=Level.WARN, path=request.path)
