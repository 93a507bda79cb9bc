"""`CALL sys.renew_kv_snapshot_lease`: extends a lease on KV snapshots."""

from __future__ import annotations

from dataclasses import dataclass

from tiering.cluster.lease_rules import check_lease
from tiering.coordinator.calls.effects import CallParts, Pool, effect
from tiering.coordinator.calls.kv_snapshots.leases import LeaseRequest, change_lease, lease_by_id, lease_result
from tiering.model.call_results import LeaseResult


@dataclass(frozen=True)
class RenewLease(LeaseRequest):
    """Arguments of the call (docs/reference.md). `ttl_ms` is the duration from now; None for the same duration as before."""

    procedure = "renew_kv_snapshot_lease"
    ttl_ms: int | None = None


@effect(RenewLease, pool=Pool.LEASE)
def renew_kv_snapshot_lease(parts: CallParts, request: RenewLease) -> LeaseResult:
    """Renews the lease. Raises UnknownLease, InvalidArgument, ClusterUnavailable."""
    return change_lease(parts, request, lambda: _renew(parts, request))


def _renew(parts: CallParts, request: RenewLease) -> LeaseResult:
    lease = lease_by_id(parts, request.lease_id)
    ttl_ms = lease.ttl_ms if request.ttl_ms is None else request.ttl_ms
    check_lease(lease.lease_id, ttl_ms)
    if not request.dry_run:
        parts.cluster.acquire_lease(lease.lease_id, ttl_ms, {})
    return lease_result(parts, lease.lease_id, len(lease.snapshots))
