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

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType

import grpc
import grpc.aio

from tiering.errors import ServiceUnreachable
from tiering.model.call_results import SweepResult, TierTableResult
from tiering.model.leases import KvSnapshotLease
from tiering.model.status import TableStatus
from tiering.rpc.v1.control_pb2 import TierTableResponse
from tiering.rpc.v1.control_pb2_grpc import TieringControlStub
from tiering.rpc.v1.status_pb2 import ListKvSnapshotLeasesRequest
from tiering.rpc.v1.status_pb2_grpc import TieringStatusStub
from tiering.wire import client_answers
from tiering.wire.channel import open_aio_channel, open_channel
from tiering.wire.client_answers import TableName
from tiering.wire.error_status import from_rpc_error
from tiering.wire.leases import joined, lease_from_pb
from tiering.wire.pages import Pages, readable

__all__ = ["AsyncLakewardClient", "LakewardClient"]

READ_TIMEOUT_SECONDS = 30
"""Of one page."""

ANSWER_SECONDS = 30
"""What a call may take beyond the time it waits for its table."""

SWEEP_SECONDS = 3_600
"""What a sweep may take: it lists and reads the metadata of whole tables."""

SWEEP_GUARD_MS = 24 * 3_600_000
"""Files younger than a day stay, unless asked otherwise."""

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
        request = client_answers.list_request(table_path, database_name, statuses, page_size)
        found: list[TableStatus] = []
        pages = Pages(self._uri, "statuses")
        while True:
            with _border(self._uri):
                page = self._status.ListTieringStatuses(request, timeout=READ_TIMEOUT_SECONDS)
            pages.check(page, len(page.tiering_statuses), page.next_page_token or None)
            with readable(self._uri):
                found += client_answers.statuses(page)
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token

    def list_kv_snapshot_leases(self, lease_id: str | None = None, *, page_size: int = 0) -> list[KvSnapshotLease]:
        """The leases on KV snapshots, ordered by id, or the one of an id, if there is one; all of one moment.

        One that has ended is listed until the next clean-up: see its `expires_at`.
        """
        request = ListKvSnapshotLeasesRequest(lease_id=lease_id, page_size=page_size)
        found: list[KvSnapshotLease] = []
        pages = Pages(self._uri, "leases")
        while True:
            with _border(self._uri):
                page = self._status.ListKvSnapshotLeases(request, timeout=READ_TIMEOUT_SECONDS)
            pages.check(page, len(page.leases), page.next_page_token or None)
            with readable(self._uri):
                found += map(lease_from_pb, page.leases)
            if not page.next_page_token:
                return joined(found)
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
        request = client_answers.tier_request(table_path, wait, timeout_ms, dry_run, idempotency_key, caller)
        result: TierTableResult | None = None
        with _border(self._uri):
            for step in self._control.TierTable(request, timeout=timeout_ms / 1_000 + ANSWER_SECONDS):
                result = _take(step, on_progress) or result
        return _given(result, self._uri)

    def sweep_lake(
        self, table_path: TableName | None = None, *, older_than_ms: int = SWEEP_GUARD_MS, dry_run: bool = False, caller: str | None = None
    ) -> list[SweepResult]:
        """Deletes files that dead rounds left in one lake table, or in all: `lakeward sweep`. Raises UnknownTable."""
        request = client_answers.sweep_request(table_path, older_than_ms, dry_run, caller)
        with _border(self._uri):
            answer = self._control.SweepLake(request, timeout=SWEEP_SECONDS)
        return [client_answers.swept(one) for one in answer.results]

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
        request = client_answers.list_request(table_path, database_name, statuses, page_size)
        found: list[TableStatus] = []
        pages = Pages(self._uri, "statuses")
        while True:
            with _border(self._uri):
                page = await self._status.ListTieringStatuses(request, timeout=READ_TIMEOUT_SECONDS)
            pages.check(page, len(page.tiering_statuses), page.next_page_token or None)
            with readable(self._uri):
                found += client_answers.statuses(page)
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token

    async def list_kv_snapshot_leases(self, lease_id: str | None = None, *, page_size: int = 0) -> list[KvSnapshotLease]:
        """See `LakewardClient.list_kv_snapshot_leases`."""
        request = ListKvSnapshotLeasesRequest(lease_id=lease_id, page_size=page_size)
        found: list[KvSnapshotLease] = []
        pages = Pages(self._uri, "leases")
        while True:
            with _border(self._uri):
                page = await self._status.ListKvSnapshotLeases(request, timeout=READ_TIMEOUT_SECONDS)
            pages.check(page, len(page.leases), page.next_page_token or None)
            with readable(self._uri):
                found += map(lease_from_pb, page.leases)
            if not page.next_page_token:
                return joined(found)
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
        request = client_answers.tier_request(table_path, wait, timeout_ms, dry_run, idempotency_key, caller)
        result: TierTableResult | None = None
        with _border(self._uri):
            async for step in self._control.TierTable(request, timeout=timeout_ms / 1_000 + ANSWER_SECONDS):
                result = _take(step, on_progress) or result
        return _given(result, self._uri)

    async def sweep_lake(
        self, table_path: TableName | None = None, *, older_than_ms: int = SWEEP_GUARD_MS, dry_run: bool = False, caller: str | None = None
    ) -> list[SweepResult]:
        """See `LakewardClient.sweep_lake`. Cancelling ends the wait, not the sweep."""
        request = client_answers.sweep_request(table_path, older_than_ms, dry_run, caller)
        with _border(self._uri):
            answer = await self._control.SweepLake(request, timeout=SWEEP_SECONDS)
        return [client_answers.swept(one) for one in answer.results]

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


def _take(step: TierTableResponse, on_progress: OnProgress | None) -> TierTableResult | None:
    if step.HasField("result"):
        return client_answers.result(step.result)
    if on_progress is not None and step.progress:
        on_progress(step.progress)
    return None


def _given(result: TierTableResult | None, uri: str) -> TierTableResult:
    if result is None:
        raise ServiceUnreachable(f"the service at {uri} ended the call without a result", hint="Call again: the round goes on meanwhile.")
    return result
