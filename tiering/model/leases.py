"""KV snapshots, and the leases that keep them alive."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from tiering.model.tables import TableBucket


@dataclass(frozen=True)
class KvSnapshot:
    """A full copy of one primary-key bucket: the last row of each key in the records below `log_offset`."""

    snapshot_id: int
    log_offset: int


@dataclass(frozen=True)
class LeasedSnapshot:
    """One KV snapshot that a lease keeps alive. `available` = its files are still there."""

    table_bucket: TableBucket
    snapshot_id: int
    log_offset: int
    available: bool = True


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
