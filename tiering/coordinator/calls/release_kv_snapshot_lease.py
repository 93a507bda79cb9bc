"""`CALL sys.release_kv_snapshot_lease`: releases all KV snapshots of one table that a lease holds."""

from __future__ import annotations

from collections.abc import Collection

from tiering.coordinator.call_support.leases import change_lease, lease_by_id, lease_result, primary_key_table
from tiering.coordinator.call_support.parts import CallParts
from tiering.errors import UnknownLease
from tiering.model.tables import TableBucket
from tiering.procedures.release_kv_snapshot_lease import ReleaseKvSnapshotLease, ReleaseKvSnapshotLeaseResult


def release_kv_snapshot_lease(parts: CallParts, request: ReleaseKvSnapshotLease) -> ReleaseKvSnapshotLeaseResult:
    """Releases the snapshots. Raises UnknownLease (also if the lease holds none of the table), UnknownTable, InvalidArgument,
    ClusterUnavailable.
    """
    return change_lease(parts, request, lambda: _release(parts, request), path=request.path)


def _release(parts: CallParts, request: ReleaseKvSnapshotLease) -> ReleaseKvSnapshotLeaseResult:
    lease, table = lease_by_id(parts, request.lease_id), primary_key_table(parts, request.path)
    buckets = [snapshot.table_bucket for snapshot in lease.snapshots if snapshot.table_bucket.table_id == table.table_id]
    if not buckets:
        raise UnknownLease(
            f"the lease {request.lease_id!r} holds no bucket of {request.path}",
            hint="See sys.kv_snapshot_lease_buckets for what it holds.",
        )
    released: Collection[TableBucket] = buckets if request.dry_run else parts.cluster.release_lease(lease.lease_id, buckets)
    return lease_result(ReleaseKvSnapshotLeaseResult, parts, lease.lease_id, len(released), missing_state="RELEASED")
