"""One bucket's log, asked of its leader wherever that is now: FetchLog and ListOffsets, repeated while leaders move.

Both questions change nothing, so they are asked again until the patience is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from tiering.cluster.fluss.wire.client import FlussClient
from tiering.cluster.fluss.wire.errors import error_of
from tiering.errors import ClusterUnavailable, LogTruncated, SourceChanged, UnknownTable
from tiering.model.tables import BucketKey, BucketOffsets, TablePath
from tiering.rpc.fluss import fluss_pb2 as fluss

PATIENCE_S = 30.0
"""How long a bucket may be without a leader that answers: an election takes some seconds, the restart of a server more."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0
_EARLIEST, _LATEST = 0, 1
"""`offset_type` of ListOffsets."""
_CLIENT = -1
"""`follower_server_id` of those who are no replica."""
_OUT_OF_RANGE = 19
_MAX_WAIT_MS = 500
"""How long a server may hold a FetchLog that has nothing to answer."""
_GONE = frozenset({7, 36})
"""Error codes of tables and partitions that do not exist."""
_PASSING = frozenset({-1, 1, 10, 12, 21, 24, 25, 26, 44})
"""Error codes that may go away by themselves: no leader, another leader, not loaded yet, a storage or a server that failed."""

_Answer = TypeVar("_Answer")


class _AskAgain(Exception):
    """The answer may be another one soon. `error` is what to raise once patience is over."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True)
class BucketLog:
    """One bucket's log. Raises, of every question, ClusterUnavailable when patience is over and SourceChanged for a table or
    partition that is gone."""

    client: FlussClient
    table_path: TablePath
    table_id: int
    bucket: BucketKey
    partition_name: str | None = None
    patience_s: float = PATIENCE_S
    pause: Callable[[float], None] = field(default=time.sleep)

    def fetch(self, offset: int, stop: int, max_bytes: int) -> tuple[str, Any]:
        """Records from `offset` on, or the remote segments that hold them: who answered, and its PbFetchLogRespForBucket.

        Raises LogTruncated if the log starts after `offset`, ClusterUnavailable if it stays shorter than `stop`.
        """
        request = fetch_request(max_bytes)
        add_bucket(request, self.table_id, self.bucket, offset, max_bytes)

        def ask(server: Any) -> tuple[str, Any]:
            answer = self.client.call(server, request).tables_resp[0].buckets_resp[0]
            if answer.error_code in (0, _OUT_OF_RANGE):
                if answer.error_code == 0 and (answer.records or answer.HasField("remote_log_fetch_info")):
                    return str(server), answer
                raise _AskAgain(self._nothing_from(offset, stop, server))
            self._refuse(answer.error_code, answer.error_message)

        return self._asked_of_the_leader(ask)

    def bounds(self) -> BucketOffsets:
        """Where the log starts and ends now."""
        return self._asked_of_the_leader(self._bounds)

    def _bounds(self, server: Any) -> BucketOffsets:
        ends = []
        for offset_type in (_EARLIEST, _LATEST):
            request = fluss.ListOffsetsRequest(
                follower_server_id=_CLIENT,
                offset_type=offset_type,
                table_id=self.table_id,
                partition_id=self.bucket.partition_id,
                bucket_id=[self.bucket.bucket_id],
            )
            (answer,) = self.client.call(server, request).buckets_resp
            if answer.error_code:
                self._refuse(answer.error_code, answer.error_message)
            ends.append(answer.offset)
        return BucketOffsets(*ends)

    def _nothing_from(self, offset: int, stop: int, server: Any) -> Exception:
        """Why no records came, though nothing failed; raises it if it will not change."""
        bounds = self._bounds(server)
        name = f"bucket {self.bucket} of {self.table_path}"
        if offset < bounds.log_start:
            raise LogTruncated(
                f"the log of {name} starts at offset {bounds.log_start}, after {offset}", table_id=self.table_id, bucket=self.bucket
            )
        if bounds.log_end < stop:
            return ClusterUnavailable(
                f"the log of {name} ends at offset {bounds.log_end}, before {stop}", table_id=self.table_id, bucket=self.bucket
            )
        # A 0.9.1 tablet server answers so for records of a log table that are only in the lake any more.
        return LogTruncated(
            f"the log of {name} has no records at offset {offset} any more, though it is said to reach from {bounds.log_start} "
            f"to {bounds.log_end}",
            table_id=self.table_id,
            bucket=self.bucket,
        )

    def _refuse(self, code: int, message: str) -> NoReturn:
        name = f"bucket {self.bucket} of {self.table_path}"
        if code in _GONE:
            raise SourceChanged(f"{name} is gone: {message}", table_id=self.table_id, bucket=self.bucket)
        error = error_of(code, message)
        if code in _PASSING:
            raise _AskAgain(ClusterUnavailable(f"{name} cannot be read: {message or error}", table_id=self.table_id, bucket=self.bucket))
        raise error

    def _asked_of_the_leader(self, ask: Callable[[Any], _Answer]) -> _Answer:
        deadline = time.monotonic() + self.patience_s
        pause = _FIRST_PAUSE_S
        while True:
            try:
                return ask(self.client.leader_of(self.table_path, self.table_id, self.bucket))
            except UnknownTable as gone:
                raise SourceChanged(gone.message, table_id=self.table_id, bucket=self.bucket) from gone
            except _AskAgain as again:
                error = again.error
            except ClusterUnavailable as unavailable:
                error = unavailable
            if time.monotonic() + pause > deadline:
                raise error
            self.client.forget_leader(self.table_path, self.table_id, self.bucket)
            self.pause(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)


def fetch_request(max_bytes: int, max_wait_ms: int = _MAX_WAIT_MS) -> fluss.FetchLogRequest:
    """A FetchLog that is answered as soon as there is anything, with `max_bytes` in all but at least one record batch."""
    return fluss.FetchLogRequest(follower_server_id=_CLIENT, max_bytes=max_bytes, max_wait_ms=max_wait_ms, min_bytes=1)


def add_bucket(request: fluss.FetchLogRequest, table_id: int, bucket: BucketKey, offset: int, max_bytes: int) -> None:
    """Asks for a bucket's records from `offset` on as well, at most `max_bytes` of them."""
    if not request.tables_req:
        request.tables_req.add(table_id=table_id, projection_pushdown_enabled=False)
    request.tables_req[0].buckets_req.add(
        partition_id=bucket.partition_id, bucket_id=bucket.bucket_id, fetch_offset=offset, max_fetch_bytes=max_bytes
    )
