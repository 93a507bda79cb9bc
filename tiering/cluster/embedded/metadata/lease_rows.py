"""Leases on KV snapshots in the metadata: claims with an expiry that keep snapshots alive. The functions use one connection.

As in Fluss, acquiring again with the same lease id adds, replaces and renews. Unlike in Fluss, a snapshot that does not exist cannot be
leased. An expired lease keeps its snapshots until the next sweep, and may be renewed until then. Its times are steady ones (`SteadyTime`):
setting the clock while the cluster runs neither ends nor prolongs a lease. Times that another process stored are adjusted at the start
(`rebase`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta

import sqlalchemy as sa

from tiering.clock import Clock
from tiering.cluster.embedded.kv.snapshot_files import StoredSnapshot
from tiering.cluster.embedded.metadata.database import bucket_columns, bucket_key, kv_snapshots, leased_snapshots, leases
from tiering.cluster.embedded.metadata.snapshot_rows import find_snapshots, stored_snapshot
from tiering.cluster.lease_rules import MAX_OWNER_LENGTH, check_room
from tiering.errors import UnknownLease
from tiering.instants import from_microseconds, to_microseconds
from tiering.model.leases import KvSnapshotLease, LeasedSnapshot
from tiering.model.tables import TableBucket

FilesExist = Callable[[StoredSnapshot], bool]


def acquire(
    connection: sa.Connection,
    lease_id: str,
    ttl_ms: int,
    snapshots: Mapping[TableBucket, int],
    owner: str | None,
    now: datetime,
    *,
    only_renews: bool,
) -> list[TableBucket]:
    """Leases snapshots, a few hundred at a time, and returns the buckets whose snapshot does not exist. The caller checks beforehand
    whether the files exist, because it holds the metadata's only write lock here. An existing lease is renewed in any case.

    Raises UnknownLease if `only_renews` is set and the lease does not exist.
    """
    present = find_snapshots(connection, snapshots)
    renewal = {"renewed_us": to_microseconds(now), "ttl_ms": ttl_ms} | ({} if owner is None else {"owner": owner[:MAX_OWNER_LENGTH]})
    exists = connection.execute(sa.update(leases).where(leases.c.lease_id == lease_id).values(renewal)).rowcount > 0
    if not exists and only_renews:
        raise UnknownLease(f"there is no lease {lease_id!r} to renew", hint="It may have expired: acquire the snapshots again.")
    if not exists and present:
        check_room(connection.scalar(sa.select(sa.func.count()).select_from(leases)) or 0)
        connection.execute(sa.insert(leases).values(lease_id=lease_id, acquired_us=to_microseconds(now), **renewal))
    if present:
        connection.execute(_HOLD, [_place(lease_id, table_bucket) | {"snapshot_id": snapshots[table_bucket]} for table_bucket in present])
    return [table_bucket for table_bucket in snapshots if table_bucket not in present]


def leased_buckets(connection: sa.Connection, lease_id: str) -> set[TableBucket]:
    """Returns the buckets of which a lease holds a snapshot."""
    columns = leased_snapshots.c
    rows = connection.execute(sa.select(columns.table_id, columns.partition_id, columns.bucket_id).where(columns.lease_id == lease_id))
    return {TableBucket(table_id, bucket_key(partition_id, bucket_id)) for table_id, partition_id, bucket_id in rows}


def release(connection: sa.Connection, lease_id: str, table_buckets: Collection[TableBucket]) -> None:
    """Releases some buckets, a few hundred at a time. The caller has to call `end_empty` afterwards."""
    places = ({f"of_{name}": value for name, value in _place(lease_id, bucket).items()} for bucket in table_buckets)
    connection.execute(_LET_GO, [*places])


def _place(lease_id: str, table_bucket: TableBucket) -> dict[str, str | int]:
    return {"lease_id": lease_id, **bucket_columns(table_bucket.table_id, table_bucket.bucket)}


_HOLD = sa.insert(leased_snapshots).prefix_with("OR REPLACE")
"""Adds a snapshot to a lease, and replaces an older one of the same bucket."""

_LET_GO = sa.delete(leased_snapshots).where(
    *(leased_snapshots.c[name] == sa.bindparam(f"of_{name}") for name in ("lease_id", "table_id", "partition_id", "bucket_id"))
)


def drop(connection: sa.Connection, lease_id: str) -> bool:
    """Deletes a lease; returns False if it does not exist. Implements `KvSnapshotLeases.drop_lease`."""
    return connection.execute(sa.delete(leases).where(leases.c.lease_id == lease_id)).rowcount > 0


def end_empty(connection: sa.Connection) -> None:
    """Deletes leases that have no snapshot any more."""
    connection.execute(sa.delete(leases).where(leases.c.lease_id.not_in(sa.select(leased_snapshots.c.lease_id))))


def end_expired(connection: sa.Connection, now: datetime) -> None:
    """Deletes leases that were not renewed in time."""
    connection.execute(sa.delete(leases).where(leases.c.renewed_us + leases.c.ttl_ms * 1_000 <= to_microseconds(now)))


def rebase(connection: sa.Connection, now: datetime) -> None:
    """Adjusts leases after a start, when the clock may have changed: none lasts longer than a new one, and each keeps at least half of its
    duration.

    Owners renew after a third of the duration. So the owner of a living lease renews it before its snapshots are removed, however far the
    clock was set ahead.
    """
    now_us = to_microseconds(now)
    earliest = now_us - leases.c.ttl_ms * 500
    within = sa.case((leases.c.renewed_us > now_us, now_us), (leases.c.renewed_us < earliest, earliest), else_=leases.c.renewed_us)
    connection.execute(sa.update(leases).values(renewed_us=within))


def list_leases(connection: sa.Connection, files_exist: FilesExist) -> Sequence[KvSnapshotLease]:
    """Returns all leases with their snapshots. Implements `LeaseListing.leases`."""
    snapshots_by_lease: dict[str, list[LeasedSnapshot]] = {}
    same_bucket = [leased_snapshots.c[name] == kv_snapshots.c[name] for name in ("snapshot_id", "table_id", "partition_id", "bucket_id")]
    query = sa.select(leased_snapshots.c.lease_id, kv_snapshots).join(kv_snapshots, sa.and_(*same_bucket))
    place = (leased_snapshots.c.table_id, leased_snapshots.c.partition_id, leased_snapshots.c.bucket_id)
    for row in connection.execute(query.order_by(*place)):
        table_bucket, snapshot = TableBucket(row.table_id, bucket_key(row.partition_id, row.bucket_id)), stored_snapshot(row)
        leased = LeasedSnapshot(table_bucket, snapshot.snapshot_id, snapshot.log_offset, files_exist(snapshot))
        snapshots_by_lease.setdefault(row.lease_id, []).append(leased)
    return [
        KvSnapshotLease(
            lease_id=row.lease_id,
            acquired_at=from_microseconds(row.acquired_us),
            renewed_at=from_microseconds(row.renewed_us),
            expires_at=from_microseconds(row.renewed_us) + timedelta(milliseconds=row.ttl_ms),
            ttl_ms=row.ttl_ms,
            snapshots=tuple(snapshots_by_lease.get(row.lease_id, ())),
            owner=row.owner,
        )
        for row in connection.execute(sa.select(leases).order_by(leases.c.lease_id))
    ]


class SteadyTime:
    """The wall time at the start plus the monotonic time since then, for durations that must not depend on clock changes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall_at_start = clock.now()
        self._monotonic_at_start = clock.monotonic_ms()

    def now(self) -> datetime:
        """Returns the present steady time."""
        return self._wall_at_start + timedelta(milliseconds=self._clock.monotonic_ms() - self._monotonic_at_start)
