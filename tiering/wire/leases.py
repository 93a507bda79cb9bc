"""Leases on KV snapshots as messages: those that tierers acquire, and those that are listed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import groupby

from tiering.model.leases import KvSnapshotLease, LeasedSnapshot
from tiering.model.tables import TableBucket
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.rpc.v1.status_pb2 import PbKvSnapshotLease, PbLeasedKvSnapshot
from tiering.wire.common import bucket_from_pb, bucket_to_pb, time_from_pb, time_to_pb


def snapshots_to_pb(snapshots: Mapping[TableBucket, int]) -> list[pb.PbKvSnapshotLeaseForTable]:
    """Snapshot ids by bucket, grouped by table."""
    tables: dict[int, list[pb.PbKvSnapshotLeaseForBucket]] = defaultdict(list)
    for key, snapshot_id in snapshots.items():
        tables[key.table_id].append(pb.PbKvSnapshotLeaseForBucket(bucket=bucket_to_pb(key.bucket), snapshot_id=snapshot_id))
    return [pb.PbKvSnapshotLeaseForTable(table_id=table_id, bucket_snapshots=buckets) for table_id, buckets in tables.items()]


def snapshots_from_pb(tables: Iterable[pb.PbKvSnapshotLeaseForTable]) -> dict[TableBucket, int]:
    """The snapshot ids that `snapshots_to_pb` made the messages of."""
    return {
        TableBucket(table.table_id, bucket_from_pb(leased.bucket)): leased.snapshot_id
        for table in tables
        for leased in table.bucket_snapshots
    }


def buckets_to_pb(buckets: Collection[TableBucket]) -> list[pb.PbTableBucket]:
    """Buckets of any tables."""
    return [pb.PbTableBucket(table_id=key.table_id, bucket=bucket_to_pb(key.bucket)) for key in buckets]


def buckets_from_pb(messages: Iterable[pb.PbTableBucket]) -> list[TableBucket]:
    """The buckets that `buckets_to_pb` made the messages of."""
    return [TableBucket(message.table_id, bucket_from_pb(message.bucket)) for message in messages]


def parts(lease: KvSnapshotLease) -> list[KvSnapshotLease]:
    """The lease in parts of one snapshot each, as a listing pages it; a lease that holds nothing is one part."""
    return [replace(lease, snapshots=(snapshot,)) for snapshot in lease.snapshots] or [lease]


def joined(lease_parts: Iterable[KvSnapshotLease]) -> list[KvSnapshotLease]:
    """Leases made whole of their parts; parts of one lease follow each other."""
    leases = []
    for _, group in groupby(lease_parts, lambda part: part.lease_id):
        first, *rest = group
        leases.append(replace(first, snapshots=tuple(snapshot for part in (first, *rest) for snapshot in part.snapshots)))
    return leases


def lease_to_pb(lease: KvSnapshotLease) -> PbKvSnapshotLease:
    """The lease as it is listed; an owner that is None is absent."""
    return PbKvSnapshotLease(
        lease_id=lease.lease_id,
        owner=lease.owner,
        acquired_time=time_to_pb(lease.acquired_at),
        renewed_time=time_to_pb(lease.renewed_at),
        expires_time=time_to_pb(lease.expires_at),
        ttl_ms=lease.ttl_ms,
        snapshots=[leased_snapshot_to_pb(snapshot) for snapshot in lease.snapshots],
    )


def leases_from_pb(messages: Iterable[PbKvSnapshotLease]) -> list[KvSnapshotLease]:
    """The listed leases. Raises ValueError or OverflowError for a time that Python has not."""
    return [
        KvSnapshotLease(
            lease_id=message.lease_id,
            acquired_at=time_from_pb(message.acquired_time),
            renewed_at=time_from_pb(message.renewed_time),
            expires_at=time_from_pb(message.expires_time),
            ttl_ms=message.ttl_ms,
            snapshots=tuple(leased_snapshot_from_pb(snapshot) for snapshot in message.snapshots),
            owner=message.owner if message.HasField("owner") else None,
        )
        for message in messages
    ]


def leased_snapshot_to_pb(snapshot: LeasedSnapshot) -> PbLeasedKvSnapshot:
    """A snapshot that a listed lease keeps alive."""
    return PbLeasedKvSnapshot(
        table_id=snapshot.table_bucket.table_id,
        bucket=bucket_to_pb(snapshot.table_bucket.bucket),
        snapshot_id=snapshot.snapshot_id,
        log_offset=snapshot.log_offset,
        available=snapshot.available,
    )


def leased_snapshot_from_pb(message: PbLeasedKvSnapshot) -> LeasedSnapshot:
    """The snapshot that `leased_snapshot_to_pb` made the message of."""
    key = TableBucket(message.table_id, bucket_from_pb(message.bucket))
    available = message.available if message.HasField("available") else None
    return LeasedSnapshot(key, message.snapshot_id, message.log_offset, available)
