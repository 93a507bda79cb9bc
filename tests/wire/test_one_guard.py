"""Every service ends its failed calls through the one guard: same details, same cuts, same log line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass
from structlog.testing import capture_logs

from support.repository import ROOT
from support.services.malformed import methods
from tiering.errors import LakeUnavailable, RoundFailed
from tiering.wire.channel import AsyncConnection
from tiering.wire.server import open_server

SECRET = "hunter2Xq9"
LONG = f"password={SECRET} " + "x" * 10_000


def failing(error: Exception, *, streams: bool) -> Any:
    """The behaviour of a method that raises."""

    async def stream(request: Any, context: Any) -> AsyncGenerator[Any, None]:
        raise error
        yield

    async def answer(request: Any, context: Any) -> Any:
        raise error

    return stream if streams else answer


def add_failing(server: grpc.aio.Server, service: ServiceDescriptor, error: Exception) -> None:
    """Serves all methods of a service, each of which raises."""
    handlers = {}
    for method in service.methods:
        request = GetMessageClass(method.input_type)
        make = grpc.unary_stream_rpc_method_handler if method.server_streaming else grpc.unary_unary_rpc_method_handler
        handlers[method.name] = make(failing(error, streams=method.server_streaming), request.FromString, lambda message: b"")
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.full_name, handlers),))
    server.add_registered_method_handlers(service.full_name, handlers)


async def call(connection: AsyncConnection, method: MethodDescriptor) -> None:
    path = f"/{method.containing_service.full_name}/{method.name}"
    if method.server_streaming:
        async for _ in connection.channel.unary_stream(path)(b""):
            pass
    else:
        await connection.channel.unary_unary(path)(b"")


@pytest.mark.parametrize("error", [LakeUnavailable(LONG, hint=LONG), ZeroDivisionError(LONG)])
def test_every_method_of_every_service_fails_alike(error: Exception) -> None:
    kind = LakeUnavailable if isinstance(error, LakeUnavailable) else RoundFailed

    async def test() -> None:
        server = open_server()
        for service in {method.containing_service.full_name: method.containing_service for method in methods()}.values():
            add_failing(server, service, error)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            async with AsyncConnection(f"127.0.0.1:{port}") as connection:
                for method in methods():
                    with pytest.raises(kind) as raised, connection.calling():
                        await call(connection, method)
                    assert raised.value.error_class == type(error).__name__, method.full_name
                    assert SECRET not in raised.value.message
                    assert isinstance(raised.value.__cause__, grpc.aio.AioRpcError)
                    assert len(raised.value.__cause__.details() or "") <= 512
        finally:
            await server.stop(None)

    with capture_logs() as logs:
        asyncio.run(test())
    assert [line["method"] for line in logs] == [f"/{method.containing_service.full_name}/{method.name}" for method in methods()]
    assert {line["log_level"] for line in logs} == {"info" if isinstance(error, LakeUnavailable) else "error"}


def test_no_servicer_ends_a_call_itself() -> None:
    sources = [path for room in ("tiering", "sys_tables") for path in (ROOT / room).rglob("*.py") if "rpc/v1" not in path.as_posix()]
    aborting = {path.relative_to(ROOT).as_posix() for path in sources if "context.abort(" in path.read_text()}
    assert aborting == {"tiering/wire/server.py", "tiering/wire/server_guard.py"}
