"""The coordinator as a server: all services on one port, with the background loops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2, reflection_pb2_grpc

from tiering import crash_points
from tiering.access.loopback import connected_host
from tiering.coordinator.server.background import Background
from tiering.coordinator.server.coordinator import Coordinator
from tiering.coordinator.server.definition_service import DefinitionService
from tiering.coordinator.server.read_service import ReadService
from tiering.coordinator.server.services import Pools, StatusService, TiererService
from tiering.coordinator.server.write_service import WriteService
from tiering.errors import Fenced, SetupError
from tiering.rpc.v1 import coordinator_pb2_grpc, definitions_pb2_grpc, reads_pb2_grpc, status_pb2_grpc, writes_pb2_grpc
from tiering.wire.channel import host_and_port
from tiering.wire.security.call_grants import CallGrants
from tiering.wire.security.server_tls import ServerTls, server_credentials
from tiering.wire.server import offered_services, open_server

STOP_SECONDS = 2.0
"""Time from the beginning of a stop after which running calls are cancelled."""

Registration = Callable[[grpc.aio.Server], None]
"""Adds a servicer to the server before it starts."""


class RunningServer:
    """A server that answers. `host` and `port` are the real ones."""

    def __init__(
        self, server: grpc.aio.Server, coordinator: Coordinator, pools: Pools, health: HealthService, host: str, port: int
    ) -> None:
        self.host = host
        self.port = port
        self._server = server
        self._coordinator = coordinator
        self._pools = pools
        self._ended = asyncio.Event()
        self._stop_once: asyncio.Task[None] | None = None
        self._health = health
        self._background = Background(coordinator, self._fenced)

    @property
    def address(self) -> str:
        """`host:port`; for IPv6 `[host]:port`."""
        return host_and_port(self.host, self.port)

    def fence(self, error: Fenced) -> None:
        """Notes that another coordinator took the store over. From now on this one changes nothing, and `wait` raises."""
        self._coordinator.table_records.fenced = error
        self._fenced()

    async def wait(self) -> None:
        """Returns when the server has stopped. Raises Fenced if another coordinator took the store over; then stop the server."""
        await self._ended.wait()
        if self._coordinator.table_records.fenced is not None:
            raise self._coordinator.table_records.fenced

    async def stop(self) -> None:
        """Answers held requests and waiting calls, then ends within some seconds. A repeat has no effect."""
        if self._stop_once is None:
            self._stop_once = asyncio.create_task(self._stop())
        await asyncio.shield(self._stop_once)

    def _fenced(self) -> None:
        self._health.stop()
        self._ended.set()

    async def _stop(self) -> None:
        self._health.stop()
        await self._background.stop()
        self._coordinator.end_waits()
        await self._server.stop(STOP_SECONDS)
        await asyncio.to_thread(self._coordinator.close)
        self._pools.close()
        self._ended.set()


async def serve(
    coordinator: Coordinator,
    host: str,
    port: int,
    extra: Sequence[Registration] = (),
    interceptors: Sequence[grpc.aio.ServerInterceptor[Any, Any]] = (),
    tls: ServerTls | None = None,
) -> RunningServer:
    """Starts all services of `coordinator` and of `extra` on one port; port 0 picks a free one.

    `interceptors` run before the server's guard. `tls` None means plain text.

    If the cluster answers, its tables are known on return. Raises SetupError for a port that cannot be opened, and for invalid TLS files.
    """
    credentials = None if tls is None else server_credentials(tls)
    server = open_server(
        before_guard=interceptors, behind_guard=[CallGrants(coordinator.grants, coordinator.visible_tables, coordinator.audit)]
    )
    pools = Pools()
    status_pb2_grpc.add_TieringStatusServicer_to_server(StatusService(coordinator, pools), server)
    coordinator_pb2_grpc.add_TieringCoordinatorServicer_to_server(TiererService(coordinator, pools), server)
    reads_pb2_grpc.add_TableReadsServicer_to_server(ReadService(coordinator.reads, pools), server)
    definitions_pb2_grpc.add_TableDefinitionsServicer_to_server(DefinitionService(coordinator.call_parts), server)
    writes_pb2_grpc.add_TableWritesServicer_to_server(WriteService(coordinator.writes, pools), server)
    for register in extra:
        register(server)
    health = _add_health(server)
    try:
        address = host_and_port(connected_host(host), port)
        bound = server.add_insecure_port(address) if credentials is None else server.add_secure_port(address, credentials)
    except RuntimeError as error:
        pools.close()
        raise SetupError(
            f"cannot open port {port} on {host}: it is in use, or not allowed", hint="Choose another port; 0 picks a free one."
        ) from error
    await asyncio.to_thread(coordinator.discovery.run_quietly)
    crash_points.reach(crash_points.TAKE_OVER_COMPARED)
    await server.start()
    crash_points.reach(crash_points.TAKE_OVER_SERVING)
    return RunningServer(server, coordinator, pools, health, host, bound)


_STATUS = health_pb2.HealthCheckResponse
_SERVICE = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name


_REFLECTION = "grpc.reflection.v1.ServerReflection"
"""Reflection service, version 1. grpcio-reflection has no module for it. Its messages are those of v1alpha in another package."""


class HealthService(health_pb2_grpc.HealthServicer):  # type: ignore[misc]  # generated, without types
    """The standard service `grpc.health.v1`. It gives one answer for the server and for each of its services, which start and end together.

    A coordinator's server starts once it owns its store, so it serves from its first answer on. Once it begins to stop, or lost the store
    to another coordinator, it does not serve, and watchers learn that before the connection ends.
    """

    def __init__(self, services: Collection[str]) -> None:
        self._services = frozenset({"", *services})
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Answers NOT_SERVING from now on, and ends the watchers' calls. A repeat has no effect."""
        self._stopping.set()

    async def Check(self, request: health_pb2.HealthCheckRequest, context: Any) -> health_pb2.HealthCheckResponse:
        if request.service not in self._services:
            context.set_code(grpc.StatusCode.NOT_FOUND)
            context.set_details("there is no such service; the empty name stands for the whole server")
            return _STATUS()
        return _STATUS(status=self._status())

    async def List(self, request: Any, context: Any) -> Any:
        return health_pb2.HealthListResponse(statuses={service: _STATUS(status=self._status()) for service in self._services})

    async def Watch(self, request: health_pb2.HealthCheckRequest, context: Any) -> AsyncGenerator[health_pb2.HealthCheckResponse, None]:
        is_known_service = request.service in self._services
        yield _STATUS(status=self._status() if is_known_service else _STATUS.SERVICE_UNKNOWN)
        if not self._stopping.is_set():
            await self._stopping.wait()
            if is_known_service:
                yield _STATUS(status=self._status())

    def _status(self) -> Any:
        return _STATUS.NOT_SERVING if self._stopping.is_set() else _STATUS.SERVING


def _add_health(server: grpc.aio.Server) -> HealthService:
    """Adds the services of health and reflection, for the services that the server already has."""
    services = offered_services(server)
    health = HealthService(services)
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    names = (*services, _SERVICE, reflection.SERVICE_NAME, _REFLECTION)
    servicer = reflection.aio.ReflectionServicer(names)  # type: ignore[attr-defined]  # not in its stubs
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(servicer, server)
    handler = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    server.add_registered_method_handlers(_REFLECTION, {"ServerReflectionInfo": handler})  # type: ignore[attr-defined]  # as above
    return health
