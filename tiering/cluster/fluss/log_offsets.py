"""Reads the log ends of many tables: ListOffsets, one request for all buckets of a table or partition that one server leads.

A request of Fluss covers one table or partition, and one end of the log; so the requests are sent concurrently.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tiering.cluster.fluss.log.batches import BatchHeader, read_header
from tiering.cluster.fluss.log.bucket_log import BucketLog
from tiering.cluster.fluss.log.fetch import remote_log, segment_gone
from tiering.cluster.fluss.log.headers import HeaderResponse, header_answers
from tiering.cluster.fluss.log.remote_segments import RemoteSegmentMissing, remote_header
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.cluster.fluss.wire.errors import error_of
from tiering.errors import ClusterUnavailable, LakewardError, LogTruncated, UnknownPartition, UnknownTable
from tiering.model.tables import BucketKey, BucketOffsets, Offsets, Partition, TableInfo
from tiering.rpc.fluss import fluss_pb2 as fluss

EARLIEST, LATEST = 0, 1
"""`offset_type` of ListOffsets."""
CLIENT = -1
"""`follower_server_id` of a caller that is not a replica."""
THREADS = 16
"""Maximum number of concurrent requests: they wait for servers, and share one connection for each server."""
ATTEMPTS = 2
"""A bucket whose leader has moved is requested once more, from its new leader."""


@dataclass(frozen=True)
class _OffsetRequest:
    """A request for one end of the logs of the buckets that one server leads."""

    table: TableInfo
    partition_id: int | None
    server: Any
    bucket_ids: tuple[int, ...]
    offset_type: int


class FlussLogOffsets:
    """Reads offsets. Safe to use from several threads."""

    def __init__(self, client: FlussClient) -> None:
        self._client = client
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="fluss-offsets")

    def of(self, tables: Sequence[tuple[TableInfo, Sequence[Partition]]]) -> Mapping[int, Mapping[BucketKey, BucketOffsets]]:
        """Returns start and end of every bucket's log, by table id; a table with a bucket that does not answer is left out.

        Partitions that vanish in the meantime are left out of their table. Raises ClusterUnavailable if no table's log answers.
        """
        buckets_by_table = {table.table_id: _buckets(table, partitions) for table, partitions in tables}
        infos = {table.table_id: table for table, _ in tables}
        ends: dict[tuple[int, BucketKey, int], int] = {}
        gone: set[tuple[int, int | None]] = set()
        errors: dict[int, LakewardError] = {}
        for _ in range(ATTEMPTS):
            missing = {
                table_id: [
                    bucket for bucket in buckets if (table_id, bucket, LATEST) not in ends or (table_id, bucket, EARLIEST) not in ends
                ]
                for table_id, buckets in buckets_by_table.items()
            }
            errors = {}
            questions = self._questions(infos, missing, gone, errors)
            for question, answer in zip(questions, self._pool.map(self._ask, questions), strict=True):
                self._take(question, answer, ends, errors)
            if not errors:
                break
        return _whole(buckets_by_table, ends, gone, errors)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _questions(
        self,
        infos: Mapping[int, TableInfo],
        missing: Mapping[int, Sequence[BucketKey]],
        gone: set[tuple[int, int | None]],
        errors: dict[int, LakewardError],
    ) -> list[_OffsetRequest]:
        by_server: dict[tuple[int, int | None, Any], list[int]] = defaultdict(list)
        for table_id, buckets in missing.items():
            for bucket in buckets:
                if (table_id, bucket.partition_id) in gone or (table_id, None) in gone:
                    continue
                try:
                    server = self._client.leader_of(infos[table_id].path, table_id, bucket)
                except UnknownTable:
                    gone.add((table_id, None))
                except UnknownPartition:
                    gone.add((table_id, bucket.partition_id))
                except ClusterUnavailable as error:
                    errors[table_id] = error
                else:
                    by_server[table_id, bucket.partition_id, server].append(bucket.bucket_id)
        return [
            _OffsetRequest(infos[table_id], partition_id, server, tuple(bucket_ids), offset_type)
            for (table_id, partition_id, server), bucket_ids in by_server.items()
            for offset_type in (EARLIEST, LATEST)  # the start first: retention may move it up to an end that was read before
        ]

    def _ask(self, question: _OffsetRequest) -> Any:
        """Returns the answer, or the LakewardError that came instead."""
        request = fluss.ListOffsetsRequest(
            follower_server_id=CLIENT,
            offset_type=question.offset_type,
            table_id=question.table.table_id,
            partition_id=question.partition_id,
            bucket_id=question.bucket_ids,
        )
        try:
            return self._client.call(question.server, request)
        except LakewardError as error:
            return error

    def _take(
        self,
        question: _OffsetRequest,
        answer: Any,
        ends: dict[tuple[int, BucketKey, int], int],
        errors: dict[int, LakewardError],
    ) -> None:
        table = question.table
        if isinstance(answer, LakewardError):
            for bucket_id in question.bucket_ids:
                self._record_error(table, BucketKey(question.partition_id, bucket_id), answer, errors)
            return
        for of_bucket in answer.buckets_resp:
            bucket = BucketKey(question.partition_id, of_bucket.bucket_id)
            if of_bucket.HasField("error_code") and of_bucket.error_code:
                error = error_of(of_bucket.error_code, f"{table.path} bucket {bucket}: {of_bucket.error_message}")
                self._record_error(table, bucket, error, errors)
            else:
                ends[table.table_id, bucket, question.offset_type] = of_bucket.offset

    def _record_error(self, table: TableInfo, bucket: BucketKey, error: LakewardError, errors: dict[int, LakewardError]) -> None:
        """Records the error of a bucket whose leader may have moved, or which may not exist any more: the next attempt asks Fluss's
        coordinator.

        The statement of a single tablet server is no proof (fluss-facts H4): a living bucket that is treated as vanished would be tiered
        again from its start.
        """
        self._client.forget_leader(table.path, table.table_id, bucket)
        unproved = isinstance(error, UnknownTable | UnknownPartition)
        errors[table.table_id] = ClusterUnavailable(error.message, **error.ids) if unproved else error


def _buckets(table: TableInfo, partitions: Sequence[Partition]) -> list[BucketKey]:
    partition_ids = [partition.partition_id for partition in partitions] if table.partition_keys else [None]
    return [BucketKey(partition_id, bucket_id) for partition_id in partition_ids for bucket_id in range(table.bucket_count)]


def _whole(
    buckets_by_table: Mapping[int, Sequence[BucketKey]],
    ends: Mapping[tuple[int, BucketKey, int], int],
    gone: set[tuple[int, int | None]],
    errors: Mapping[int, LakewardError],
) -> Mapping[int, Mapping[BucketKey, BucketOffsets]]:
    """Returns the tables with all buckets of their remaining partitions."""
    offsets: dict[int, Mapping[BucketKey, BucketOffsets]] = {}
    for table_id, buckets in buckets_by_table.items():
        if table_id in errors or (table_id, None) in gone:
            continue
        offsets[table_id] = {
            # If the end was read before records came, and retention has moved the start since, the former records are gone and the log is
            # empty.
            bucket: BucketOffsets(ends[table_id, bucket, EARLIEST], max(ends[table_id, bucket, EARLIEST], ends[table_id, bucket, LATEST]))
            for bucket in buckets
            if (table_id, bucket.partition_id) not in gone
        }
    if errors and not offsets:
        raise next(iter(errors.values()))
    return offsets


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


def header_of(client: FlussClient, table: TableInfo, answer: HeaderResponse, properties: Mapping[str, str]) -> BatchHeader | None:
    """Returns the header that an answer refers to; None = there is no record at or after the offset, or it cannot be determined now."""
    if not answer.content.HasField("remote_log_fetch_info"):
        return read_header(answer.content.records, 0, answer.place, answer.offset)
    try:
        return remote_header(remote_log(answer.content.remote_log_fetch_info), answer.offset, answer.place, properties)
    except RemoteSegmentMissing as error:
        reason = segment_gone(BucketLog(client, table.path, table.table_id, answer.bucket), error, answer.offset)
        if isinstance(reason, LogTruncated):
            return None
        raise reason from error
