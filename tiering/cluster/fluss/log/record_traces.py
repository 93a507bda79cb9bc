"""Traces of records: a hash that distinguishes a record from any other at its offset, made from the header of its record batch.

Fluss 0.9.1 may lose the end of a log whose bucket has no replicas when its tablet server is killed, and reuses the offsets. A record batch
never changes, wherever it is copied: its first offset, its commit time and its checksum identify it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from hashlib import blake2b

import structlog

from tiering.cluster.fluss.log.batches import BatchHeader
from tiering.cluster.fluss.log.headers import header_answers
from tiering.cluster.fluss.log.timestamps import header_of
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.errors import ClusterUnavailable, DataCorrupt, SetupError, UnsupportedLogVersion
from tiering.model.tables import BucketKey, Offsets, TableInfo

_log = structlog.get_logger(__name__)

_BYTES = 8
"""Size of a trace; every marker has one for each bucket."""


def record_traces(client: FlussClient, table: TableInfo, offsets: Offsets, remote_properties: Mapping[str, str]) -> Mapping[BucketKey, str]:
    """Returns the traces of records, with one call for each tablet server that reads headers of record batches. Implements
    `RewritableLogs.record_traces`.
    """
    traces: dict[BucketKey, str] = {}
    answered: set[BucketKey] = set()
    for answer in header_answers(client, table, {bucket: offset - 1 for bucket, offset in offsets.items()}):
        answered.add(answer.bucket)
        try:
            header = header_of(client, table, answer, remote_properties)
        except (ClusterUnavailable, DataCorrupt, SetupError, UnsupportedLogVersion) as error:
            # A segment of tiered records that is damaged, unreadable or unreachable must not stop a round, because no round reads it any
            # more.
            _log.debug("a record's trace cannot be read", table=str(table.path), bucket=str(answer.bucket), error=error.message)
            continue
        if header is not None and header.starting_offset <= answer.offset < header.stopping_offset:
            traces[answer.bucket] = _trace(header)
    for bucket in set(offsets) - answered:
        raise ClusterUnavailable(
            f"no server returns the records of bucket {bucket} of {table.path} now",
            hint="The bucket gets a leader when a tablet server with one of its replicas runs.",
            table_id=table.table_id,
            bucket=bucket,
        )
    return traces


def _trace(header: BatchHeader) -> str:
    return blake2b(struct.pack("<qqI", header.starting_offset, header.commit_ms, header.crc), digest_size=_BYTES).hexdigest()
