"""Channels to the service: one way to read a uri, one set of options."""

from __future__ import annotations

import re

import grpc
import grpc.aio

from tiering.errors import InvalidArgument

DEFAULT_PORT = 7707
_URI = re.compile(r"(?:lakeward://)?(?P<host>\[[0-9A-Fa-f:]+\]|[A-Za-z0-9_.-]+)(?::(?P<port>[0-9]{1,5}))?/?")
_OPTIONS = (
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # Without it gRPC waits a minute for the answer to a ping.
    ("grpc.http2.ping_timeout_ms", 10_000),
    ("grpc.enable_http_proxy", 0),
    # Said aloud, though both are gRPC's own: what a service may send at once.
    ("grpc.max_receive_message_length", 4 << 20),
    ("grpc.max_metadata_size", 8 << 10),
    # Reconnect soon after a restart of the coordinator: the default waits up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2_000),
)


def target(uri: str) -> str:
    """`host:port` of `host`, `host:port` or `lakeward://host:port`, IPv6 addresses in brackets; raises InvalidArgument."""
    match = _URI.fullmatch(uri.strip())
    if match is None or not 0 < int(match["port"] or DEFAULT_PORT) < 65_536:
        raise InvalidArgument(
            f"{uri!r} is not the uri of a Lakeward service", hint="Write it as host:port, such as 127.0.0.1:7707 or [::1]:7707."
        )
    return f"{match['host']}:{match['port'] or DEFAULT_PORT}"


def host_and_port(host: str, port: int) -> str:
    """One address of both, as gRPC and `target` read it: an IPv6 address in brackets, or its last group would be the port."""
    bare = host.strip("[]")
    return f"[{bare}]:{port}" if ":" in bare else f"{bare}:{port}"


def open_channel(uri: str) -> grpc.Channel:
    """A channel for synchronous stubs; connects on first use. Never open one in a process that forks workers."""
    return grpc.insecure_channel(target(uri), options=_OPTIONS)


def open_aio_channel(uri: str) -> grpc.aio.Channel:
    """A channel for asyncio stubs."""
    return grpc.aio.insecure_channel(target(uri), options=_OPTIONS)
