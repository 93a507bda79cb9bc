"""Headers of record batches, asked of the leaders of their buckets: a small fetch a tablet server.

A server answers with at most as many bytes of each bucket as a header has, but for the first that has any, of which it sends a whole
record batch (Fluss: the limits count from the second bucket on).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tiering.cluster.fluss.connection_options import ServerAddress
from tiering.cluster.fluss.log.batches import MAX_HEADER_BYTES, LogPlace
from tiering.cluster.fluss.log.bucket_log import add_bucket, fetch_request
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.errors import ClusterUnavailable
from tiering.model.tables import BucketKey, Offsets, TableInfo

_HEADER_FETCH_BYTES = MAX_HEADER_BYTES + 12
"""A little more: a server takes a limit of less than a header for nothing at all."""
_ANSWER_BYTES = 2**31 - 1
"""Of all buckets, so that the record batch of the first leaves room for the headers of the others."""


@dataclass(frozen=True)
class HeaderAnswer:
    """What a server said of a bucket at an offset: `content` is a PbFetchLogRespForBucket without an error, `place` where it is from."""

    bucket: BucketKey
    offset: int
    content: Any
    place: LogPlace


def header_answers(client: FlussClient, table: TableInfo, offsets: Offsets) -> Iterator[HeaderAnswer]:
    """Yields what the leaders say of the batches at these offsets. Buckets that nobody leads now, or that are refused, are left out.

    Raises ClusterUnavailable if no server answers, UnknownTable, UnknownPartition.
    """
    by_server: defaultdict[ServerAddress, dict[BucketKey, int]] = defaultdict(dict)
    for bucket, server in client.leaders_of(table.path, table.table_id, offsets).items():
        by_server[server][bucket] = offsets[bucket]
    error: ClusterUnavailable | None = None
    answered = False
    for server, offsets_there in by_server.items():
        try:
            answers = _ask(client, server, table, offsets_there)
        except ClusterUnavailable as unavailable:
            error = unavailable
            for bucket in offsets_there:
                client.forget_leader(table.path, table.table_id, bucket)
            continue
        answered = True
        yield from answers
    if error is not None and not answered:
        raise error


def _ask(client: FlussClient, server: ServerAddress, table: TableInfo, offsets: Offsets) -> list[HeaderAnswer]:
    request = fetch_request(_ANSWER_BYTES, max_wait_ms=0)
    for bucket, offset in offsets.items():
        add_bucket(request, table.table_id, bucket, offset, _HEADER_FETCH_BYTES)
    answers = []
    for of_table in client.call(server, request).tables_resp:
        for content in of_table.buckets_resp:
            bucket = BucketKey(content.partition_id if content.HasField("partition_id") else None, content.bucket_id)
            if content.error_code:
                client.forget_leader(table.path, table.table_id, bucket)
            else:
                answers.append(HeaderAnswer(bucket, offsets[bucket], content, LogPlace(table.path, bucket, str(server))))
    return answers
