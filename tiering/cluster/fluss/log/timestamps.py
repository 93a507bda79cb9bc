"""Commit times of the records behind offsets, read from headers of record batches: a small fetch a tablet server.

A server answers with at most as many bytes of each bucket as a header has, but for the first that has any, of which it sends a whole
record batch (Fluss: the limits count from the second bucket on).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tiering.cluster.fluss.connection_options import ServerAddress
from tiering.cluster.fluss.log.batches import MAX_HEADER_BYTES, BatchHeader, LogPlace, read_header
from tiering.cluster.fluss.log.bucket_log import BucketLog, add_bucket, fetch_request
from tiering.cluster.fluss.log.fetch import remote_log, segment_gone
from tiering.cluster.fluss.log.remote_segments import RemoteSegmentGone, remote_header
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.errors import ClusterUnavailable, LogTruncated
from tiering.model.tables import BucketKey, Offsets, TableInfo

_HEADER_FETCH_BYTES = MAX_HEADER_BYTES + 12
"""A little more: a server takes a limit of less than a header for nothing at all."""
_ANSWER_BYTES = 2**31 - 1
"""Of all buckets, so that the record batch of the first leaves room for the headers of the others."""
_EPOCH = datetime.fromtimestamp(0, UTC)


def oldest_timestamps(
    client: FlussClient, table: TableInfo, offsets: Offsets, remote_properties: Mapping[str, str]
) -> Mapping[BucketKey, datetime]:
    """Returns what `LogOffsets.oldest_timestamps` asks for; a record batch without records counts as well, since it has to be tiered over.

    Buckets that nobody leads now are left out. Raises ClusterUnavailable if no server answers, UnknownTable, UnknownPartition.
    """
    times: dict[BucketKey, datetime] = {}
    by_server: defaultdict[ServerAddress, dict[BucketKey, int]] = defaultdict(dict)
    for bucket, server in client.leaders_of(table.path, table.table_id, offsets).items():
        by_server[server][bucket] = offsets[bucket]
    error: ClusterUnavailable | None = None
    for server, offsets_there in by_server.items():
        try:
            for bucket, header in _headers(client, server, table, offsets_there, remote_properties):
                times[bucket] = _EPOCH + timedelta(milliseconds=header.commit_ms)
        except ClusterUnavailable as unavailable:
            error = unavailable
            for bucket in offsets_there:
                client.forget_leader(table.path, table.table_id, bucket)
    if error is not None and not times:
        raise error
    return times


def _headers(
    client: FlussClient, server: ServerAddress, table: TableInfo, offsets: Offsets, remote_properties: Mapping[str, str]
) -> Iterator[tuple[BucketKey, BatchHeader]]:
    request = fetch_request(_ANSWER_BYTES, max_wait_ms=0)
    for bucket, offset in offsets.items():
        add_bucket(request, table.table_id, bucket, offset, _HEADER_FETCH_BYTES)
    for of_table in client.call(server, request).tables_resp:
        for answer in of_table.buckets_resp:
            bucket = BucketKey(answer.partition_id if answer.HasField("partition_id") else None, answer.bucket_id)
            header = _header(client, table, bucket, offsets[bucket], answer, LogPlace(table.path, bucket, str(server)), remote_properties)
            if header is not None:
                yield bucket, header


def _header(
    client: FlussClient, table: TableInfo, bucket: BucketKey, offset: int, answer: Any, place: LogPlace, properties: Mapping[str, str]
) -> BatchHeader | None:
    """Returns the header that an answer tells of; None = there is no record at or after the offset, or it cannot be told now."""
    if answer.error_code:
        client.forget_leader(table.path, table.table_id, bucket)
        return None
    if not answer.HasField("remote_log_fetch_info"):
        return read_header(answer.records, 0, place, offset)
    try:
        return remote_header(remote_log(answer.remote_log_fetch_info), offset, place, properties)
    except RemoteSegmentGone as error:
        reason = segment_gone(BucketLog(client, table.path, table.table_id, bucket), error, offset)
        if isinstance(reason, LogTruncated):
            return None
        raise reason from error
