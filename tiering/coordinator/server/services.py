"""The coordinator's gRPC services: TieringStatus, TieringCoordinator (proto/tiering/rpc/v1).

Blocking work runs in pools, separated by what it may wait for, so that it starves no other work: heartbeats wait only for the store, leases
for the cluster, acks for the lake (`commits`), readers for none of them. Held requests and waiting CALLs use no thread. Errors are raised,
and `tiering.wire.server_guard` ends the call with them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from tiering.access.identity import quota_owner
from tiering.access.privileges import SERVICE, Privilege
from tiering.clock import RandomIds
from tiering.coordinator.server.coordinator import Coordinator
from tiering.coordinator.server.listings import Listing, Listings, Page
from tiering.coordinator.tierers.bound_identity import bind_tierer
from tiering.coordinator.tierers.heartbeats import HeldRequest
from tiering.errors import InvalidArgument, UnknownTable, cut_message
from tiering.library_guards.panics import contained
from tiering.log_context import call_is_about, carried
from tiering.model.leases import KvSnapshotLease, join_parts
from tiering.model.names import NAME_LIMIT, table_path
from tiering.model.states import LASTING
from tiering.model.tables import TablePath
from tiering.rpc.v1 import common_pb2, coordinator_pb2_grpc, status_pb2, status_pb2_grpc
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.wire.codec import time_to_pb
from tiering.wire.model_codecs import LEASE, status_to_pb

_ITEM_OVERHEAD_BYTES = 5
"""Overhead of a repeated field's item: a tag of one byte and a length of at most four."""
_LEASE_PART_BYTES = 2_048
"""Upper bound of bytes of a part of a lease, with one snapshot and the longest id and owner."""

Result = TypeVar("Result")
Context = grpc.aio.ServicerContext[Any, Any]


class Wait(StrEnum):
    """The resource that blocking work may wait for. Each has threads of its own."""

    STORE = "tierers"
    PROGRESS = "progress"
    """Reports of progress, which may be long: no heartbeat waits for them."""
    CLUSTER = "cluster"
    """Tierers' requests to the cluster, which may hang."""
    READER = "readers"
    LOOKUP = "lookups"
    """Readers' requests to the cluster: no commit waits for them."""
    OPEN_READ = "open-read"
    """Calls of readers of data tables that read a few files of a lake, which may hang."""
    KEEP_READ = "keep-read"
    """Renewals and ends of open reads, which read no lake: a lake that hangs must not let other reads expire."""
    WRITE_ROWS = "write-rows"
    """Batches of statements that write. They wait for the disk, and for the KV state of a primary-key table."""
    PLAN_READ = "plan-read"
    """Calls that read all manifests of a lake snapshot, mostly in Python. Few threads leave time for heartbeats."""


_THREADS = {
    Wait.STORE: 8,
    Wait.PROGRESS: 2,
    Wait.CLUSTER: 4,
    Wait.READER: 8,
    Wait.LOOKUP: 4,
    Wait.OPEN_READ: 8,
    Wait.KEEP_READ: 4,
    Wait.WRITE_ROWS: 8,
    Wait.PLAN_READ: 2,
}


class Pools:
    """Threads for blocking work."""

    def __init__(self) -> None:
        self._pools = {wait: ThreadPoolExecutor(number, thread_name_prefix=wait) for wait, number in _THREADS.items()}

    def run(self, wait: Wait, work: Callable[..., Result], *args: Any) -> asyncio.Future[Result]:
        """Runs work in the threads that may wait so. Call it in an event loop."""
        return asyncio.get_running_loop().run_in_executor(self._pools[wait], partial(carried(contained(work)), *args))

    def close(self) -> None:
        for threads in self._pools.values():
            threads.shutdown(wait=False, cancel_futures=True)


