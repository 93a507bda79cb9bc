"""The gRPC service TableDefinitions (proto/tiering/rpc/v1/definitions.proto). Its work runs in the threads of calls that repair or change
tables, because a cluster may take long.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any

import grpc
import grpc.aio

from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.definitions.definer import Definer
from tiering.coordinator.definitions.partitions import partition_names, partition_rows
from tiering.coordinator.definitions.statements import (
    Statement,
    changes_from_pb,
    check_database_properties,
    spec_from_pb,
    statement_from_pb,
)
from tiering.model.names import check_database, table_path
from tiering.model.tables import TablePath
from tiering.procedures.base import Pool
from tiering.rpc.v1 import definitions_pb2 as pb
from tiering.rpc.v1.definitions_pb2_grpc import TableDefinitionsServicer

_Context = grpc.aio.ServicerContext[Any, Any]


class DefinitionService(TableDefinitionsServicer):
    """The service."""

    def __init__(self, parts: CallParts) -> None:
        self._parts = parts
        self._definer = Definer(parts)

    async def CreateDatabase(self, request: pb.CreateDatabaseStatement, context: _Context) -> pb.StatementResponse:
        name = check_database(request.database_name)
        check_database_properties(request.properties)
        return await self._perform("CREATE DATABASE", request, lambda statement: self._definer.create_database(statement, name))

    async def DropDatabase(self, request: pb.DropDatabaseStatement, context: _Context) -> pb.StatementResponse:
        name, cascade = check_database(request.database_name), request.cascade
        work = lambda statement: self._definer.drop_database(statement, name, cascade=cascade)  # noqa: E731
        return await self._perform("DROP DATABASE", request, work)

    async def CreateTable(self, request: pb.CreateTableStatement, context: _Context) -> pb.StatementResponse:
        path, spec = _path(request), spec_from_pb(request)
        return await self._perform("CREATE TABLE", request, lambda statement: self._definer.create_table(statement, path, spec))

    async def AlterTable(self, request: pb.AlterTableStatement, context: _Context) -> pb.StatementResponse:
        path, changes = _path(request), changes_from_pb(request)
        return await self._perform("ALTER TABLE", request, lambda statement: self._definer.alter_table(statement, path, changes))

    async def DropTable(self, request: pb.DropTableStatement, context: _Context) -> pb.StatementResponse:
        path, purge = _path(request), request.purge
        return await self._perform("DROP TABLE", request, lambda statement: self._definer.drop_table(statement, path, purge=purge))

    async def AddPartitions(self, request: pb.AddPartitionsStatement, context: _Context) -> pb.StatementResponse:
        path = _path(request)

        def work(statement: Statement) -> None:
            self._definer.add_partitions(statement, path, partition_names(self._parts.cluster.table(path), request.partitions))

        return await self._perform("ADD PARTITION", request, work)

    async def DropPartitions(self, request: pb.DropPartitionsStatement, context: _Context) -> pb.StatementResponse:
        path = _path(request)

        def work(statement: Statement) -> None:
            self._definer.drop_partitions(statement, path, partition_names(self._parts.cluster.table(path), request.partitions))

        return await self._perform("DROP PARTITION", request, work)

    async def ShowPartitions(self, request: pb.ShowPartitionsRequest, context: _Context) -> AsyncGenerator[pb.ShowPartitionsResponse, None]:
        path, cluster = _path(request), self._parts.cluster

        def read() -> list[bytes]:
            table = cluster.table(path)
            return list(partition_rows(table, cluster.partitions(table)))

        for piece in await self._parts.threads.run(Pool.REPAIR, read):
            yield pb.ShowPartitionsResponse(arrow=piece)

    async def _perform(self, name: str, request: Any, work: Callable[[Statement], None]) -> pb.StatementResponse:
        statement = statement_from_pb(name, request)
        await self._parts.threads.run(Pool.REPAIR, lambda: work(statement))
        return pb.StatementResponse()


def _path(request: Any) -> TablePath:
    return table_path(request.table_path.database_name, request.table_path.table_name)
