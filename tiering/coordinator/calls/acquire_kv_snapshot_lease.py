"""`CALL sys.acquire_kv_snapshot_lease`: keeps the newest KV snapshot of every bucket of a table alive."""

from __future__ import annotations

from tiering.access.acting_for import kept_name
from tiering.cluster.lease_rules import check_lease
from tiering.coordinator.call_support.leases import change_lease, lease_result, primary_key_table
from tiering.coordinator.call_support.parts import CallParts
from tiering.errors import InvalidArgument
from tiering.model.tables import TableBucket
from tiering.procedures.acquire_kv_snapshot_lease import AcquireKvSnapshotLease, AcquireKvSnapshotLeaseResult


def acquire_kv_snapshot_lease(parts: CallParts, request: AcquireKvSnapshotLease) -> AcquireKvSnapshotLeaseResult:
    """Acquires the lease. Raises InvalidArgument, UnknownTable, UnknownDatabase, ClusterUnavailable."""
    return change_lease(parts, request, lambda: _acquire(parts, request), path=request.path)


def _acquire(parts: CallParts, request: AcquireKvSnapshotLease) -> AcquireKvSnapshotLeaseResult:
    lease_id = kept_name(request.lease_id)
    check_lease(lease_id, request.ttl_ms)
    table = primary_key_table(parts, request.path)
    newest = parts.cluster.kv_snapshots(table)
    snapshots = {TableBucket(table.table_id, bucket): snapshot.snapshot_id for bucket, snapshot in newest.items()}
    if not snapshots:
        raise InvalidArgument(f"{request.path} has no KV snapshots", hint="The first ones come after the table's snapshot interval.")
    if request.dry_run:
        return AcquireKvSnapshotLeaseResult(lease_id, "ACTIVE", len(snapshots), 0, None)
    unavailable = parts.cluster.acquire_lease(lease_id, request.ttl_ms, snapshots, request.caller)
    return lease_result(AcquireKvSnapshotLeaseResult, parts, lease_id, len(snapshots) - len(unavailable), len(unavailable))
