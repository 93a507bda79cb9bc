"""Reads commit times of records from headers of record batches."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from tiering.cluster.fluss.log.batches import BatchHeader, read_header
from tiering.cluster.fluss.log.bucket_log import BucketLog
from tiering.cluster.fluss.log.fetch import remote_log, segment_gone
from tiering.cluster.fluss.log.headers import HeaderAnswer, header_answers
from tiering.cluster.fluss.log.remote_segments import RemoteSegmentGone, remote_header
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.errors import ClusterUnavailable, LogTruncated
from tiering.model.tables import BucketKey, Offsets, TableInfo

_EPOCH = datetime.fromtimestamp(0, UTC)


def oldest_headers(
    client: FlussClient, table: TableInfo, offsets: Offsets, remote_properties: Mapping[str, str]
) -> Mapping[BucketKey, BatchHeader]:
    """Returns the header of the first record batch at or after each offset. A batch without records counts, because it has to be tiered
    over.

    Buckets without a leader, or without such a batch, are left out. Raises ClusterUnavailable if no server answers, UnknownTable,
    UnknownPartition.
    """
    headers: dict[BucketKey, BatchHeader] = {}
    error: ClusterUnavailable | None = None
    for answer in header_answers(client, table, offsets):
        try:
            header = header_of(client, table, answer, remote_properties)
        except ClusterUnavailable as unavailable:
            error = unavailable
        else:
            headers |= {} if header is None else {answer.bucket: header}
    if error is not None and not headers:
        raise error
    return headers


def commit_time(header: BatchHeader) -> datetime:
    """Returns when the records of a batch were written."""
    return _EPOCH + timedelta(milliseconds=header.commit_ms)


def header_of(client: FlussClient, table: TableInfo, answer: HeaderAnswer, properties: Mapping[str, str]) -> BatchHeader | None:
    """Returns the header that an answer refers to; None = there is no record at or after the offset, or it cannot be determined now."""
    if not answer.content.HasField("remote_log_fetch_info"):
        return read_header(answer.content.records, 0, answer.place, answer.offset)
    try:
        return remote_header(remote_log(answer.content.remote_log_fetch_info), answer.offset, answer.place, properties)
    except RemoteSegmentGone as error:
        reason = segment_gone(BucketLog(client, table.path, table.table_id, answer.bucket), error, answer.offset)
        if isinstance(reason, LogTruncated):
            return None
        raise reason from error
