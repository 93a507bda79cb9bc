"""`CALL sys.drop_kv_snapshot_lease`: releases everything that a lease holds."""

from __future__ import annotations

from dataclasses import dataclass

from tiering.coordinator.calls.effects import CallParts, Pool, effect
from tiering.coordinator.calls.kv_snapshots.leases import LeaseRequest, change_lease, lease_by_id
from tiering.model.call_results import LeaseResult


@dataclass(frozen=True)
class DropLease(LeaseRequest):
    """Arguments of the call (docs/reference.md)."""

    procedure = "drop_kv_snapshot_lease"


@effect(DropLease, pool=Pool.LEASE)
def drop_kv_snapshot_lease(parts: CallParts, request: DropLease) -> LeaseResult:
    """Drops the lease. Raises UnknownLease, InvalidArgument, ClusterUnavailable."""
    return change_lease(parts, request, lambda: _drop(parts, request))


def _drop(parts: CallParts, request: DropLease) -> LeaseResult:
    lease = lease_by_id(parts, request.lease_id)
    if not request.dry_run:
        parts.cluster.drop_lease(lease.lease_id)
    return LeaseResult(lease.lease_id, "DROPPED", len(lease.snapshots), 0, None)
