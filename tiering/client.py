"""The public Python client of a Lakeward service, synchronous and for asyncio.

    with LakewardClient("127.0.0.1:7707") as client:
        for status in client.list_tiering_statuses(statuses=["Failed"]):
            print(status.database_name, status.table_name, status.error_class, status.error_hint)
        client.tier_table("sales.orders")

Errors are those of `tiering.errors`: ServiceUnreachable if nobody answers at the uri, UnknownTable, TablePaused, the
error of a failed round, and so on, each with its hint. Clients connect on first use and may be shared by threads (or by
the coroutines of one event loop).
"""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC
from types import TracebackType

import grpc
import grpc.aio

from tiering.coordinator import status_pb
from tiering.coordinator.api import SweepResult, TableStatus, TierTableResult
from tiering.errors import ServiceUnreachable
from tiering.model import TablePath
from tiering.names import parse_table_path
from tiering.rpc.v1 import common_pb2
from tiering.rpc.v1.control_pb2 import PbSweepResult, PbTierTableResult, SweepLakeRequest, TierTableRequest, TierTableResponse
from tiering.rpc.v1.control_pb2_grpc import TieringControlStub
from tiering.rpc.v1.status_pb2 import ListTieringStatusesRequest, ListTieringStatusesResponse
from tiering.rpc.v1.status_pb2_grpc import TieringStatusStub
from tiering.rpc_channel import open_aio_channel, open_channel
from tiering.rpc_errors import from_rpc_error

__all__ = ["AsyncLakewardClient", "LakewardClient"]

READ_TIMEOUT_SECONDS = 30
"""Of one page."""

ANSWER_SECONDS = 30
"""What a call may take beyond the time it waits for its table."""

SWEEP_SECONDS = 3_600
"""What a sweep may take: it lists and reads the metadata of whole tables."""

SWEEP_GUARD_MS = 24 * 3_600_000
"""Files younger than a day stay, unless asked otherwise."""

TableName = TablePath | str
"""A path, or `database.table` as SQL has it."""

OnProgress = Callable[[str], None]


