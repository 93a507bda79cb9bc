"""sys.kv_snapshot_leases: leases on KV snapshots, with owner and expiry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from sys_tables.declare.columns import row_from
from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import system_table
from tiering.access.requirements import DESCRIBE_EACH_TABLE, OPERATE_ON_SERVICE
from tiering.coordinator.interface import CoordinatorView
from tiering.model.declare import INT, column


@dataclass(frozen=True)
class KvSnapshotLeaseRow:
    """One lease."""

    lease_id: str = column("Identifier of the lease, chosen by its owner.")
    owner: str | None = column("Owner: a tierer or a caller; NULL if the caller gave none.")
    acquired_at: datetime = column("When the lease was first acquired.")
    renewed_at: datetime = column("When the lease was last acquired or renewed.")
    expires_at: datetime = column("When the server drops the lease unless it is renewed.")
    ttl_ms: int = column("Duration from a renewal, in milliseconds.")
    remaining_ms: int = column("Milliseconds until expires_at; 0 once expired.")
    tables: int = column("Number of tables with leased snapshots.", arrow_type=INT)
    buckets: int = column("Number of buckets with leased snapshots.", arrow_type=INT)
    state: str = column("ACTIVE; EXPIRING with less than a tenth of its time left; EXPIRED until the next clean-up.")


@system_table(
    "kv_snapshot_leases",
    KvSnapshotLeaseRow,
    requires=DESCRIBE_EACH_TABLE,
    requires_note="The numbers count only tables that the caller may describe.",
    further=((OPERATE_ON_SERVICE, "leases without a table that the caller may describe"),),
    comment="Live leases on KV snapshots.",
)
def rows(view: CoordinatorView, scan: ScanRequest) -> Iterator[KvSnapshotLeaseRow]:
    lease_id = scan.equals("lease_id")
    for lease in view.leases():
        if lease_id in (None, lease.lease_id):
            yield row_from(
                KvSnapshotLeaseRow,
                lease,
                remaining_ms=max(0, (lease.expires_at - view.now) // timedelta(milliseconds=1)),
                tables=len({snapshot.table_bucket.table_id for snapshot in lease.snapshots}),
                buckets=len(lease.snapshots),
                state=lease.state(view.now),
            )
