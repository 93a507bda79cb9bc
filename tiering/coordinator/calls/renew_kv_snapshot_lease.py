"""`CALL sys.renew_kv_snapshot_lease`: extends a lease on KV snapshots."""

from __future__ import annotations

from tiering.cluster.lease_rules import check_lease
from tiering.coordinator.call_support.leases import change_lease, lease_by_id, lease_result
from tiering.coordinator.call_support.parts import CallParts
from tiering.procedures.renew_kv_snapshot_lease import RenewKvSnapshotLease, RenewKvSnapshotLeaseResult


def renew_kv_snapshot_lease(parts: CallParts, request: RenewKvSnapshotLease) -> RenewKvSnapshotLeaseResult:
    """Renews the lease. Raises UnknownLease, InvalidArgument, ClusterUnavailable."""
    return change_lease(parts, request, lambda: _renew(parts, request))


def _renew(parts: CallParts, request: RenewKvSnapshotLease) -> RenewKvSnapshotLeaseResult:
    lease = lease_by_id(parts, request.lease_id)
    ttl_ms = lease.ttl_ms if request.ttl_ms is None else request.ttl_ms
    check_lease(lease.lease_id, ttl_ms)
    if not request.dry_run:
        parts.cluster.acquire_lease(lease.lease_id, ttl_ms, {})
    return lease_result(RenewKvSnapshotLeaseResult, parts, lease.lease_id, len(lease.snapshots))
