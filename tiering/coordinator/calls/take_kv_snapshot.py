"""`CALL sys.take_kv_snapshot`: takes a KV snapshot now of each bucket that changed since its last one.

The cluster stores the snapshots, so the effect exists before the operation's row is stored. If the coordinator dies between the two, a
repeat takes snapshots of the buckets that changed meanwhile.
"""

from __future__ import annotations

from tiering.cluster.capabilities import KvSnapshotsOnDemand
from tiering.coordinator.call_support.leases import primary_key_table
from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.call_support.record_change import call_event
from tiering.counts import counted
from tiering.errors import InvalidArgument
from tiering.model.tables import TableInfo
from tiering.procedures.take_kv_snapshot import TakeKvSnapshot, TakeKvSnapshotResult


def take_kv_snapshot(parts: CallParts, request: TakeKvSnapshot) -> TakeKvSnapshotResult:
    """Takes the snapshots. Raises UnknownTable, UnknownDatabase, InvalidArgument, ClusterUnavailable."""
    return parts.operations.in_turn(request.procedure, request, lambda: _take(parts, request))


def _take(parts: CallParts, request: TakeKvSnapshot) -> TakeKvSnapshotResult:
    cluster, records = parts.cluster, parts.table_records
    table = primary_key_table(parts, request.path)
    if not isinstance(cluster, KvSnapshotsOnDemand):
        raise InvalidArgument(
            f"the cluster of {request.path} takes no KV snapshots on demand: its own servers take them at their interval",
            hint="sys.kv_snapshot_leases shows which snapshots are kept.",
        )
    if request.dry_run:
        return _would_take(parts, table)
    before = cluster.kv_snapshots(table)
    newest = cluster.take_kv_snapshots(request.path)
    result = TakeKvSnapshotResult(request.path, len(newest.items() - before.items()), len(newest))
    with records.changing():
        operations = parts.operations.done(request, table.table_id, result)
        message = f"KV snapshots taken of {counted(result.taken, 'bucket')}, with one: {counted(result.buckets, 'bucket')}"
        numbers = {"taken": result.taken, "buckets": result.buckets}
        event = call_event(parts, request, "KV_SNAPSHOT_TAKEN", message, numbers, path=request.path)
        records.put(operations=operations, events=[event])
    return result


def _would_take(parts: CallParts, table: TableInfo) -> TakeKvSnapshotResult:
    newest = parts.cluster.kv_snapshots(table)
    covered = {bucket: snapshot.log_offset for bucket, snapshot in newest.items()}
    changed = {bucket for bucket, log in parts.cluster.offsets(table).items() if log.log_end > covered.get(bucket, 0)}
    return TakeKvSnapshotResult(table.path, len(changed), len(changed | newest.keys()))
