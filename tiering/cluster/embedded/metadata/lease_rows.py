"""Leases on KV snapshots in the metadata: claims with an end that keep snapshots alive. Functions over one connection.

As in Fluss, acquiring again under the same id adds, moves and renews; unlike in Fluss, a snapshot that is gone cannot be leased. An
expired lease holds its snapshots until the next sweep, and may be renewed until then. Its times are steady ones (`SteadyTime`): setting
the clock while the cluster runs neither ends a lease nor prolongs it. Times that another process stored are adjusted at start (`rebase`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta

import sqlalchemy as sa

from tiering.cluster.embedded.kv.snapshot_files import StoredSnapshot
from tiering.cluster.embedded.metadata.database import NO_PARTITION, bucket_key, in_bucket, kv_snapshots, leased_snapshots, leases
from tiering.cluster.embedded.metadata.snapshot_rows import find_snapshot
from tiering.cluster.lease_rules import MAX_OWNER_LENGTH, check_lease, check_room
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
    files_exist: FilesExist,
) -> list[TableBucket]:
    """As `KvSnapshotLeases.acquire_lease`."""
    check_lease(lease_id, ttl_ms)
    here: list[TableBucket] = []
    unavailable: list[TableBucket] = []
    for table_bucket, snapshot_id in snapshots.items():
        snapshot = find_snapshot(connection, table_bucket.table_id, table_bucket.bucket, snapshot_id)
        (here if snapshot is not None and files_exist(snapshot) else unavailable).append(table_bucket)
    renewal = {"renewed_us": to_microseconds(now), "ttl_ms": ttl_ms} | ({} if owner is None else {"owner": owner[:MAX_OWNER_LENGTH]})
    known = connection.execute(sa.update(leases).where(leases.c.lease_id == lease_id).values(renewal)).rowcount > 0
    if not known and not snapshots:
        raise UnknownLease(f"there is no lease {lease_id!r} to renew", hint="It may have expired: acquire the snapshots again.")
    if not known and here:
        check_room(connection.scalar(sa.select(sa.func.count()).select_from(leases)) or 0)
        connection.execute(sa.insert(leases).values(lease_id=lease_id, acquired_us=to_microseconds(now), **renewal))
    for table_bucket in here:
        _hold(connection, lease_id, table_bucket, snapshots[table_bucket])
    return unavailable


def _hold(connection: sa.Connection, lease_id: str, table_bucket: TableBucket, snapshot_id: int) -> None:
    connection.execute(sa.delete(leased_snapshots).where(_held(lease_id, table_bucket)))
    bucket = table_bucket.bucket
    connection.execute(
        sa.insert(leased_snapshots).values(
            lease_id=lease_id,
            table_id=table_bucket.table_id,
            partition_id=NO_PARTITION if bucket.partition_id is None else bucket.partition_id,
            bucket_id=bucket.bucket_id,
            snapshot_id=snapshot_id,
        )
    )


def release(connection: sa.Connection, lease_id: str, table_buckets: Collection[TableBucket]) -> list[TableBucket]:
    """As `KvSnapshotLeases.release_lease`."""
    released = [
        table_bucket
        for table_bucket in table_buckets
        if connection.execute(sa.delete(leased_snapshots).where(_held(lease_id, table_bucket))).rowcount
    ]
    end_empty(connection)
    return released


def drop(connection: sa.Connection, lease_id: str) -> bool:
    """As `KvSnapshotLeases.drop_lease`."""
    return connection.execute(sa.delete(leases).where(leases.c.lease_id == lease_id)).rowcount > 0


def end_empty(connection: sa.Connection) -> None:
    """Deletes leases that hold no snapshot any more."""
    connection.execute(sa.delete(leases).where(leases.c.lease_id.not_in(sa.select(leased_snapshots.c.lease_id))))


def end_expired(connection: sa.Connection, now: datetime) -> None:
    """Deletes leases that were not renewed in time."""
    connection.execute(sa.delete(leases).where(leases.c.renewed_us + leases.c.ttl_ms * 1_000 <= to_microseconds(now)))


def rebase(connection: sa.Connection, now: datetime) -> None:
    """Adjusts leases after a start, which may have another clock: none lasts longer than one taken now, and each has at least half of its
    time.

    Owners renew at a third of the time: so the owner of a living lease is heard before its snapshots go, however far the clock was set
    ahead.
    """
    now_us = to_microseconds(now)
    earliest = now_us - leases.c.ttl_ms * 500
    within = sa.case((leases.c.renewed_us > now_us, now_us), (leases.c.renewed_us < earliest, earliest), else_=leases.c.renewed_us)
    connection.execute(sa.update(leases).values(renewed_us=within))


def list_leases(connection: sa.Connection, files_exist: FilesExist) -> Sequence[KvSnapshotLease]:
    """As `LeaseListing.leases`."""
    held: dict[str, list[LeasedSnapshot]] = {}
    query = sa.select(leased_snapshots).join(kv_snapshots, kv_snapshots.c.snapshot_id == leased_snapshots.c.snapshot_id)
    place = (leased_snapshots.c.table_id, leased_snapshots.c.partition_id, leased_snapshots.c.bucket_id)
    for row in connection.execute(query.order_by(*place)).all():
        bucket = bucket_key(row.partition_id, row.bucket_id)
        snapshot = find_snapshot(connection, row.table_id, bucket, row.snapshot_id)
        if snapshot is not None:
            leased = LeasedSnapshot(TableBucket(row.table_id, bucket), row.snapshot_id, snapshot.log_offset, files_exist(snapshot))
            held.setdefault(row.lease_id, []).append(leased)
    return [
        KvSnapshotLease(
            lease_id=row.lease_id,
            acquired_at=from_microseconds(row.acquired_us),
            renewed_at=from_microseconds(row.renewed_us),
            expires_at=from_microseconds(row.renewed_us) + timedelta(milliseconds=row.ttl_ms),
            ttl_ms=row.ttl_ms,
            snapshots=tuple(held.get(row.lease_id, ())),
            owner=row.owner,
        )
        for row in connection.execute(sa.select(leases).order_by(leases.c.lease_id))
    ]


def _held(lease_id: str, table_bucket: TableBucket) -> sa.ColumnElement[bool]:
    return (leased_snapshots.c.lease_id == lease_id) & in_bucket(leased_snapshots, table_bucket.table_id, table_bucket.bucket)
