"""Reads the log ends of many tables: ListOffsets, two requests for all buckets of a table or partition that one server leads.

A request of Fluss covers one table or partition, and one end of the log. So the requests for both ends, several tables, partitions or
servers are sent concurrently.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tiering.cluster.fluss.log.batches import BatchHeader, read_header
from tiering.cluster.fluss.log.bucket_log import EARLIEST, LATEST, BucketLog, offsets_request
from tiering.cluster.fluss.log.fetch import remote_log, segment_gone
from tiering.cluster.fluss.log.headers import HeaderResponse, header_answers
from tiering.cluster.fluss.log.remote_segments import RemoteSegmentMissing, remote_header
from tiering.cluster.fluss.settings import ServerAddress
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.cluster.fluss.wire.errors import error_of
from tiering.errors import ClusterUnavailable, LakewardError, LogTruncated, UnknownPartition, UnknownTable
from tiering.instants import from_milliseconds
from tiering.model.tables import BucketKey, BucketOffsets, Offsets, Partition, TableBucket, TableInfo, TablePath, bucket_keys_of

THREADS = 16
"""Maximum number of concurrent requests: they wait for servers, and share one connection for each server."""
ATTEMPTS = 2
"""A bucket whose leader has moved is requested once more, from its new leader."""


@dataclass(frozen=True)
class _OffsetRequest:
    """A request for one end of the logs of those buckets of a table or partition that one server leads."""

    path: TablePath
    table_id: int
    partition_id: int | None
    server: ServerAddress
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
        missing = {
            TableBucket(table.table_id, bucket): table.path for table, partitions in tables for bucket in bucket_keys_of(table, partitions)
        }
        ends: dict[tuple[TableBucket, int], int] = {}
        dropped: set[tuple[int, int | None]] = set()
        errors: dict[int, LakewardError] = {}
        for _ in range(ATTEMPTS):
            errors = {}
            questions = self._questions(missing, dropped, errors)
            for question, answers in zip(questions, self._pool.map(self._ask, questions), strict=True):
                for bucket_id, answer in answers.items():
                    bucket = BucketKey(question.partition_id, bucket_id)
                    if isinstance(answer, LakewardError):
                        errors[question.table_id] = self._error_of(question, bucket, answer)
                    else:
                        ends[TableBucket(question.table_id, bucket), question.offset_type] = answer
            if not errors:
                break
            missing = {place: path for place, path in missing.items() if not {(place, EARLIEST), (place, LATEST)} <= ends.keys()}
        return _whole(tables, ends, dropped, errors)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _questions(
        self, missing: Mapping[TableBucket, TablePath], dropped: set[tuple[int, int | None]], errors: dict[int, LakewardError]
    ) -> list[_OffsetRequest]:
        by_server: dict[tuple[TablePath, int, int | None, ServerAddress], list[int]] = defaultdict(list)
        for place, path in missing.items():
            table_id, partition_id = place.table_id, place.bucket.partition_id
            if (table_id, partition_id) in dropped or (table_id, None) in dropped:
                continue
            try:
                server = self._client.leader_of(path, table_id, place.bucket)
            except UnknownTable:
                dropped.add((table_id, None))
            except UnknownPartition:
                dropped.add((table_id, partition_id))
            except ClusterUnavailable as error:
                errors[table_id] = error
            else:
                by_server[path, table_id, partition_id, server].append(place.bucket.bucket_id)
        return [_OffsetRequest(*key, tuple(ids), offset_type) for key, ids in by_server.items() for offset_type in (EARLIEST, LATEST)]

    def _ask(self, question: _OffsetRequest) -> Mapping[int, int | LakewardError]:
        """Returns the requested end of each bucket's log, or the error that came instead."""
        routing = self._client.routing(question.table_id, question.partition_id)
        request = offsets_request(question.table_id, question.partition_id, question.bucket_ids, question.offset_type, routing)
        try:
            answers = self._client.call(question.server, request).buckets_resp
        except LakewardError as error:
            return dict.fromkeys(question.bucket_ids, error)
        return {answer.bucket_id: _end(question, answer) for answer in answers}

    def _error_of(self, question: _OffsetRequest, bucket: BucketKey, error: LakewardError) -> LakewardError:
        """Returns the error of a bucket whose leader may have moved, or which may not exist any more: the next attempt asks Fluss's
        coordinator.

        The statement of a single tablet server is no proof (fluss-facts H4): a living bucket that is treated as vanished would be tiered
        again from its start.
        """
        self._client.forget_leader(question.path, question.table_id, bucket)
        unproved = isinstance(error, UnknownTable | UnknownPartition)
        return ClusterUnavailable(error.message, **error.ids) if unproved else error


def _end(question: _OffsetRequest, answer: Any) -> int | LakewardError:
    bucket = BucketKey(question.partition_id, answer.bucket_id)
    return error_of(answer.error_code, f"{question.path} bucket {bucket}: {answer.error_message}") if answer.error_code else answer.offset


def _bounds(ends: Mapping[tuple[TableBucket, int], int], place: TableBucket) -> BucketOffsets:
    # Retention may move the start up to an end that was read before: then no record of that moment remains.
    return BucketOffsets(ends[place, EARLIEST], max(ends[place, EARLIEST], ends[place, LATEST]))


def _whole(
    tables: Sequence[tuple[TableInfo, Sequence[Partition]]],
    ends: Mapping[tuple[TableBucket, int], int],
    dropped: set[tuple[int, int | None]],
    errors: Mapping[int, LakewardError],
) -> Mapping[int, Mapping[BucketKey, BucketOffsets]]:
    """Returns the tables with all buckets of their remaining partitions."""
    offsets = {
        table.table_id: {
            bucket: _bounds(ends, TableBucket(table.table_id, bucket))
            for bucket in bucket_keys_of(table, partitions)
            if (table.table_id, bucket.partition_id) not in dropped
        }
        for table, partitions in tables
        if table.table_id not in errors and (table.table_id, None) not in dropped
    }
    if errors and not offsets:
        raise next(iter(errors.values()))
    return offsets


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
    return from_milliseconds(header.commit_ms)


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
