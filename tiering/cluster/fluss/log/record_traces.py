"""What tells a record of a bucket's log from any other that ever stands at its offset: the header of the record batch that has it.

Fluss 0.9.1 may lose the end of a log whose bucket has no replicas when its tablet server is killed, and uses the offsets again. A
record batch never changes, wherever it is copied to: where it begins, when its leader took it and its checksum name it.
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
"""Of a trace: it stands in every marker, once a bucket."""


def record_traces(client: FlussClient, table: TableInfo, offsets: Offsets, remote_properties: Mapping[str, str]) -> Mapping[BucketKey, str]:
    """As `RewritableLogs.record_traces`. A fetch a tablet server, of record batches' headers."""
    traces: dict[BucketKey, str] = {}
    answered: set[BucketKey] = set()
    for answer in header_answers(client, table, {bucket: offset - 1 for bucket, offset in offsets.items()}):
        answered.add(answer.bucket)
        try:
            header = header_of(client, table, answer, remote_properties)
        except (ClusterUnavailable, DataCorrupt, SetupError, UnsupportedLogVersion) as error:
            # A segment of tiered records that is damaged, unreadable or out of reach stops no round: none reads it any more.
            _log.debug("a record's trace cannot be read", table=str(table.path), bucket=str(answer.bucket), error=error.message)
            continue
        if header is not None and header.starting_offset <= answer.offset < header.stopping_offset:
            traces[answer.bucket] = _trace(header)
    for bucket in set(offsets) - answered:
        raise ClusterUnavailable(
            f"no server shows the records of bucket {bucket} of {table.path} now",
            hint="It gets a leader when a tablet server with a replica of it is up.",
            table_id=table.table_id,
            bucket=bucket,
        )
    return traces


def _trace(header: BatchHeader) -> str:
    return blake2b(struct.pack("<qqI", header.starting_offset, header.commit_ms, header.crc), digest_size=_BYTES).hexdigest()
