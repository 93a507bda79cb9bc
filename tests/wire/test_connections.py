"""HTTP/2 connections without authentication: they leave half of the process's files to the service."""

from __future__ import annotations

import asyncio
import resource
from contextlib import AsyncExitStack

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2_grpc import HealthStub

from support.services.served import Served, over_grpc
from tiering.wire import server
from tiering.wire.server import server_options

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
"""The first bytes of a client: HTTP/2's preface and an empty SETTINGS frame."""
FILES = 40


def allowed() -> int:
    return dict(server_options())["grpc.max_allowed_incoming_connections"]


def test_connections_take_half_of_the_files_of_the_process() -> None:
    connections = allowed()
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert connections == min(soft, server.MOST_FILES) // 2


def test_connections_beyond_the_bound_are_closed_and_the_others_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_FILES", FILES)

    async def test(served: Served) -> None:
        bound = allowed()
        host, _, port = served.server.address.rpartition(":")
        async with AsyncExitStack() as stack:
            channel = await stack.enter_async_context(grpc.aio.insecure_channel(served.server.address))
            health = HealthStub(channel)
            assert (await health.Check(health_pb2.HealthCheckRequest())).status == health_pb2.HealthCheckResponse.SERVING
            answers = []
            for _ in range(2 * bound):
                reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
                stack.callback(writer.close)
                writer.write(PREFACE)
                answers.append(await first_bytes(reader))
            assert sum(bool(answer) for answer in answers) == bound - 1, "the channel has the other one"
            assert (await health.Check(health_pb2.HealthCheckRequest())).status == health_pb2.HealthCheckResponse.SERVING

    over_grpc(test)


async def first_bytes(reader: asyncio.StreamReader) -> bytes:
    """The server's own SETTINGS; nothing if it closed the connection."""
    try:
        return await reader.read(9)
    except ConnectionError:
        return b""
