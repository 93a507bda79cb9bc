"""Reads one bucket's log from its present leader: FetchLog and ListOffsets, repeated while leaders move.

Both calls change nothing, so they are repeated until the patience is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tiering.cluster.fluss.settings import ServerAddress
from tiering.cluster.fluss.wire.api import path_to_pb
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.cluster.fluss.wire.errors import LOG_OFFSET_OUT_OF_RANGE, error_of
from tiering.errors import (
    ClusterAccessDenied,
    ClusterUnavailable,
    LakewardError,
    LogTruncated,
    SourceChanged,
    UnknownDatabase,
    UnknownPartition,
    UnknownTable,
)
from tiering.model.tables import BucketKey, BucketOffsets, TablePath
from tiering.rpc.fluss import fluss_pb2 as fluss

PATIENCE_S = 30.0
"""Longest time of a bucket without an answering leader. An election takes some seconds, the restart of a server more."""
_TRUNCATED_PATIENCE_S = 5.0
"""Time for which a log must start too late before the reader reports it. A new leader does not know its remote segments at first."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0
EARLIEST, LATEST = 0, 1
"""`offset_type` of ListOffsets."""
_CLIENT = -1
"""`follower_server_id` of a caller that is not a replica."""
_MAX_WAIT_MS = 500
"""Longest time that a server may hold a FetchLog without records."""

_Answer = TypeVar("_Answer")


class _RetryLater(Exception):
    """The answer may soon be different. `error` is raised if it is the same for `patience_s`."""

    def __init__(self, error: Exception, patience_s: float = PATIENCE_S) -> None:
        super().__init__(str(error))
        self.error = error
        self.patience_s = patience_s


