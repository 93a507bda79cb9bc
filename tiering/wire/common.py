"""Messages that every service uses: table paths, buckets, offsets and times."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp

from tiering.model.tables import BucketKey, Offsets, TablePath
from tiering.rpc.v1.common_pb2 import PbBucket, PbBucketOffset, PbTablePath


def path_to_pb(path: TablePath) -> PbTablePath:
    """A table path as a message."""
    return PbTablePath(database_name=path.database_name, table_name=path.table_name)


def path_from_pb(pb: PbTablePath) -> TablePath:
    """The path, with its names unchecked: whoever receives a request checks them with `tiering.model.names.table_path`."""
    return TablePath(pb.database_name, pb.table_name)


def bucket_to_pb(bucket: BucketKey) -> PbBucket:
    """A bucket as a message; without a partition its id is absent."""
    return PbBucket(partition_id=bucket.partition_id, bucket_id=bucket.bucket_id)


def bucket_from_pb(pb: PbBucket) -> BucketKey:
    """The bucket that `bucket_to_pb` made the message of."""
    return BucketKey(pb.partition_id if pb.HasField("partition_id") else None, pb.bucket_id)


def offsets_to_pb(offsets: Offsets) -> list[PbBucketOffset]:
    """Offsets in bucket order, so that the same offsets are the same bytes."""
    return [PbBucketOffset(bucket=bucket_to_pb(bucket), offset=offsets[bucket]) for bucket in sorted(offsets, key=BucketKey.sort_key)]


def offsets_from_pb(pbs: Iterable[PbBucketOffset]) -> dict[BucketKey, int]:
    """The offsets that `offsets_to_pb` made the messages of."""
    return {bucket_from_pb(pb.bucket): pb.offset for pb in pbs}


def time_to_pb(time: datetime) -> Timestamp:
    """An aware datetime as a message, in whole microseconds."""
    message = Timestamp()
    message.FromDatetime(time)
    return message


def time_from_pb(pb: Timestamp) -> datetime:
    """The time in UTC. Raises ValueError or OverflowError for a year that Python has not."""
    return pb.ToDatetime(tzinfo=UTC)
