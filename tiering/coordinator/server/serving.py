"""The coordinator as a server: all services on one port, with the background loops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import grpc.aio

from tiering import crash_points
from tiering.access.loopback import connected_host
from tiering.coordinator.server.background import Background
from tiering.coordinator.server.coordinator import Coordinator
from tiering.coordinator.server.health import HealthService, add_to_server
from tiering.coordinator.server.services import ControlService, Pools, StatusService, TiererService
from tiering.errors import Fenced, SetupError
from tiering.rpc.v1 import control_pb2_grpc, coordinator_pb2_grpc, status_pb2_grpc
from tiering.wire.channel import host_and_port
from tiering.wire.security.call_grants import CallGrants
from tiering.wire.security.server_tls import ServerTls, server_credentials
from tiering.wire.server import open_server

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
        before_guard=interceptors, behind_guard=[CallGrants(coordinator.grants, coordinator.known_tables, coordinator.audit)]
    )
    pools = Pools()
    status_pb2_grpc.add_TieringStatusServicer_to_server(StatusService(coordinator, pools), server)
    coordinator_pb2_grpc.add_TieringCoordinatorServicer_to_server(TiererService(coordinator, pools), server)
    control_pb2_grpc.add_TieringControlServicer_to_server(ControlService(coordinator), server)
    for register in extra:
        register(server)
    health = add_to_server(server)
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
