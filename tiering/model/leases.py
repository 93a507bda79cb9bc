"""KV snapshots, and the leases that keep them alive."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from tiering.model.tables import TableBucket

EXPIRING_SHARE = 0.1
"""A lease with less than this of its time left is about to expire."""


@dataclass(frozen=True)
class KvSnapshot:
    """A full copy of one primary-key bucket: the last row of each key in the records below `log_offset`."""

    snapshot_id: int
    log_offset: int


@dataclass(frozen=True)
class LeasedSnapshot:
    """One KV snapshot that a lease keeps alive. `available` = its files are still there; None = the cluster cannot tell."""

    table_bucket: TableBucket
    snapshot_id: int
    log_offset: int
    available: bool | None = True


@dataclass(frozen=True)
class KvSnapshotLease:
    """A claim that keeps KV snapshots alive until `expires_at`, unless it is renewed."""

    lease_id: str
    acquired_at: datetime
    renewed_at: datetime
    expires_at: datetime
    ttl_ms: int
    snapshots: Collection[LeasedSnapshot] = ()
    owner: str | None = None

    def state(self, now: datetime) -> str:
        """ACTIVE, EXPIRING or EXPIRED (not swept yet, and to be renewed still)."""
        left_ms = (self.expires_at - now).total_seconds() * 1_000
        if left_ms <= 0:
            return "EXPIRED"
        return "EXPIRING" if left_ms < self.ttl_ms * EXPIRING_SHARE else "ACTIVE"
