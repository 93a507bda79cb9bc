"""The server of a standby. It forwards each call to the leading coordinator, and returns the answer unchanged.

It forwards messages as bytes, and headers unchanged, with the token of the caller. The leader authenticates and authorizes the call.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, cast

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2

from sys_tables.rpc.v1 import sys_catalog_pb2
from tiering.access.authentication import AUTHORIZATION
from tiering.access.client_access import TLS_CA, access_from_environment
from tiering.access.loopback import connected_host, stays_on_this_machine
from tiering.errors import InsecureConnection, ServiceUnreachable, SetupError
from tiering.rpc.v1 import control_pb2, coordinator_pb2, definitions_pb2, reads_pb2, status_pb2, writes_pb2
from tiering.wire.channel import CHANNEL_OPTIONS, host_and_port, service_addresses, target
from tiering.wire.error_status import error_from_rpc
from tiering.wire.security.client_channel import channel_credentials
from tiering.wire.security.server_tls import ServerTls, server_credentials
from tiering.wire.server import open_server

FORWARDED = "lakeward-forwarded"
"""Header of a forwarded call. A standby does not forward such a call again."""
_FILES = (status_pb2, coordinator_pb2, control_pb2, definitions_pb2, reads_pb2, writes_pb2, sys_catalog_pb2, health_pb2)
SERVICES = tuple(service for file in _FILES for service in file.DESCRIPTOR.services_by_name.values())
"""The services of a coordinator that can have a standby. The embedded cluster's is not among them: only one process has its folder."""
_GRPCS_OWN = ("grpc-", "user-agent", "te", "content-type", ":")
"""Prefixes of the headers that gRPC itself sets for each connection."""


class ForwardingServer:
    """Answers at `host:port` while a standby waits. Port 0 picks a free port. Create it in its event loop. Raises SetupError."""

    def __init__(self, host: str, port: int, tls: ServerTls | None = None) -> None:
        self._leader: str | None = None
        self._channel: grpc.aio.Channel | None = None
        self._is_exposed = False
        """Whether forwarded calls leave this machine in clear text."""
        self._server = open_server()
        for service in SERVICES:
            handlers = {method.name: self._handler(f"/{service.full_name}/{method.name}", method) for method in service.methods}
            cast("Any", self._server).add_registered_method_handlers(service.full_name, handlers)
        credentials, address = None if tls is None else server_credentials(tls), host_and_port(connected_host(host), port)
        try:
            self.port = (
                self._server.add_insecure_port(address) if credentials is None else self._server.add_secure_port(address, credentials)
            )
        except RuntimeError as error:
            raise SetupError(
                f"cannot listen on port {port} of {host}: the port is in use, or not allowed",
                hint="Choose another port; 0 picks a free port.",
            ) from error

    async def start(self) -> None:
        """Starts to answer calls."""
        await self._server.start()

    async def stop(self) -> None:
        """Ends running calls and releases the port. A second call does nothing."""
        await self._server.stop(0)
        await self.follow(None)

    async def follow(self, leader: str | None) -> None:
        """Forwards calls to the coordinator at this address from now on. None: no coordinator leads."""
        if leader == self._leader:
            return
        former, self._leader, self._channel = self._channel, leader, None if leader is None else _channel(leader)
        self._is_exposed = leader is not None and _leaves_in_clear_text(leader)
        if former is not None:
            await former.close(None)

    def _handler(self, method: str, descriptor: Any) -> Any:
        if descriptor.client_streaming:
            return grpc.stream_stream_rpc_method_handler(self._passing(lambda channel: channel.stream_stream(method, bytes, bytes)), bytes)
        if descriptor.server_streaming:
            return grpc.unary_stream_rpc_method_handler(self._passing(lambda channel: channel.unary_stream(method, bytes, bytes)), bytes)
        return grpc.unary_unary_rpc_method_handler(self._answering(method), bytes)

    def _answering(self, method: str) -> Callable[[Any, Any], Any]:
        async def answer(request: bytes, context: Any) -> Any:
            channel, headers = self._route(context)
            try:
                return await channel.unary_unary(method, bytes, bytes)(request, metadata=headers, timeout=context.time_remaining())
            except grpc.aio.AioRpcError as error:
                raise error_from_rpc(error, self._leader or "the leader") from error

        return answer

    def _passing(self, open_call: Callable[[grpc.aio.Channel], Any]) -> Callable[[Any, Any], Any]:
        async def passing(request: Any, context: Any) -> AsyncGenerator[Any, None]:
            channel, headers = self._route(context)
            call = open_call(channel)(request, metadata=headers, timeout=context.time_remaining())
            try:
                async for message in call:
                    yield message
            except grpc.aio.AioRpcError as error:
                raise error_from_rpc(error, self._leader or "the leader") from error
            finally:
                call.cancel()

        return passing

    def _route(self, context: Any) -> tuple[grpc.aio.Channel, tuple[tuple[str, str | bytes], ...]]:
        """Returns the channel and the headers for a call.

        Raises ServiceUnreachable if no coordinator leads, and InsecureConnection for a token that would leave this machine in clear text.
        """
        headers = tuple(context.invocation_metadata() or ())
        channel = self._channel
        if channel is None or any(name == FORWARDED for name, _ in headers):
            raise ServiceUnreachable(
                "this coordinator is a standby, and no coordinator leads at the moment", hint="Try again in some seconds."
            )
        if self._is_exposed and any(name == AUTHORIZATION for name, _ in headers):
            raise InsecureConnection(
                f"this coordinator is a standby, and does not forward a token to the leader at {self._leader} in clear text",
                hint=f"Start both with --server-cert and --server-key, and with {TLS_CA} in their environment.",
            )
        return channel, (*((name, value) for name, value in headers if not name.startswith(_GRPCS_OWN)), (FORWARDED, "1"))


def _channel(leader: str) -> grpc.aio.Channel:
    """Opens a channel without a token: each call carries the token of its caller."""
    credentials = channel_credentials(access_from_environment())
    if credentials is None:
        return grpc.aio.insecure_channel(target(leader), options=CHANNEL_OPTIONS)
    return grpc.aio.secure_channel(target(leader), credentials, options=CHANNEL_OPTIONS)


def _leaves_in_clear_text(leader: str) -> bool:
    encrypted = access_from_environment().is_encrypted
    return not encrypted and not all(stays_on_this_machine(address.rpartition(":")[0]) for address in service_addresses(leader))
