"""Fetches headers of record batches from the leaders of their buckets, with one small call for each tablet server.

A server sends at most one header's bytes of each bucket. Only for the first bucket with records it sends a complete record batch, since
Fluss applies the limits from the second bucket on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tiering.cluster.fluss.log.batches import MAX_HEADER_BYTES, LogPlace
from tiering.cluster.fluss.log.bucket_log import add_bucket, fetch_request
from tiering.cluster.fluss.settings import ServerAddress
from tiering.cluster.fluss.wire.api import bucket_of
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.cluster.fluss.wire.errors import AUTHORIZATION, error_of
from tiering.errors import ClusterUnavailable
from tiering.model.tables import BucketKey, Offsets, TableInfo

_HEADER_FETCH_BYTES = MAX_HEADER_BYTES + 12
"""A little more than a header, because a server ignores a limit that is smaller than a header."""
_ANSWER_BYTES = 2**31 - 1
"""Limit for all buckets together, so that the record batch of the first leaves room for the headers of the others."""


@dataclass(frozen=True)
class HeaderResponse:
    """A server's answer for a bucket at an offset: `content` is a PbFetchLogRespForBucket without an error, `place` is its origin."""

    bucket: BucketKey
    offset: int
    content: Any
    place: LogPlace


def header_answers(client: FlussClient, table: TableInfo, offsets: Offsets) -> Iterator[HeaderResponse]:
    """Yields the leaders' answers for the batches at these offsets. Buckets without a leader, or with an error, are left out.

    Raises ClusterUnavailable if no server answers, ClusterAccessDenied if none may read the table for this user, UnknownTable,
    UnknownPartition.
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


def _ask(client: FlussClient, server: ServerAddress, table: TableInfo, offsets: Offsets) -> list[HeaderResponse]:
    request = fetch_request(_ANSWER_BYTES, max_wait_ms=0)
    for bucket, offset in offsets.items():
        routing = client.routing(table.table_id, bucket.partition_id)
        add_bucket(request, table.table_id, bucket, offset, _HEADER_FETCH_BYTES, routing)
    answers = []
    for of_table in client.call(server, request).tables_resp:
        for content in of_table.buckets_resp:
            bucket = bucket_of(content)
            if content.error_code == AUTHORIZATION:
                raise error_of(content.error_code, content.error_message, table_id=table.table_id, bucket=bucket)
            if content.error_code:
                client.forget_leader(table.path, table.table_id, bucket)
            else:
                answers.append(HeaderResponse(bucket, offsets[bucket], content, LogPlace(table.path, bucket, str(server))))
    return answers
