"""Leases on KV snapshots as messages. Pure; for both sides of the lease calls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from itertools import groupby

from tiering.model.leases import KvSnapshotLease, LeasedSnapshot
from tiering.model.tables import TableBucket
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.rpc.v1.status_pb2 import PbKvSnapshotLease, PbLeasedKvSnapshot
from tiering.wire.offsets import bucket_from_pb, bucket_to_pb


def snapshots_to_pb(snapshots: Mapping[TableBucket, int]) -> list[pb.PbKvSnapshotLeaseForTable]:
    """Snapshot ids by bucket, grouped by table."""
    tables: dict[int, list[pb.PbKvSnapshotLeaseForBucket]] = defaultdict(list)
    for one, snapshot_id in snapshots.items():
        tables[one.table_id].append(pb.PbKvSnapshotLeaseForBucket(bucket=bucket_to_pb(one.bucket), snapshot_id=snapshot_id))
    return [pb.PbKvSnapshotLeaseForTable(table_id=table_id, bucket_snapshots=buckets) for table_id, buckets in tables.items()]


def snapshots_from_pb(tables: Iterable[pb.PbKvSnapshotLeaseForTable]) -> dict[TableBucket, int]:
    """The inverse."""
    return {TableBucket(table.table_id, bucket_from_pb(one.bucket)): one.snapshot_id for table in tables for one in table.bucket_snapshots}


def buckets_to_pb(buckets: Collection[TableBucket]) -> list[pb.PbTableBucket]:
    """Buckets of any tables."""
    return [pb.PbTableBucket(table_id=one.table_id, bucket=bucket_to_pb(one.bucket)) for one in buckets]


def buckets_from_pb(buckets: Iterable[pb.PbTableBucket]) -> list[TableBucket]:
    """The inverse."""
    return [TableBucket(one.table_id, bucket_from_pb(one.bucket)) for one in buckets]


def parts(lease: KvSnapshotLease) -> list[KvSnapshotLease]:
    """The lease in parts of one snapshot each, as a listing pages it; a lease that holds nothing is one part."""
    return [replace(lease, snapshots=(one,)) for one in lease.snapshots] or [lease]


def joined(some: Iterable[KvSnapshotLease]) -> list[KvSnapshotLease]:
    """Leases whole again: parts of one lease follow each other."""
    found = []
    for _, group in groupby(some, lambda part: part.lease_id):
        first, *rest = group
        found.append(replace(first, snapshots=tuple(one for part in (first, *rest) for one in part.snapshots)))
    return found


def leases_to_pb(leases: Sequence[KvSnapshotLease]) -> list[PbKvSnapshotLease]:
    """None = the field is absent."""
    return [_lease_to_pb(lease) for lease in leases]


def _lease_to_pb(lease: KvSnapshotLease) -> PbKvSnapshotLease:
    message = PbKvSnapshotLease(lease_id=lease.lease_id, owner=lease.owner, ttl_ms=lease.ttl_ms)
    message.acquired_time.FromDatetime(lease.acquired_at)
    message.renewed_time.FromDatetime(lease.renewed_at)
    message.expires_time.FromDatetime(lease.expires_at)
    for one in lease.snapshots:
        place = one.table_bucket
        message.snapshots.append(
            PbLeasedKvSnapshot(
                table_id=place.table_id,
                bucket=bucket_to_pb(place.bucket),
                snapshot_id=one.snapshot_id,
                log_offset=one.log_offset,
                available=one.available,
            )
        )
    return message


def lease_from_pb(message: PbKvSnapshotLease) -> KvSnapshotLease:
    """The inverse."""
    return KvSnapshotLease(
        lease_id=message.lease_id,
        acquired_at=message.acquired_time.ToDatetime(tzinfo=UTC),
        renewed_at=message.renewed_time.ToDatetime(tzinfo=UTC),
        expires_at=message.expires_time.ToDatetime(tzinfo=UTC),
        ttl_ms=message.ttl_ms,
        snapshots=tuple(
            LeasedSnapshot(TableBucket(one.table_id, bucket_from_pb(one.bucket)), one.snapshot_id, one.log_offset, one.available)
            for one in message.snapshots
        ),
        owner=message.owner if message.HasField("owner") else None,
    )
