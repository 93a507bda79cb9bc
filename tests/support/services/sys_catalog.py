"""A real gRPC server on a loopback port, and a client that asks it as the plugin does."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc.aio
import pyarrow as pa
import pytest

from sys_tables.declare.procedure import Procedure
from sys_tables.declare.system_table import SystemTable
from sys_tables.registry import Registry, default_registry
from sys_tables.rpc.v1 import sys_catalog_pb2 as pb
from sys_tables.rpc.v1.sys_catalog_pb2_grpc import SysCatalogStub, add_SysCatalogServicer_to_server
from sys_tables.server.calls import CallService
from sys_tables.server.service import SysCatalogService
from tiering.coordinator.interface import CoordinatorHandle
from tiering.errors import LakewardError
from tiering.rpc.v1 import common_pb2
from tiering.rpc.v1.common_pb2 import Literal
from tiering.rpc.v1.control_pb2 import Argument, CallProcedureRequest
from tiering.rpc.v1.control_pb2_grpc import TieringControlStub, add_TieringControlServicer_to_server
from tiering.wire.channel import calling
from tiering.wire.procedure_calls import literal_to_pb
from tiering.wire.server import open_server
from tiering.wire.server_guard import RpcGuard


@dataclass(frozen=True)
class Client:
    """Typed short forms over the stub. `raises` of a call is the error the trailing metadata carries."""

    stub: Any
    control: Any
    port: int = 0
    """Port of the server, for other clients."""

    async def token(self) -> str:
        return (await self.stub.Describe(pb.DescribeRequest())).token

    async def read(
        self, name: str, *columns: str, filters: tuple[common_pb2.Filter, ...] = (), limit: int | None = None, token: str = ""
    ) -> pa.Table:
        pieces = await self.pieces(name, *columns, filters=filters, limit=limit, token=token)
        return pa.ipc.open_stream(b"".join(pieces)).read_all()

    async def pieces(
        self, name: str, *columns: str, filters: tuple[common_pb2.Filter, ...] = (), limit: int | None = None, token: str = ""
    ) -> list[bytes]:
        request = pb.ReadTableRequest(namespace="sys", name=name, columns=columns, filters=filters, limit=limit, token=token)
        return [answer.arrow async for answer in self.stub.ReadTable(request)]

    async def table(self, request: pb.ReadTableRequest) -> pa.Table:
        pieces = [answer.arrow async for answer in self.stub.ReadTable(request)]
        return pa.ipc.open_stream(b"".join(pieces)).read_all()

    async def call(self, procedure: str, /, *, key: str | None = None, caller: str = "ann", **arguments: Any) -> tuple[list[str], pa.Table]:
        answers = [answer async for answer in self.start(procedure, key=key, caller=caller, **arguments)]
        arrow = b"".join(answer.arrow for answer in answers)
        return [answer.progress.message for answer in answers if answer.HasField("progress")], pa.ipc.open_stream(arrow).read_all()

    def start(self, procedure: str, /, *, key: str | None = None, caller: str = "ann", **arguments: Any) -> Any:
        messages = [Argument(name=argument, value=literal_to_pb(value)) for argument, value in arguments.items()]
        request = CallProcedureRequest(name=procedure, arguments=messages, idempotency_key=key, caller=caller)
        return self.control.CallProcedure(request)


def where(column: str, operator: str, *values: Any) -> common_pb2.Filter:
    """A filter as the plugin sends it; None is the NULL literal."""
    literals = [literal_to_pb(value) or Literal() for value in values]
    return common_pb2.Filter(column=column, operator=common_pb2.Filter.Operator.Value(operator), values=literals)


def registry_with(*, tables: Iterable[SystemTable] = (), procedures: Iterable[Procedure] = ()) -> Registry:
    """The definitions of this version and these."""
    known = default_registry()
    return Registry((*known.tables, *tables), (*known.procedures, *procedures))


@asynccontextmanager
async def serving(
    handle: CoordinatorHandle,
    registry: Registry | None = None,
    keep_alive_s: float = 15.0,
    options: Sequence[tuple[str, int]] | None = None,
    guard: RpcGuard | None = None,
) -> AsyncGenerator[Client, None]:
    """A client of a server that serves `handle`; the server has gRPC's `options`."""
    server = open_server(options, guard)
    registry = registry or default_registry()
    service = SysCatalogService(handle, registry)
    add_SysCatalogServicer_to_server(service, server)
    add_TieringControlServicer_to_server(CallService(handle, registry, keep_alive_s), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield Client(SysCatalogStub(channel), TieringControlStub(channel), port)
    finally:
        await server.stop(grace=None)
        service.close()


async def error_of(call: Awaitable[Any]) -> LakewardError:
    """The error that a failing call carries."""
    with pytest.raises(LakewardError) as raised, calling("127.0.0.1"):
        await call
    return raised.value