class LakewardClient:
    """The synchronous client. `uri` is `host:port`; raises InvalidArgument for another text."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._channel = open_channel(uri)
        self._status = TieringStatusStub(self._channel)
        self._control = TieringControlStub(self._channel)

    def list_tiering_statuses(
        self,
        table_path: TableName | None = None,
        *,
        database_name: str | None = None,
        statuses: Iterable[str] = (),
        page_size: int = 0,
    ) -> list[TableStatus]:
        """How the tiering of each lake table stands, ordered by path; all of one moment, over as many pages as it takes.

        Narrowed by path, by database and by status (`Failed`, ...). Raises UnknownTable for an unknown path.
        """
        request = _list_request(table_path, database_name, statuses, page_size)
        found: list[TableStatus] = []
        while True:
            with _border(self._uri):
                page = self._status.ListTieringStatuses(request, timeout=READ_TIMEOUT_SECONDS)
            found += _statuses(page)
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token

    def tier_table(
        self,
        table_path: TableName,
        *,
        wait: bool = True,
        timeout_ms: int = 300_000,
        dry_run: bool = False,
        idempotency_key: str | None = None,
        caller: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> TierTableResult:
        """Brings the lake up to the table's end offsets of now: `CALL sys.tier_table`.

        `on_progress` gets a line now and then. A key makes a repeat safe: it attaches to the earlier call. Raises
        UnknownTable, LakeDisabled, TablePaused, InvalidArgument, or the error of the round if it failed.
        """
        request = _tier_request(table_path, wait, timeout_ms, dry_run, idempotency_key, caller)
        result: TierTableResult | None = None
        with _border(self._uri):
            for step in self._control.TierTable(request, timeout=timeout_ms / 1_000 + ANSWER_SECONDS):
                result = _take(step, on_progress) or result
        return _given(result, self._uri)

    def sweep_lake(
        self, table_path: TableName | None = None, *, older_than_ms: int = SWEEP_GUARD_MS, dry_run: bool = False, caller: str | None = None
    ) -> list[SweepResult]:
        """Deletes files that dead rounds left in one lake table, or in all: `lakeward sweep`. Raises UnknownTable."""
        request = _sweep_request(table_path, older_than_ms, dry_run, caller)
        with _border(self._uri):
            answer = self._control.SweepLake(request, timeout=SWEEP_SECONDS)
        return [_swept(one) for one in answer.results]

    def close(self) -> None:
        """Ends the connection; harmless to repeat."""
        self._channel.close()

    def __enter__(self) -> LakewardClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class AsyncLakewardClient:
    """The same for asyncio. Make it inside the event loop that uses it."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._channel = open_aio_channel(uri)
        self._status = TieringStatusStub(self._channel)
        self._control = TieringControlStub(self._channel)

    async def list_tiering_statuses(
        self,
        table_path: TableName | None = None,
        *,
        database_name: str | None = None,
        statuses: Iterable[str] = (),
        page_size: int = 0,
    ) -> list[TableStatus]:
        """See `LakewardClient.list_tiering_statuses`."""
        request = _list_request(table_path, database_name, statuses, page_size)
        found: list[TableStatus] = []
        while True:
            with _border(self._uri):
                page = await self._status.ListTieringStatuses(request, timeout=READ_TIMEOUT_SECONDS)
            found += _statuses(page)
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token

    async def tier_table(
        self,
        table_path: TableName,
        *,
        wait: bool = True,
        timeout_ms: int = 300_000,
        dry_run: bool = False,
        idempotency_key: str | None = None,
        caller: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> TierTableResult:
        """See `LakewardClient.tier_table`. Cancelling ends the wait, not the round."""
        request = _tier_request(table_path, wait, timeout_ms, dry_run, idempotency_key, caller)
        result: TierTableResult | None = None
        with _border(self._uri):
            async for step in self._control.TierTable(request, timeout=timeout_ms / 1_000 + ANSWER_SECONDS):
                result = _take(step, on_progress) or result
        return _given(result, self._uri)

    async def sweep_lake(
        self, table_path: TableName | None = None, *, older_than_ms: int = SWEEP_GUARD_MS, dry_run: bool = False, caller: str | None = None
    ) -> list[SweepResult]:
        """See `LakewardClient.sweep_lake`. Cancelling ends the wait, not the sweep."""
        request = _sweep_request(table_path, older_than_ms, dry_run, caller)
        with _border(self._uri):
            answer = await self._control.SweepLake(request, timeout=SWEEP_SECONDS)
        return [_swept(one) for one in answer.results]

    async def close(self) -> None:
        """Ends the connection; harmless to repeat."""
        await self._channel.close(None)

    async def __aenter__(self) -> AsyncLakewardClient:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()


@contextmanager
def _border(uri: str) -> Iterator[None]:
    try:
        yield
    except grpc.RpcError as error:
        raise from_rpc_error(error, uri) from error


def _path_pb(path: TableName) -> common_pb2.PbTablePath:
    parsed = parse_table_path(path) if isinstance(path, str) else path
    return common_pb2.PbTablePath(database_name=parsed.database_name, table_name=parsed.table_name)


def _list_request(path: TableName | None, database: str | None, statuses: Iterable[str], page_size: int) -> ListTieringStatusesRequest:
    return ListTieringStatusesRequest(
        table_path=None if path is None else _path_pb(path), database_name=database, statuses=list(statuses), page_size=page_size
    )


def _tier_request(
    path: TableName, wait: bool, timeout_ms: int, dry_run: bool, idempotency_key: str | None, caller: str | None
) -> TierTableRequest:
    return TierTableRequest(
        table_path=_path_pb(path),
        wait=wait,
        timeout_ms=timeout_ms,
        dry_run=dry_run,
        idempotency_key=idempotency_key,
        caller=caller or getpass.getuser(),
    )


def _sweep_request(path: TableName | None, older_than_ms: int, dry_run: bool, caller: str | None) -> SweepLakeRequest:
    return SweepLakeRequest(
        table_path=None if path is None else _path_pb(path),
        older_than_ms=older_than_ms,
        dry_run=dry_run,
        caller=caller or getpass.getuser(),
    )


def _statuses(page: ListTieringStatusesResponse) -> list[TableStatus]:
    observed = page.observed_time.ToDatetime(tzinfo=UTC)
    return [status_pb.from_pb(each, observed) for each in page.tiering_statuses]


def _take(step: TierTableResponse, on_progress: OnProgress | None) -> TierTableResult | None:
    if step.HasField("result"):
        return _result(step.result)
    if on_progress is not None and step.progress:
        on_progress(step.progress)
    return None


def _result(pb: PbTierTableResult) -> TierTableResult:
    return TierTableResult(
        path=TablePath(pb.table_path.database_name, pb.table_path.table_name),
        round_id=pb.round_id if pb.HasField("round_id") else None,
        state=pb.state,
        tiering_epoch=pb.tiering_epoch,
        lake_snapshot_id=pb.lake_snapshot_id if pb.HasField("lake_snapshot_id") else None,
        splits=pb.splits if pb.HasField("splits") else None,
        records=pb.records if pb.HasField("records") else None,
        files=pb.files if pb.HasField("files") else None,
        bytes=pb.bytes if pb.HasField("bytes") else None,
        lag_ms_before=pb.lag_ms_before if pb.HasField("lag_ms_before") else None,
        lag_ms_after=pb.lag_ms_after if pb.HasField("lag_ms_after") else None,
        duration_ms=pb.duration_ms,
    )


def _swept(pb: PbSweepResult) -> SweepResult:
    path = TablePath(pb.table_path.database_name, pb.table_path.table_name)
    return SweepResult(path, pb.files, pb.removed, pb.removed_bytes, dict(pb.kept), pb.error if pb.HasField("error") else None)


def _given(result: TierTableResult | None, uri: str) -> TierTableResult:
    if result is None:
        raise ServiceUnreachable(f"the service at {uri} ended the call without a result", hint="Call again: the round goes on meanwhile.")
    return result
