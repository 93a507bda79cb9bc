"""Leased KV snapshots as messages. Pure; for both sides of the lease calls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from tiering.model import TableBucket
from tiering.offsets_pb import bucket_from_pb, bucket_to_pb
from tiering.rpc.v1 import coordinator_pb2 as pb


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