class StatusService(status_pb2_grpc.TieringStatusServicer):
    """The public, read-only service."""

    def __init__(self, coordinator: Coordinator, pools: Pools) -> None:
        self._coordinator = coordinator
        self._pools = pools
        self._listings = Listings(RandomIds(), status_to_pb, _size_in_answer)
        self._lease_listings: Listings[KvSnapshotLease, KvSnapshotLease] = Listings(
            RandomIds(), lambda part: part, lambda part: _LEASE_PART_BYTES
        )

    async def ListTieringStatuses(
        self, request: status_pb2.ListTieringStatusesRequest, context: Context
    ) -> status_pb2.ListTieringStatusesResponse:
        page = await self._first_or_next(request)
        return status_pb2.ListTieringStatusesResponse(
            tiering_statuses=page.items, next_page_token=page.next_token, observed_time=time_to_pb(page.observed_time)
        )

    async def ListKvSnapshotLeases(
        self, request: status_pb2.ListKvSnapshotLeasesRequest, context: Context
    ) -> status_pb2.ListKvSnapshotLeasesResponse:
        page = await self._pools.run(Wait.LOOKUP, self._leases_page, request)
        return status_pb2.ListKvSnapshotLeasesResponse(
            leases=map(LEASE.to_pb, join_parts(page.items)), next_page_token=page.next_token, observed_time=time_to_pb(page.observed_time)
        )

    def _leases_page(self, request: status_pb2.ListKvSnapshotLeasesRequest) -> Page[KvSnapshotLease]:
        access = self._coordinator.grants.current()
        if request.page_token:
            return self._lease_listings.next(request.page_token, request.page_size, access)
        view = self._coordinator.view()
        lease_id = request.lease_id if request.HasField("lease_id") else None
        matching = (lease for lease in view.leases() if lease_id in (None, lease.lease_id))
        listing = Listing(tuple(part for lease in matching for part in lease.parts()), view.now, access)
        return self._lease_listings.first(listing, request.page_size)

    async def _first_or_next(self, request: status_pb2.ListTieringStatusesRequest) -> Page[status_pb2.PbTableTieringStatus]:
        """Returns the page. A table that may be new is discovered first, in a pool where no other reader waits for the cluster."""
        if request.HasField("table_path") and not request.page_token:
            path = _path(request.table_path)
            if not self._is_known(path):
                await self._pools.run(Wait.LOOKUP, self._coordinator.discovery.refresh)
        return await self._pools.run(Wait.READER, self._page, request)

    def _page(self, request: status_pb2.ListTieringStatusesRequest) -> Page[status_pb2.PbTableTieringStatus]:
        """Returns a page of the token's listing, or else of a new one; without page_size the whole new one."""
        access = self._coordinator.grants.current()
        if request.page_token:
            return self._listings.next(request.page_token, request.page_size, access)
        statuses = set(request.statuses)
        unknown = statuses - set(LASTING)
        if unknown:
            raise InvalidArgument(
                f"{cut_message(sorted(unknown)[0], NAME_LIMIT)!r} is not a status in which a table can be seen",
                hint=f"The statuses are {', '.join(LASTING)}.",
            )
        database = request.database_name if request.HasField("database_name") else None
        table = None
        if request.HasField("table_path"):
            database, table = self._lake_table_path(request.table_path)
        view = self._coordinator.view()
        matching = (status for status in view.table_statuses(database, table) if not statuses or status.status in statuses)
        listing = Listing(tuple(matching), view.now, access)
        if request.HasField("page_size"):
            return self._listings.first(listing, request.page_size)
        return self._listings.whole(listing)

    def _is_known(self, path: TablePath) -> bool:
        """Returns whether the caller may see the table. A hidden table takes the same time as one that does not exist."""
        is_visible, record = self._coordinator.grants.current().sees(path), self._coordinator.table_records.by_path(path)
        return is_visible and record is not None

    def _lake_table_path(self, message: common_pb2.PbTablePath) -> tuple[str, str]:
        """Returns the path of a lake table. Raises UnknownTable."""
        path = table_path(message.database_name, message.table_name)
        if not self._is_known(path):
            raise UnknownTable(f"there is no lake table {path}", hint="Check the name, and that the table has its lake enabled.")
        return path.database_name, path.table_name


