"""The gRPC server that all services are added to: its connections, its limits, and a guard for unknown methods.

grpc.aio's own loop reads the name of an unknown method as UTF-8 and ends for good when it is not (1.85): one request with such a
path would end every service of the process. All of our methods are registered with gRPC's core, which matches them by their
bytes, so what comes to that loop without a match is unknown whatever its name is: it is refused before the name is read.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

import grpc
import grpc.aio
from grpc._cython import cygrpc
from grpc.aio import _server as aio_server

from tiering.wire.server_guard import LARGE_REQUEST_BYTES, MAX_CALLS, MAX_STREAMS, RpcGuard

PING_INTERVAL_MS = 10_000
PING_TIMEOUT_MS = 5_000
"""A client whose machine or network is gone closes no connection: its calls end when a ping was not answered."""

MAX_IDLE_MS = 30 * 60 * 1_000
MAX_AGE_MS = 12 * 60 * 60 * 1_000
"""Connections are left and made anew: an unused one after half an hour, any after half a day. Calls under way have as long again."""

HANDSHAKE_MS = 10_000
"""How long a connection may take to begin with HTTP/2."""

METADATA_BYTES = 8 * 1_024
"""Bytes of one call's headers at most; those of our clients have some hundred."""

PING_STRIKES = 10
"""Number of early pings that end a connection: a client that floods the server, not one that is a little early."""

MOST_FILES = 65_536
"""Limit of open files that the process requests: every client that reaches the port can open connections, and each takes one file."""

UNKNOWN_AT_ONCE = 100
"""Calls of unknown methods that are answered at a time; more of them are cut off."""


def server_options(ping_interval_ms: int = PING_INTERVAL_MS, ping_timeout_ms: int = PING_TIMEOUT_MS) -> list[tuple[str, int]]:
    """gRPC's options for the server."""
    return [
        # With it, two servers on one port would share the calls, and neither would fail to start.
        ("grpc.so_reuseport", 0),
        ("grpc.keepalive_time_ms", ping_interval_ms),
        ("grpc.keepalive_timeout_ms", ping_timeout_ms),
        # Without it gRPC waits a minute for the answer to a ping.
        ("grpc.http2.ping_timeout_ms", ping_timeout_ms),
        # However long a call is silent: only pings tell whether its client is still there.
        ("grpc.http2.max_pings_without_data", 0),
        # Clients ping on purpose, each 30 s: held requests must not look like an attack.
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        ("grpc.http2.max_ping_strikes", PING_STRIKES),
        ("grpc.max_concurrent_streams", MAX_STREAMS),
        ("grpc.max_receive_message_length", LARGE_REQUEST_BYTES),
        ("grpc.max_metadata_size", METADATA_BYTES),
        ("grpc.absolute_max_metadata_size", METADATA_BYTES),
        ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS),
        ("grpc.max_connection_idle_ms", MAX_IDLE_MS),
        ("grpc.max_connection_age_ms", MAX_AGE_MS),
        ("grpc.max_connection_age_grace_ms", MAX_AGE_MS),
        ("grpc.max_allowed_incoming_connections", _connections_allowed()),
    ]


def _connections_allowed() -> int:
    """Returns the maximum number of connections. It leaves most of the files that the process may open to its store, lake and log.

    Raises the process's own limit of open files to the one that the system allows.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        soft = limit
    return max(MOST_FILES if soft == resource.RLIM_INFINITY else min(soft, MOST_FILES), 2) // 2


def open_server(
    options: Sequence[tuple[str, int]] | None = None,
    guard: RpcGuard | None = None,
    before_guard: Sequence[grpc.aio.ServerInterceptor[Any, Any]] = (),
    behind_guard: Sequence[grpc.aio.ServerInterceptor[Any, Any]] = (),
) -> grpc.aio.Server:
    """A server behind a guard, to add servicers and a port to. Make it inside its event loop.

    `before_guard` get the handlers that the guard makes, `behind_guard` those of the servicers.
    """
    interceptors = (*before_guard, guard or RpcGuard(), *behind_guard)
    return cast("grpc.aio.Server", _Server(server_options() if options is None else options, interceptors))


def offered_services(server: grpc.aio.Server) -> tuple[str, ...]:
    """Names of the services that were added to a server of `open_server`, in that order."""
    return tuple(cast("_Server", server).services)


class _CoreServer(cygrpc.AioServer):  # type: ignore[misc]  # Cython's, without types
    """Refuses calls of unknown methods without reading the method's name."""

    def _make_request_call_future(self, method_bytes: bytes | None) -> Any:
        if method_bytes is None:
            return asyncio.get_running_loop().create_task(self._refuse_unknown())
        return super()._make_request_call_future(method_bytes)

    async def _refuse_unknown(self) -> None:
        """Runs until the server ends, which raises gRPC's own error for that."""
        refusing: set[asyncio.Task[None]] = set()
        while True:
            call = await self._request_call()
            if len(refusing) < UNKNOWN_AT_ONCE:
                task = asyncio.create_task(_refuse(call))
                refusing.add(task)
                task.add_done_callback(refusing.discard)
            del call  # gRPC cuts off a call without a reference


class _Server(aio_server.Server):
    """grpc.aio's server with `_CoreServer` below it."""

    def __init__(self, options: Sequence[tuple[str, int]], interceptors: tuple[grpc.aio.ServerInterceptor[Any, Any], ...]) -> None:
        self._loop = cygrpc.get_working_loop()
        arguments = aio_server._augment_channel_arguments(options, None)
        self._server = _CoreServer(self._loop, None, (), interceptors, arguments, MAX_CALLS)
        self.services: list[str] = []

    def add_registered_method_handlers(self, service: str, method_handlers: Any) -> None:
        self.services.append(service)
        super().add_registered_method_handlers(service, method_handlers)


async def _refuse(call: Any) -> None:
    context = cygrpc._ServicerContext(call, None, None, asyncio.get_running_loop())
    with suppress(cygrpc.BaseError):  # the call is over, or its client has gone
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "the service has no such method")
