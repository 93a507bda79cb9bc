"""KV snapshots, and the leases that keep their files."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby

from tiering.model.tables import TableBucket

EXPIRING_SHARE = 0.1
"""Part of a lease's duration. A lease with less time left than this is EXPIRING."""


@dataclass(frozen=True)
class KvSnapshot:
    """A full copy of one primary-key bucket: the last row of each key, from the log records below `log_offset`."""

    snapshot_id: int
    log_offset: int


@dataclass(frozen=True)
class LeasedSnapshot:
    """One KV snapshot that a lease keeps. `available` tells whether its files still exist; None = the cluster cannot tell."""

    table_bucket: TableBucket
    snapshot_id: int
    log_offset: int
    available: bool | None = True


@dataclass(frozen=True)
class KvSnapshotLease:
    """A claim that keeps the files of KV snapshots until `expires_at`. A renewal moves `expires_at`. Durations are in milliseconds."""

    lease_id: str
    acquired_at: datetime
    renewed_at: datetime
    expires_at: datetime
    ttl_ms: int
    snapshots: Collection[LeasedSnapshot] = ()
    owner: str | None = None

    def state(self, now: datetime) -> str:
        """Returns ACTIVE, EXPIRING or EXPIRED. An EXPIRED lease is not removed yet, and can still be renewed."""
        left_ms = (self.expires_at - now).total_seconds() * 1_000
        if left_ms <= 0:
            return "EXPIRED"
        return "EXPIRING" if left_ms < self.ttl_ms * EXPIRING_SHARE else "ACTIVE"

    def parts(self) -> list[KvSnapshotLease]:
        """Returns the lease in parts of one snapshot each, for the pages of a listing. A lease without snapshots is one part."""
        return [replace(self, snapshots=(snapshot,)) for snapshot in self.snapshots] or [self]


def join_parts(parts: Iterable[KvSnapshotLease]) -> list[KvSnapshotLease]:
    """Returns whole leases. The parts of one lease follow each other."""
    leases = []
    for _, group in groupby(parts, lambda part: part.lease_id):
        lease_parts = list(group)
        leases.append(replace(lease_parts[0], snapshots=tuple(snapshot for part in lease_parts for snapshot in part.snapshots)))
    return leases
