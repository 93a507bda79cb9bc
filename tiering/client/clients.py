"""The two clients: connections, listings, reads of system tables, pictures, and calls whose methods are not like their procedures.

The methods of the other procedures are in `procedure_methods`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

from tiering.access.client_access import ClientAccess
from tiering.client import pictures
from tiering.client.procedure_methods import ProcedureMethods
from tiering.client.system_tables import Pieces, collected, decoded, read_request, system_tables_stub
from tiering.html.rows import HtmlRows
from tiering.model.leases import KvSnapshotLease, join_parts
from tiering.model.status import TableStatus
from tiering.procedures.base import CallRequest, ResultT
from tiering.procedures.sweep_lake import DEFAULT_AGE_MS, SweepLake, SweepResult
from tiering.procedures.tier_database import TierDatabase, TierDatabaseRow
from tiering.round_history import COLUMNS
from tiering.rpc.v1.control_pb2_grpc import TieringControlStub
from tiering.rpc.v1.status_pb2 import (
    ListKvSnapshotLeasesRequest,
    ListKvSnapshotLeasesResponse,
    ListTieringStatusesRequest,
    ListTieringStatusesResponse,
)
from tiering.rpc.v1.status_pb2_grpc import TieringStatusStub
from tiering.wire.channel import AsyncConnection, Connection
from tiering.wire.model_codecs import LEASE, PATH, statuses_from_pb
from tiering.wire.pages import PagedListing, readable
from tiering.wire.procedure_calls import (
    CallOptions,
    TableName,
    path_of,
    pieces_of,
    request_to_pb,
    result_from_pieces,
    timeout_seconds,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

READ_TIMEOUT_SECONDS = 30
"""Time limit of an answer with one page, or with the rows of a system table."""
READ_ROUNDS = 500
"""Rounds of a table that a picture reads."""


class LakewardClient(ProcedureMethods):
    """The synchronous client. `uri` is `host:port`; raises InvalidArgument for another text.

    `access`: the token and the TLS files; None = from LAKEWARD_TOKEN_FILE, LAKEWARD_TLS_CA and so on, and the token that a service of this
    user wrote into the user's folder.
    """

    def __init__(self, uri: str, access: ClientAccess | None = None) -> None:
        self._connection = Connection(uri, access)
        self._status = TieringStatusStub(self._connection.channel)
        self._control = TieringControlStub(self._connection.channel)

    def read_system_table(
        self, name: str, columns: Sequence[str] = (), *, newest_by: str | None = None, limit: int | None = None, **equal: str | None
    ) -> HtmlRows[dict[str, Any]]:
        """Returns rows of `sys.<name>`, as SQL shows them to this caller: the named columns, or all.

        Keyword arguments with names of text columns filter by equality; None does not filter. `newest_by` sorts by this column, largest
        value first.
        """
        request = read_request(name, columns, newest_by, limit, equal)
        with self._connection.calling():
            answers = system_tables_stub(self._connection.channel).ReadTable(request, timeout=READ_TIMEOUT_SECONDS)
            stream = collected(answer.arrow for answer in answers)
        return _rows(self._connection.uri, stream)

    def plot_lag(self, table_path: TableName, ax: Axes | None = None) -> Axes:
        """Draws the lag of a table over its last rounds against its promise. Needs the extra `notebook`; raises SetupError without it."""
        status, rounds = self._history(table_path)
        return pictures.lag_plot(status, rounds, ax)

    def plot_rounds(self, table_path: TableName, ax: Axes | None = None) -> Axes:
        """Draws when a table's last rounds ran, and where their time went. Needs the extra `notebook`; raises SetupError without it."""
        status, rounds = self._history(table_path)
        return pictures.rounds_plot(status, rounds, ax)

    def plot_health(self, table_path: TableName | None = None, ax: Axes | None = None) -> Axes:
        """Draws the health of one lake table or of all, the worst first. Needs the extra `notebook`; raises SetupError without it."""
        pictures.check_installed()
        path = None if table_path is None else path_of(table_path)
        names = {} if path is None else {"database_name": path.database_name, "table_name": path.table_name}
        return pictures.health_plot(self.read_system_table("lake_table_health", limit=None, **names), ax)

    def _history(self, table_path: TableName) -> tuple[TableStatus, list[dict[str, Any]]]:
        """Returns a table's status and its last rounds, the newest first. Raises UnknownTable, and SetupError without the extra."""
        pictures.check_installed()
        path = path_of(table_path)
        [status] = self.list_tiering_statuses(path)
        names = {"database_name": path.database_name, "table_name": path.table_name}
        rows = self.read_system_table("tiering_rounds", COLUMNS, newest_by="pending_time", limit=READ_ROUNDS, **names)
        return status, [row for row in rows if row["table_id"] == status.table_id]

    def list_tiering_statuses(
        self,
        table_path: TableName | None = None,
        *,
        database_name: str | None = None,
        statuses: Iterable[str] = (),
        page_size: int = 0,
    ) -> HtmlRows[TableStatus]:
        """Returns the tiering status of each lake table, ordered by path, all at one moment, from as many pages as needed.

        Narrowed by path, by database and by status (`Failed`, ...). Raises UnknownTable for an unknown path.
        """
        listing = _statuses(self._connection.uri, table_path, database_name, statuses, page_size)
        while listing.request is not None:
            with self._connection.calling():
                page = self._status.ListTieringStatuses(listing.request, timeout=READ_TIMEOUT_SECONDS)
            listing.take(page)
        return HtmlRows(listing.items)

    def list_kv_snapshot_leases(self, lease_id: str | None = None, *, page_size: int = 0) -> HtmlRows[KvSnapshotLease]:
        """Returns the leases on KV snapshots, ordered by id, or only the lease with `lease_id`, if it exists; all at one moment.

        A lease that has ended is listed until the next clean-up; its `expires_at` is in the past.
        """
        listing = _leases(self._connection.uri, lease_id, page_size)
        while listing.request is not None:
            with self._connection.calling():
                page = self._status.ListKvSnapshotLeases(listing.request, timeout=READ_TIMEOUT_SECONDS)
            listing.take(page)
        return HtmlRows(join_parts(listing.items))

    def tier_database(
        self,
        database_name: str,
        *,
        include: str | None = None,
        exclude: str | None = None,
        only_stale: bool = True,
        wait: bool = True,
        timeout_ms: int = 300_000,
        **options: Unpack[CallOptions],
    ) -> list[TierDatabaseRow]:
        """Brings the lake up to now for the tables of a database: `CALL sys.tier_database`. Returns a row per table."""
        request = TierDatabase(database_name, include, exclude, only_stale, wait, timeout_ms, **options)
        return list(self.perform(request).rows)

    def sweep_lake(
        self, table_path: TableName | None = None, *, older_than_ms: int = DEFAULT_AGE_MS, dry_run: bool = False, caller: str = ""
    ) -> list[SweepResult]:
        """Deletes files that dead rounds left in one lake table, or in all: `lakeward sweep`. Raises UnknownTable."""
        path = None if table_path is None else path_of(table_path)
        results = self.perform(SweepLake(path, older_than_ms, dry_run, caller=caller))
        return list(results)

    def perform(self, request: CallRequest[ResultT]) -> ResultT:
        """Performs any declared request. Raises the errors of the procedure, ServiceUnreachable and InvalidAnswer."""
        pieces: list[bytes] = []
        with self._connection.calling():
            for step in self._control.CallProcedure(request_to_pb(request), timeout=timeout_seconds(request)):
                pieces += pieces_of(step, request.on_progress)
        return result_from_pieces(request, pieces, self._connection.uri)

    def close(self) -> None:
        """Closes the connection. A second call does nothing."""
        self._connection.close()

    def __enter__(self) -> LakewardClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class AsyncLakewardClient(ProcedureMethods):
    """The client for asyncio. Create it inside the event loop that uses it."""

    def __init__(self, uri: str, access: ClientAccess | None = None) -> None:
        self._connection = AsyncConnection(uri, access)
        self._status = TieringStatusStub(self._connection.channel)
        self._control = TieringControlStub(self._connection.channel)

    async def read_system_table(
        self, name: str, columns: Sequence[str] = (), *, newest_by: str | None = None, limit: int | None = None, **equal: str | None
    ) -> HtmlRows[dict[str, Any]]:
        """Returns the same as `LakewardClient.read_system_table`."""
        request, pieces = read_request(name, columns, newest_by, limit, equal), Pieces()
        with self._connection.calling():
            async for answer in system_tables_stub(self._connection.channel).ReadTable(request, timeout=READ_TIMEOUT_SECONDS):
                pieces.add(answer.arrow)
        return _rows(self._connection.uri, pieces.joined())

    async def list_tiering_statuses(
        self,
        table_path: TableName | None = None,
        *,
        database_name: str | None = None,
        statuses: Iterable[str] = (),
        page_size: int = 0,
    ) -> HtmlRows[TableStatus]:
        """Returns the same as `LakewardClient.list_tiering_statuses`."""
        listing = _statuses(self._connection.uri, table_path, database_name, statuses, page_size)
        while listing.request is not None:
            with self._connection.calling():
                page = await self._status.ListTieringStatuses(listing.request, timeout=READ_TIMEOUT_SECONDS)
            listing.take(page)
        return HtmlRows(listing.items)

    async def list_kv_snapshot_leases(self, lease_id: str | None = None, *, page_size: int = 0) -> HtmlRows[KvSnapshotLease]:
        """Returns the same as `LakewardClient.list_kv_snapshot_leases`."""
        listing = _leases(self._connection.uri, lease_id, page_size)
        while listing.request is not None:
            with self._connection.calling():
                page = await self._status.ListKvSnapshotLeases(listing.request, timeout=READ_TIMEOUT_SECONDS)
            listing.take(page)
        return HtmlRows(join_parts(listing.items))

    async def tier_database(
        self,
        database_name: str,
        *,
        include: str | None = None,
        exclude: str | None = None,
        only_stale: bool = True,
        wait: bool = True,
        timeout_ms: int = 300_000,
        **options: Unpack[CallOptions],
    ) -> list[TierDatabaseRow]:
        """Does the same as `LakewardClient.tier_database`."""
        request = TierDatabase(database_name, include, exclude, only_stale, wait, timeout_ms, **options)
        return list((await self.perform(request)).rows)

    async def sweep_lake(
        self, table_path: TableName | None = None, *, older_than_ms: int = DEFAULT_AGE_MS, dry_run: bool = False, caller: str = ""
    ) -> list[SweepResult]:
        """Does the same as `LakewardClient.sweep_lake`. Cancelling ends the wait, not the sweep."""
        path = None if table_path is None else path_of(table_path)
        results = await self.perform(SweepLake(path, older_than_ms, dry_run, caller=caller))
        return list(results)

    async def perform(self, request: CallRequest[ResultT]) -> ResultT:
        """Does the same as `LakewardClient.perform`."""
        pieces: list[bytes] = []
        with self._connection.calling():
            async for step in self._control.CallProcedure(request_to_pb(request), timeout=timeout_seconds(request)):
                pieces += pieces_of(step, request.on_progress)
        return result_from_pieces(request, pieces, self._connection.uri)

    async def close(self) -> None:
        """Closes the connection. A second call does nothing."""
        await self._connection.close()

    async def __aenter__(self) -> AsyncLakewardClient:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()


def _rows(uri: str, stream: bytes) -> HtmlRows[dict[str, Any]]:
    with readable(uri):
        return HtmlRows(decoded(stream).to_pylist())


def _statuses(
    uri: str, table_path: TableName | None, database_name: str | None, statuses: Iterable[str], page_size: int
) -> PagedListing[ListTieringStatusesRequest, ListTieringStatusesResponse, TableStatus]:
    request = ListTieringStatusesRequest(
        table_path=None if table_path is None else PATH.to_pb(path_of(table_path)),
        database_name=database_name,
        statuses=list(statuses),
        page_size=page_size,
    )
    return PagedListing(uri, "statuses", request, statuses_from_pb)


def _leases(
    uri: str, lease_id: str | None, page_size: int
) -> PagedListing[ListKvSnapshotLeasesRequest, ListKvSnapshotLeasesResponse, KvSnapshotLease]:
    request = ListKvSnapshotLeasesRequest(lease_id=lease_id, page_size=page_size)
    return PagedListing(uri, "leases", request, lambda page: [LEASE.from_pb(lease) for lease in page.leases])
