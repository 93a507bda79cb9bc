"""gRPC's standard services: whether the server serves (grpc.health.v1), and which services it has (reflection).

A coordinator's server starts once it owns its store, so it serves from its first answer on. Once it begins to stop, or lost the store to
another coordinator, it does not serve, and watchers learn that before the connection ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2, reflection_pb2_grpc

from tiering.wire.server import offered_services

_STATUS = health_pb2.HealthCheckResponse
_SERVICE = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name


_REFLECTION = "grpc.reflection.v1.ServerReflection"
"""Its messages are those of v1alpha, field by field, in a package of another name. grpcio-reflection has no module for it."""


class HealthService(health_pb2_grpc.HealthServicer):  # type: ignore[misc]  # generated, without types
    """Gives one answer for the server and for each of its services, because they start and end together."""

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


def add_to_server(server: grpc.aio.Server) -> HealthService:
    """Adds both services, for the services that the server already has."""
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
