"""Common parts of the four calls about leases: their answer, their order, their event (docs/reference.md).

The cluster stores the leases, so the effect exists before the operation's row is stored. Each call is idempotent: if the coordinator dies
between the two, a repeat does the same again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from tiering.access.acting_for import kept_name
from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.call_support.record_change import call_event
from tiering.counts import counted
from tiering.errors import InvalidArgument, UnknownLease
from tiering.model.leases import KvSnapshotLease
from tiering.model.tables import TableInfo, TablePath, TableType
from tiering.procedures.base import LeaseResult, Mutation

LEASES = "leases"
"""The name of the turn in which calls about leases run one at a time."""

LeaseT = TypeVar("LeaseT", bound=LeaseResult)


def change_lease(parts: CallParts, request: Mutation[LeaseT], change: Callable[[], LeaseT], *, path: TablePath | None = None) -> LeaseT:
    """Runs `change` once per idempotency key, and adds an event, about the table if there is one. A dry run adds nothing.

    `change` itself checks `request.dry_run`. Raises its errors, and InvalidArgument for a key that names another call.
    """

    def work() -> LeaseT:
        result = change()
        if not request.dry_run:
            with parts.table_records.changing():
                message = f"lease {result.lease_id}: {counted(result.buckets, 'bucket')}, {result.state}"
                details = {"lease_id": result.lease_id, "unavailable": result.unavailable}
                event = call_event(parts, request, request.procedure.upper(), message, details, path=path)
                parts.table_records.put(operations=parts.operations.done(request, None, result), events=[event])
        return result

    return parts.operations.in_turn(LEASES, request, work)


def lease_by_id(parts: CallParts, lease_id: str) -> KvSnapshotLease:
    """Returns the caller's own lease with this name, or else the lease stored under exactly this id. Raises UnknownLease."""
    leases = _by_id(parts)
    lease = leases.get(kept_name(lease_id)) or leases.get(lease_id)
    if lease is None:
        raise UnknownLease(f"there is no lease {lease_id!r}", hint="See sys.kv_snapshot_leases; it may have expired.")
    return lease


def lease_result(
    result_class: type[LeaseT], parts: CallParts, lease_id: str, buckets: int, unavailable: int = 0, missing_state: str = "EXPIRED"
) -> LeaseT:
    """Returns the present state of the lease, or `missing_state` if the lease no longer exists."""
    lease = _by_id(parts).get(lease_id)
    if lease is None:
        return result_class(lease_id, missing_state, buckets, unavailable, None)
    return result_class(lease_id, lease.state(parts.table_records.now().wall), buckets, unavailable, lease.expires_at)


def primary_key_table(parts: CallParts, path: TablePath) -> TableInfo:
    """Returns the table. Raises UnknownTable, UnknownDatabase, InvalidArgument for a log table."""
    table = parts.cluster.table(path)
    if table.table_type is not TableType.PRIMARY_KEY:
        raise InvalidArgument(f"{path} is a log table: only primary-key tables have KV snapshots", table_path=path)
    return table


def _by_id(parts: CallParts) -> Mapping[str, KvSnapshotLease]:
    return {lease.lease_id: lease for lease in parts.cluster.leases()}
