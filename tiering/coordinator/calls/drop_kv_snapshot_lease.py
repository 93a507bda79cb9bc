"""`CALL sys.drop_kv_snapshot_lease`: releases everything that a lease holds."""

from __future__ import annotations

from tiering.coordinator.call_support.leases import change_lease, lease_by_id
from tiering.coordinator.call_support.parts import CallParts
from tiering.procedures.drop_kv_snapshot_lease import DropKvSnapshotLease, DropKvSnapshotLeaseResult


def drop_kv_snapshot_lease(parts: CallParts, request: DropKvSnapshotLease) -> DropKvSnapshotLeaseResult:
    """Drops the lease. Raises UnknownLease, InvalidArgument, ClusterUnavailable."""
    return change_lease(parts, request, lambda: _drop(parts, request))


def _drop(parts: CallParts, request: DropKvSnapshotLease) -> DropKvSnapshotLeaseResult:
    lease = lease_by_id(parts, request.lease_id)
    if not request.dry_run:
        parts.cluster.drop_lease(lease.lease_id)
    return DropKvSnapshotLeaseResult(lease.lease_id, "DROPPED", len(lease.snapshots), 0, None)
