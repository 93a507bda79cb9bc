"""Buckets and offsets as messages, and back: one way for every service."""

from __future__ import annotations

from collections.abc import Iterable

from tiering.model.tables import BucketKey, Offsets
from tiering.rpc.v1.common_pb2 import PbBucket, PbBucketOffset


def bucket_to_pb(bucket: BucketKey) -> PbBucket:
    """An absent partition id stays absent."""
    return PbBucket(partition_id=bucket.partition_id, bucket_id=bucket.bucket_id)


def bucket_from_pb(pb: PbBucket) -> BucketKey:
    """The inverse."""
    return BucketKey(pb.partition_id if pb.HasField("partition_id") else None, pb.bucket_id)


def offsets_to_pb(offsets: Offsets) -> list[PbBucketOffset]:
    """In bucket order, so that the same offsets are the same bytes."""
    return [PbBucketOffset(bucket=bucket_to_pb(bucket), offset=offsets[bucket]) for bucket in sorted(offsets, key=BucketKey.sort_key)]


def offsets_from_pb(pbs: Iterable[PbBucketOffset]) -> dict[BucketKey, int]:
    """The inverse."""
    return {bucket_from_pb(pb.bucket): pb.offset for pb in pbs}
