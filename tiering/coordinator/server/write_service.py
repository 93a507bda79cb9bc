"""The gRPC service TableWrites (proto/tiering/rpc/v1/writes.proto)."""

from __future__ import annotations

from typing import Any

import grpc
import grpc.aio

from tiering.coordinator.server.services import Pools, Wait
from tiering.coordinator.writers.writes import Writes
from tiering.errors import InvalidArgument
from tiering.library_guards.arrow_ipc import WRITE_LIMITS, read_rows
from tiering.model.names import table_path
from tiering.rpc.v1 import writes_pb2 as pb
from tiering.rpc.v1.writes_pb2_grpc import TableWritesServicer

_Context = grpc.aio.ServicerContext[Any, Any]
_OPERATIONS = {pb.WriteOperation.INSERT: False, pb.WriteOperation.DELETE: True}
"""Whether an operation deletes rows."""


class WriteService(TableWritesServicer):
    """The service."""

    def __init__(self, writes: Writes, pools: Pools) -> None:
        self._writes = writes
        self._pools = pools

    async def OpenWrite(self, request: pb.OpenWriteRequest, context: _Context) -> pb.OpenWriteResponse:
        path = table_path(request.table_path.database_name, request.table_path.table_name)
        if request.operation not in _OPERATIONS:
            raise InvalidArgument(f"the write has the unknown operation {request.operation}")
        deletes = _OPERATIONS[request.operation]
        opened = await self._pools.run(Wait.LOOKUP, lambda: self._writes.open(path, request.statement_id, deletes=deletes))
        return pb.OpenWriteResponse(task=opened.task.SerializeToString(), ticket=opened.ticket, remembers_writers=opened.remembers_writers)

    async def WriteRows(self, request: pb.WriteRowsRequest, context: _Context) -> pb.WriteRowsResponse:
        await self._pools.run(Wait.WRITE_ROWS, self._write, request)
        return pb.WriteRowsResponse()

    def _write(self, request: pb.WriteRowsRequest) -> None:
        self._writes.write(request.ticket, request.task, request.sequence, read_rows(request.rows, WRITE_LIMITS))

    async def CountWritten(self, request: pb.CountWrittenRequest, context: _Context) -> pb.CountWrittenResponse:
        return pb.CountWrittenResponse(records=await self._pools.run(Wait.LOOKUP, self._writes.count, request.ticket))
