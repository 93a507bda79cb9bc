"""`CALL sys.acquire_kv_snapshot_lease`: keeps the newest KV snapshot of every bucket of a table alive."""

from __future__ import annotations

from dataclasses import dataclass

from tiering.access.acting_for import kept_name
from tiering.cluster.lease_rules import check_lease
from tiering.coordinator.calls.effects import CallParts, Pool, effect
from tiering.coordinator.calls.kv_snapshots.leases import LeaseRequest, change_lease, lease_result, primary_key_table
from tiering.errors import InvalidArgument
from tiering.model.call_results import LeaseResult
from tiering.model.tables import TableBucket, TablePath

DEFAULT_TTL_MS = 6 * 60 * 60 * 1_000
"""Default duration of a lease: six hours, as in Fluss, which is enough to read a table by hand."""


@dataclass(frozen=True)
class AcquireLease(LeaseRequest):
    """Arguments of the call (docs/reference.md). `ttl_ms` is the duration from now. `lease_id` names a lease of this caller only."""

    procedure = "acquire_kv_snapshot_lease"
    path: TablePath
    ttl_ms: int = DEFAULT_TTL_MS


@effect(AcquireLease, pool=Pool.LEASE)
def acquire_kv_snapshot_lease(parts: CallParts, request: AcquireLease) -> LeaseResult:
    """Acquires the lease. Raises InvalidArgument, UnknownTable, UnknownDatabase, ClusterUnavailable."""
    return change_lease(parts, request, lambda: _acquire(parts, request), path=request.path)


def _acquire(parts: CallParts, request: AcquireLease) -> LeaseResult:
    lease_id = kept_name(request.lease_id)
    check_lease(lease_id, request.ttl_ms)
    table = primary_key_table(parts, request.path)
    newest = parts.cluster.kv_snapshots(table)
    snapshots = {TableBucket(table.table_id, bucket): snapshot.snapshot_id for bucket, snapshot in newest.items()}
    if not snapshots:
        raise InvalidArgument(f"{request.path} has no KV snapshots", hint="The first ones come after the table's snapshot interval.")
    if request.dry_run:
        return LeaseResult(lease_id, "ACTIVE", len(snapshots), 0, None)
    unavailable = parts.cluster.acquire_lease(lease_id, request.ttl_ms, snapshots, request.caller)
    return lease_result(parts, lease_id, len(snapshots) - len(unavailable), len(unavailable))