@dataclass(frozen=True)
class BucketLog:
    """One bucket's log. Every call raises ClusterUnavailable once the patience is over, SourceChanged for a table or partition that does
    not exist any more, ClusterAccessDenied.
    """

    client: FlussClient
    table_path: TablePath
    table_id: int
    bucket: BucketKey
    patience_s: float = PATIENCE_S

    def fetch(self, offset: int, stop: int, max_bytes: int) -> tuple[str, Any]:
        """Returns records from `offset` on, or the remote segments that have them: the answering server, and its PbFetchLogRespForBucket.

        Raises LogTruncated if the log starts after `offset`, ClusterUnavailable if it stays shorter than `stop`.
        """

        def ask(server: ServerAddress) -> tuple[str, Any]:
            request = fetch_request(max_bytes)
            add_bucket(request, self.table_id, self.bucket, offset, max_bytes, self._routing())
            answer = self.client.call(server, request).tables_resp[0].buckets_resp[0]
            if answer.error_code not in (0, LOG_OFFSET_OUT_OF_RANGE):
                raise self._refusal(answer.error_code, answer.error_message)
            if answer.error_code or not (answer.records or answer.HasField("remote_log_fetch_info")):
                raise self._nothing_from(offset, stop, server)
            return str(server), answer

        return self._ask_leader(ask)

    def bounds(self) -> BucketOffsets:
        """Returns the present start and end of the log."""
        return self._ask_leader(self._bounds)

    def _bounds(self, server: ServerAddress) -> BucketOffsets:
        ends = []
        for offset_type in (EARLIEST, LATEST):
            request = offsets_request(self.table_id, self.bucket.partition_id, [self.bucket.bucket_id], offset_type, self._routing())
            (answer,) = self.client.call(server, request).buckets_resp
            if answer.error_code:
                raise self._refusal(answer.error_code, answer.error_message)
            ends.append(answer.offset)
        return BucketOffsets(*ends)

    def _routing(self) -> int | None:
        return self.client.routing(self.table_id, self.bucket.partition_id)

    def _nothing_from(self, offset: int, stop: int, server: ServerAddress) -> _RetryLater:
        """Returns why no records came, although no call failed."""
        bounds = self._bounds(server)
        log = f"the log of bucket {self.bucket} of {self.table_path}"
        ids: dict[str, Any] = {"table_id": self.table_id, "bucket": self.bucket}
        if offset < bounds.log_start:
            truncated = LogTruncated(f"{log} starts at offset {bounds.log_start}, after {offset}", **ids)
            return _RetryLater(truncated, _TRUNCATED_PATIENCE_S)
        if bounds.log_end < stop:
            return _RetryLater(ClusterUnavailable(f"{log} ends at offset {bounds.log_end}, before {stop}", **ids))
        missing = f"has no records at offset {offset}, although its bounds are [{bounds.log_start}, {bounds.log_end})"
        hint = "Check the log of the tablet server that leads the bucket, and restart it: a restarted leader reads its log again."
        return _RetryLater(ClusterUnavailable(f"{log} {missing}", hint=hint, **ids))

    def _check_table(self) -> None:
        """Raises SourceChanged if the table does not exist any more: servers give the same answer for a dropped table and for one that is
        not loaded yet.
        """
        try:
            table_id = self.client.coordinator(fluss.GetTableInfoRequest(table_path=path_to_pb(self.table_path))).table_id
        except ClusterUnavailable:
            return
        except (UnknownTable, UnknownDatabase) as refusal:
            raise self._dropped(refusal) from refusal
        if table_id != self.table_id:
            raise self._dropped(UnknownTable(f"another table now has the name {self.table_path}"))

    def _refusal(self, code: int, message: str) -> Exception:
        """Returns the error for an error code of the bucket."""
        error = error_of(code, message, table_id=self.table_id, bucket=self.bucket)
        if isinstance(error, UnknownTable | UnknownPartition):
            return self._dropped(error)
        is_temporary = isinstance(error, ClusterUnavailable) and not isinstance(error, ClusterAccessDenied)
        return _RetryLater(error) if is_temporary else error

    def _dropped(self, error: LakewardError) -> SourceChanged:
        name = f"bucket {self.bucket} of {self.table_path}"
        return SourceChanged(f"{name} was dropped: {error.message}", table_id=self.table_id, bucket=self.bucket)

    def _ask_leader(self, ask: Callable[[ServerAddress], _Answer]) -> _Answer:
        started, pause = time.monotonic(), _FIRST_PAUSE_S
        while True:
            try:
                return ask(self.client.leader_of(self.table_path, self.table_id, self.bucket))
            except (UnknownTable, UnknownPartition) as refusal:
                raise self._dropped(refusal) from refusal
            except _RetryLater as again:
                error, patience_s = again.error, min(self.patience_s, again.patience_s)
            except ClusterAccessDenied:
                raise
            except ClusterUnavailable as unavailable:
                error, patience_s = unavailable, self.patience_s
            if time.monotonic() + pause > started + patience_s:
                raise error
            self._check_table()
            self.client.forget_leader(self.table_path, self.table_id, self.bucket)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)


def offsets_request(
    table_id: int, partition_id: int | None, bucket_ids: Sequence[int], offset_type: int, routing: int | None
) -> fluss.ListOffsetsRequest:
    """Returns a ListOffsets for one end of the logs of these buckets, EARLIEST or LATEST. `routing`: `FlussClient.routing`."""
    return fluss.ListOffsetsRequest(
        follower_server_id=_CLIENT,
        offset_type=offset_type,
        table_id=table_id,
        partition_id=partition_id,
        bucket_id=bucket_ids,
        routing_bucket_count=routing,
    )


def fetch_request(max_bytes: int, max_wait_ms: int = _MAX_WAIT_MS) -> fluss.FetchLogRequest:
    """Returns a FetchLog that is answered as soon as there are records, with at most `max_bytes` in total but at least one record batch."""
    return fluss.FetchLogRequest(follower_server_id=_CLIENT, max_bytes=max_bytes, max_wait_ms=max_wait_ms, min_bytes=1)


def add_bucket(request: fluss.FetchLogRequest, table_id: int, bucket: BucketKey, offset: int, max_bytes: int, routing: int | None) -> None:
    """Adds a bucket to the request: its records from `offset` on, at most `max_bytes` of them. `routing`: `FlussClient.routing`."""
    if not request.tables_req:
        request.tables_req.add(table_id=table_id, projection_pushdown_enabled=False)
    request.tables_req[0].buckets_req.add(
        partition_id=bucket.partition_id,
        bucket_id=bucket.bucket_id,
        fetch_offset=offset,
        max_fetch_bytes=max_bytes,
        routing_bucket_count=routing,
    )
