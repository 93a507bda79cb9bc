"""A coordinator world behind real gRPC on a loopback port."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import grpc
import grpc.aio
import pytest

from support.clusters.memory_cluster import log_table
from support.worlds.calling import until
from support.worlds.coordinator_world import HandTierer, World
from support.worlds.lake_world import InlineDeployment
from sys_tables.registry import default_registry
from sys_tables.server.calls import CallService
from tiering.coordinator.options import CoordinatorOptions
from tiering.coordinator.server.serving import Registration, RunningServer, serve
from tiering.errors import LakewardError
from tiering.model.tables import TablePath
from tiering.procedures.tier_table import TierTable
from tiering.rpc.v1 import coordinator_pb2, status_pb2
from tiering.rpc.v1.control_pb2 import CallProcedureRequest, CallProcedureResponse
from tiering.rpc.v1.control_pb2_grpc import TieringControlStub, add_TieringControlServicer_to_server
from tiering.rpc.v1.coordinator_pb2_grpc import TieringCoordinatorStub
from tiering.rpc.v1.status_pb2_grpc import TieringStatusStub
from tiering.wire.channel import calling
from tiering.wire.procedure_calls import request_to_pb
from tiering.wire.security.server_tls import ServerTls

OPTIONS = CoordinatorOptions(
    tick_interval_ms=5,
    discovery_interval_ms=3_600_000,
    lake_properties={
        "type": "sql",
        "warehouse": "file:///lake",
        "s3.secret-access-key": "hush",
        "adls.account-key": "hush",
        "header.Authorization": "Basic hush",
        "uri": "postgresql://me:hush@db/lake?password=hush",
    },
)


@dataclass
class Served:
    world: World
    server: RunningServer
    status: TieringStatusStub
    tierers: TieringCoordinatorStub
    control: TieringControlStub

    async def send(self, message: coordinator_pb2.LakeTieringHeartbeatRequest) -> coordinator_pb2.LakeTieringHeartbeatResponse:
        response: coordinator_pb2.LakeTieringHeartbeatResponse = await self.tierers.LakeTieringHeartbeat(message)  # type: ignore[misc]
        return response

    async def heartbeat(self, tierer: HandTierer, **fields: Any) -> coordinator_pb2.LakeTieringHeartbeatResponse:
        return await self.send(tierer.message(**fields))

    async def page(self, **fields: object) -> status_pb2.ListTieringStatusesResponse:
        request = status_pb2.ListTieringStatusesRequest(**fields)  # type: ignore[arg-type]
        page: status_pb2.ListTieringStatusesResponse = await self.status.ListTieringStatuses(request)  # type: ignore[misc]
        return page

    async def held(self, *tierers: HandTierer) -> list[asyncio.Future[coordinator_pb2.LakeTieringHeartbeatResponse]]:
        """Sends a request of each tierer, and returns once the coordinator holds all of them."""
        messages = [tierer.message(request=True, max_wait_ms=30_000) for tierer in tierers]
        calls = [asyncio.ensure_future(self.send(message)) for message in messages]
        sent = {(tierer.name, tierer.sequence) for tierer in tierers}
        heartbeats = self.world.coordinator.heartbeats
        await until(lambda: sent <= {(known.tierer_id, known.sequence) for known in heartbeats.tierers.all()})
        with self.world.coordinator.table_records.changing():  # what handles the last of them holds this lock
            return calls

    def tier(self, **fields: Any) -> grpc.aio.UnaryStreamCall[CallProcedureRequest, CallProcedureResponse]:
        request = TierTable(**({"path": TablePath("sales", "orders"), "caller": "alice"} | fields))
        return self.control.CallProcedure(request_to_pb(request))  # type: ignore[return-value]


def calls_of(world: World | InlineDeployment) -> Registration:
    """Adds the service of CALLs, as the process of a coordinator does."""
    service = CallService(world.coordinator, default_registry())
    return lambda server: add_TieringControlServicer_to_server(service, server)


@asynccontextmanager
async def serving(world: World) -> AsyncIterator[Served]:
    server = await serve(world.coordinator, "127.0.0.1", 0, [calls_of(world)])
    channel = grpc.aio.insecure_channel(server.address)
    try:
        yield Served(world, server, TieringStatusStub(channel), TieringCoordinatorStub(channel), TieringControlStub(channel))
    finally:
        await channel.close()
        await server.stop()


@contextmanager
def at_uri(
    world: World | InlineDeployment, *interceptors: grpc.aio.ServerInterceptor[Any, Any], port: int = 0, tls: ServerTls | None = None
) -> Iterator[str]:
    """Serves from an event loop in a thread, for clients that block or are processes. Yields the uri. Port 0: any that is free."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def start() -> RunningServer:
        return await serve(world.coordinator, "127.0.0.1", port, [calls_of(world)], interceptors=interceptors, tls=tls)

    server = asyncio.run_coroutine_threadsafe(start(), loop).result(60)
    try:
        yield server.address
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()


def over_grpc(test: Callable[[Served], Awaitable[None]], world: World | None = None) -> None:
    """Runs a test against a server of its own, whose tables have rows to tier if no world is given."""

    async def run() -> None:
        async with asyncio.timeout(30), serving(world or World(options=OPTIONS, rows=1)) as served:
            await test(served)

    asyncio.run(run())


async def error_of(call: Awaitable[object]) -> tuple[grpc.StatusCode, LakewardError]:
    with pytest.raises(LakewardError) as raised, calling("test"):
        await call
    assert isinstance(raised.value.__cause__, grpc.aio.AioRpcError)
    return raised.value.__cause__.code(), raised.value


def many(count: int, freshness_ms: int = 180_000) -> World:
    tables = (log_table(number, TablePath("many", f"t{number:03}"), buckets=1) for number in range(1, count + 1))
    return World(tuple(replace(table, freshness_ms=freshness_ms) for table in tables), OPTIONS, rows=1)