class TiererService(coordinator_pb2_grpc.TieringCoordinatorServicer):
    """The service for tierers only."""

    def __init__(self, coordinator: Coordinator, pools: Pools) -> None:
        self._coordinator = coordinator
        self._pools = pools
        self._held_requests = HeldRequestLimit()
        self._trying = asyncio.Lock()

    async def LakeTieringHeartbeat(self, request: pb.LakeTieringHeartbeatRequest, context: Context) -> pb.LakeTieringHeartbeatResponse:
        bind_tierer(request.tierer)
        return await self._heartbeat(request, context.peer())

    async def RecordPlan(self, request: pb.RecordPlanRequest, context: Context) -> pb.RecordPlanResponse:
        self._is_about(request.round)
        await self._plan(request)
        return pb.RecordPlanResponse()

    async def BeginLakeCommit(self, request: pb.BeginLakeCommitRequest, context: Context) -> pb.BeginLakeCommitResponse:
        self._is_about(request.round)
        return await self._pools.run(Wait.CLUSTER, self._coordinator.commits.begin_lake_commit, request)

    async def CommitLakeSnapshot(self, request: pb.CommitLakeSnapshotRequest, context: Context) -> pb.CommitLakeSnapshotResponse:
        self._is_about(request.round)
        await self._ack(request)
        return pb.CommitLakeSnapshotResponse()

    async def ReportProgress(self, request: pb.ReportProgressRequest, context: Context) -> pb.ReportProgressResponse:
        bind_tierer(request.round)
        return await self._pools.run(Wait.PROGRESS, self._coordinator.progress.report, request)

    async def AcquireKvSnapshotLease(
        self, request: pb.AcquireKvSnapshotLeaseRequest, context: Context
    ) -> pb.AcquireKvSnapshotLeaseResponse:
        return await self._pools.run(Wait.CLUSTER, self._coordinator.leases.acquire, request)

    async def ReleaseKvSnapshotLease(
        self, request: pb.ReleaseKvSnapshotLeaseRequest, context: Context
    ) -> pb.ReleaseKvSnapshotLeaseResponse:
        return await self._pools.run(Wait.CLUSTER, self._coordinator.leases.release, request)

    async def DropKvSnapshotLease(self, request: pb.DropKvSnapshotLeaseRequest, context: Context) -> pb.DropKvSnapshotLeaseResponse:
        return await self._pools.run(Wait.CLUSTER, self._coordinator.leases.drop, request)

    async def GetServiceConfig(self, request: pb.GetServiceConfigRequest, context: Context) -> pb.GetServiceConfigResponse:
        options, prover = self._coordinator.options, self._coordinator.call_parts.prover
        return pb.GetServiceConfigResponse(
            cluster_id=self._coordinator.cluster.cluster_id,
            cluster_kind=options.cluster_kind,
            lake_format=options.lake_format,
            lake_properties=options.public_lake_properties(),
            service_timeout_ms=options.service_timeout_ms,
            version=_version(),
            inline_round_bytes=options.inline_round_bytes,
            cluster_properties=options.cluster_properties,
            proof_key_fingerprint=None if prover is None else prover.fingerprint,
        )

    def _is_about(self, reported: pb.PbRound) -> None:
        """Binds the round to the caller, and adds it to the log lines of this call."""
        bind_tierer(reported)
        record = self._coordinator.table_records.get(reported.table_id)
        call_is_about(reported.round_id, None if record is None else record.path, reported.tiering_epoch)

    async def _plan(self, request: pb.RecordPlanRequest) -> None:
        commits = self._coordinator.commits
        if commits.names_another_lake_table(request):
            await asyncio.wrap_future(commits.submit_plan(request))
        else:
            await self._pools.run(Wait.STORE, commits.record_plan, request)

    async def _ack(self, request: pb.CommitLakeSnapshotRequest) -> None:
        commits = self._coordinator.commits
        # Shielded: a client that gives up must not cancel the ack of another client that joined it.
        contents = await asyncio.shield(asyncio.wrap_future(commits.submit_ack(request)))
        commits.check_borne_out(request, contents)

    async def _heartbeat(self, request: pb.LakeTieringHeartbeatRequest, peer: str) -> pb.LakeTieringHeartbeatResponse:
        heartbeats = self._coordinator.heartbeats
        if not heartbeats.may_be_held(request):  # most of them: no later change has to wake them
            response, _ = await self._pools.run(Wait.STORE, heartbeats.handle, request)
            return response
        with self._held_requests.room(peer) as may_wait, self._coordinator.table_records.wake_ups.subscribe() as changes:
            response, hold = await self._pools.run(Wait.STORE, heartbeats.handle, request)
            while hold is not None and may_wait:
                await changes.wait()
                if not heartbeats.worth_trying(hold):
                    continue
                self._coordinator.grants.current().require(Privilege.TIERER, SERVICE)  # also for a request that waited
                if (late := await self._try_again(hold)) is not None:
                    return late
            return response

    async def _try_again(self, hold: HeldRequest) -> pb.LakeTieringHeartbeatResponse | None:
        """Tries held requests one after the other. Mostly the first one takes the table, and the others need no thread to see that."""
        heartbeats = self._coordinator.heartbeats
        async with self._trying:
            return await self._pools.run(Wait.STORE, heartbeats.try_again, hold) if heartbeats.worth_trying(hold) else None


def _path(message: common_pb2.PbTablePath) -> TablePath:
    return table_path(message.database_name, message.table_name)


def _size_in_answer(message: Message) -> int:
    """Returns the bytes of a message as an item of a repeated field: the message, its tag and its length."""
    return message.ByteSize() + _ITEM_OVERHEAD_BYTES


def _version() -> str:
    try:
        return version("lakeward")
    except PackageNotFoundError:
        return "unpackaged"


MAX_HELD = 2_000
"""Upper bound of held requests of all callers: twice the number of known tierers."""

MAX_HELD_PER_CALLER = 500
"""Upper bound of held requests of one principal, or of one address if the service does not authenticate callers."""


class HeldRequestLimit:
    """Bounds how many requests for a table are held at a time, per caller and in total. It belongs to one event loop.

    A held request costs memory, a stream and a check at every tick. A request beyond the bound is not refused. It is answered at once
    without a table, and its tierer asks again after a second, as it does while it is busy.
    """

    def __init__(self) -> None:
        self._by_caller: Counter[str] = Counter()

    @contextmanager
    def room(self, peer: str) -> Iterator[bool]:
        """Yields whether one more request may be held. If so, it counts while the block runs. `peer` is gRPC's name of the connection."""
        caller = quota_owner(peer)
        free = self._by_caller[caller] < MAX_HELD_PER_CALLER and self._by_caller.total() < MAX_HELD
        if free:
            self._by_caller[caller] += 1
        try:
            yield free
        finally:
            if free:
                self._by_caller[caller] -= 1
            if not self._by_caller[caller]:
                del self._by_caller[caller]
