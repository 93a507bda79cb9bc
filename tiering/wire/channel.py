"""Connections to the service: parsing of a uri, opening of channels, and errors of calls.

with Connection(uri) as connection:
    stub = TieringStatusStub(connection.channel)
    with connection.calling():
        stub.ListTieringStatuses(request)
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Self

import grpc
import grpc.aio

from tiering.access.client_access import ClientAccess, TokenSource, access_from_environment
from tiering.access.loopback import connected_host
from tiering.errors import InvalidArgument, ServiceUnreachable
from tiering.wire.error_status import error_from_rpc
from tiering.wire.security.client_channel import open_async_channel, open_channel
from tiering.wire.security.tls_errors import insecure_connection

DEFAULT_PORT = 7707
_URI = re.compile(r"(?:lakeward://)?(?P<host>\[[0-9A-Fa-f:]+\]|[A-Za-z0-9_.-]+)(?::(?P<port>[0-9]{1,5}))?/?")
CHANNEL_OPTIONS = (
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # gRPC would wait a minute for the answer to a ping.
    ("grpc.http2.ping_timeout_ms", 10_000),
    ("grpc.enable_http_proxy", 0),
    # Limits of one message of a service. Both are gRPC's defaults. They are set because answers are cut to them.
    ("grpc.max_receive_message_length", 4 << 20),
    ("grpc.max_metadata_size", 8 << 10),
    # Reconnect soon after a restart of the coordinator: the default waits up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2_000),
)


def target(uri: str) -> str:
    """Returns gRPC's target: `host:port` of `host`, `host:port` or `lakeward://host:port`, IPv6 addresses in brackets.

    `localhost` is 127.0.0.1 alone: another program may listen on the same port at [::1].

    Of several addresses, with commas between them, gRPC uses the first that accepts a connection, and the next one after that fails. Names
    are resolved here, once. Raises InvalidArgument.
    """
    addresses = service_addresses(uri)
    return _connected(addresses[0]) if len(addresses) == 1 else "ipv6:" + ",".join(_numeric(address) for address in addresses)


def service_addresses(uri: str) -> list[str]:
    """Returns the `host:port` of each address in a uri, without resolving names. Raises InvalidArgument."""
    return [_address(part) for part in uri.split(",")]


def _options(uri: str) -> tuple[tuple[str, int | str], ...]:
    """Returns channel options. Each certificate must be for the name of the first address, because gRPC checks one name per channel."""
    addresses = service_addresses(uri)
    if len(addresses) == 1 and addresses[0] == _connected(addresses[0]):
        return CHANNEL_OPTIONS
    return (*CHANNEL_OPTIONS, ("grpc.ssl_target_name_override", addresses[0].rpartition(":")[0].strip("[]")))


def _connected(address: str) -> str:
    host, _, port = address.rpartition(":")
    return f"{connected_host(host)}:{port}"


def _numeric(address: str) -> str:
    """Returns the address of a host's name as IPv6, the form in which gRPC accepts a list."""
    host, _, port = _connected(address).rpartition(":")
    try:
        ip = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0][4][0]
    except OSError as error:
        raise ServiceUnreachable(f"the name {host} of a service cannot be looked up: {error.strerror}", hint="Check the uri.") from error
    return f"[{ip}]:{port}" if ":" in str(ip) else f"[::ffff:{ip}]:{port}"


def _address(uri: str) -> str:
    match = _URI.fullmatch(uri.strip())
    if match is None or not 0 < int(match["port"] or DEFAULT_PORT) < 65_536:
        raise InvalidArgument(
            f"{uri!r} is not the uri of a Lakeward service",
            hint="Write it as host:port, such as 127.0.0.1:7707 or [::1]:7707; several with commas between them.",
        )
    return f"{match['host']}:{match['port'] or DEFAULT_PORT}"


def host_and_port(host: str, port: int) -> str:
    """Returns the address that gRPC and `target` read: an IPv6 address gets brackets, else its last group would be the port."""
    bare = host.strip("[]")
    return f"[{bare}]:{port}" if ":" in bare else f"{bare}:{port}"


@contextmanager
def calling(uri: str, access: ClientAccess | None = None) -> Iterator[None]:
    """Raises the error of a failed call in the block as an error of `tiering.errors`: the one that the service sent, or one that says why
    no answer came."""
    try:
        yield
    except grpc.RpcError as error:
        failure = error_from_rpc(error, uri)
        if access is not None and type(failure) is ServiceUnreachable:
            failure = insecure_connection(failure.message, uri, _address(uri.split(",")[0]), access) or failure
        raise failure from error


class Connection:
    """A channel for synchronous stubs, and the errors of its calls. Never open one in a process that forks workers.

    It connects with the first call. `access` None = from the environment. Raises InvalidArgument for text that is no uri, SetupError for
    TLS files that cannot be read. `token` returns the token of a call; None = the token in the file of `access`.
    """

    def __init__(self, uri: str, access: ClientAccess | None = None, token: Callable[[], str | None] | None = None) -> None:
        self.uri = uri
        self.access = access or access_from_environment()
        token = token or TokenSource(service_addresses(uri), self.access).token
        self.channel = open_channel(target(uri), self.access, token, _options(uri))

    def calling(self) -> AbstractContextManager[None]:
        """Returns the context of a call over the channel, as `calling` describes it."""
        return calling(self.uri, self.access)

    def close(self) -> None:
        """Closes the connection. A second call does nothing."""
        self.channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncConnection:
    """A connection for asyncio stubs. Create it inside the event loop that uses it."""

    def __init__(self, uri: str, access: ClientAccess | None = None) -> None:
        self.uri = uri
        self.access = access or access_from_environment()
        self.channel = open_async_channel(target(uri), TokenSource(service_addresses(uri), self.access), _options(uri))

    def calling(self) -> AbstractContextManager[None]:
        """Returns the context of a call over the channel, as `calling` describes it."""
        return calling(self.uri, self.access)

    async def close(self) -> None:
        """Closes the connection. A second call does nothing."""
        await self.channel.close(None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
