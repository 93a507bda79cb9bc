"""The SysCatalog service (proto/sys_tables/rpc/v1/sys_catalog.proto), from a coordinator's handle and a registry.

Reads are made in bounded threads of their own. Errors are raised: `tiering.wire.server_guard` ends the call with them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import grpc
import grpc.aio
import pyarrow as pa

from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import SystemTable
from sys_tables.query.data_tables import DataTable, describe_data_table, describe_data_tables
from sys_tables.query.lookup import resolve_database
from sys_tables.query.reading import read_table
from sys_tables.registry import Registry, default_registry
from sys_tables.rpc.v1 import sys_catalog_pb2 as pb
from sys_tables.rpc.v1.sys_catalog_pb2_grpc import SysCatalogServicer, add_SysCatalogServicer_to_server
from sys_tables.server.calls import CallService
from sys_tables.server.fair_pool import FairPool
from sys_tables.server.last_known_databases import LastKnownDatabases
from sys_tables.server.messages import (
    data_table_to_pb,
    description_to_pb,
    last_name,
    page_token,
    scan_request_from_pb,
    system_table_to_pb,
)
from sys_tables.server.plan_token import PlanToken
from tiering.access.acting_for import acting_principal, named_user
from tiering.access.authentication import bearer_token
from tiering.access.grants import Access, current_access
from tiering.access.privileges import Privilege, Resource
from tiering.coordinator.interface import CoordinatorHandle, CoordinatorView
from tiering.errors import InvalidArgument, UnknownTable
from tiering.model.names import SYSTEM_DATABASE, check_length, table_path
from tiering.model.tables import TableInfo
from tiering.rpc.v1.control_pb2_grpc import add_TieringControlServicer_to_server
from tiering.wire.errors import error_to_pb
from tiering.wire.server_guard import FailureLog

MAX_PAGE_SIZE = 1_000
"""Most names of one page. A page of the longest names is far below gRPC's 4 MiB."""

MAX_PAGE_BYTES = 1 << 20
"""Bytes after which a page of described tables ends. With one more description it is still below gRPC's 4 MiB."""

EXPORTED_HISTORY_ROWS = 10_000
"""Most rows of a table of history if all tables are read at once, for an export."""

_READ_THREADS = 16
_READ_SHARE = 4
_LOOKUP_THREADS = 4

_Context = grpc.aio.ServicerContext[Any, Any]

ConsoleLink = Callable[[str, str | None], str]
"""Returns a one-time link to the console for a caller's name and token."""


class SysCatalogService(SysCatalogServicer):
    """The service. `add_to_server` creates it. Call `close` after the server has stopped."""

    def __init__(self, handle: CoordinatorHandle, registry: Registry, console_link: ConsoleLink | None = None) -> None:
        self._handle = handle
        self._registry = registry
        self._console_link = console_link
        self._databases = LastKnownDatabases()
        self._failures = FailureLog()
        self._reads = FairPool("sys-read", _READ_THREADS, _READ_SHARE)
        self._lookups = FairPool("sys-lookup", _LOOKUP_THREADS, _LOOKUP_THREADS)
        # With its first array pyarrow imports pandas, which takes a second. This happens now, and not in a user's first SELECT.
        pa.array([], pa.int64())

    def close(self) -> None:
        """Stops its threads."""
        self._reads.close()
        self._lookups.close()

    async def Describe(self, request: pb.DescribeRequest, context: _Context) -> pb.DescribeResponse:
        view = self._handle.view()
        return await self._lookups.run("describe", lambda: self._description(view))

    async def ListTables(self, request: pb.ListTablesRequest, context: _Context) -> pb.ListTablesResponse:
        view, access = self._handle.view(), current_access()
        return await self._lookups.run("list", lambda: self._page(view, access, request))

    async def DescribeTable(self, request: pb.DescribeTableRequest, context: _Context) -> pb.DescribeTableResponse:
        if _is_system(request.namespace):
            check_length(request.name, "table")
            return system_table_to_pb(self._registry.table(request.name))
        path, view, access = table_path(request.namespace, request.name), self._handle.view(), current_access()
        return await self._lookups.run("describe", lambda: data_table_to_pb(_for_caller(access, describe_data_table(view, path))))

    async def ReadTable(self, request: pb.ReadTableRequest, context: _Context) -> AsyncGenerator[pb.ReadTableResponse, None]:
        table = self._system_table(request)
        scan = scan_request_from_pb(request, self._registry.procedures)
        if request.token:
            PlanToken.parse(request.token).check(table, sorted(scan.used_columns))
        content = read_table(table, self._handle.view(), scan, null_columns=request.null_columns)
        async with aclosing(self._reads.draw(table.name, content)) as pieces:
            async for piece in pieces:
                yield pb.ReadTableResponse(arrow=piece)

    async def ReadAllTables(self, request: pb.ReadAllTablesRequest, context: _Context) -> AsyncGenerator[pb.ReadAllTablesResponse, None]:
        view, scan = self._handle.view(), ScanRequest(procedures=self._registry.procedures)
        for table in self._registry.tables:
            try:
                limited_scan = replace(scan, limit=EXPORTED_HISTORY_ROWS) if table.is_history else scan
                async with aclosing(self._reads.draw(table.name, read_table(table, view, limited_scan))) as pieces:
                    async for piece in pieces:
                        yield pb.ReadAllTablesResponse(name=table.name, arrow=piece)
            except Exception as error:  # of one table: the others may tell what is wrong
                self._failures.add("/sys_tables.rpc.v1.SysCatalog/ReadAllTables", context.peer(), error, table=table.name)
                yield pb.ReadAllTablesResponse(name=table.name, error=error_to_pb(error))

    async def OpenConsole(self, request: pb.OpenConsoleRequest, context: _Context) -> pb.OpenConsoleResponse:
        """Returns the link. The session that it opens has the token of this call, and so exactly the rights of its caller."""
        if self._console_link is None:
            return pb.OpenConsoleResponse()
        headers = context.invocation_metadata() or ()
        if named_user(headers):
            raise InvalidArgument("a service cannot open the console for one of its users", hint="The user opens it with an own token.")
        caller = acting_principal(check_length(request.caller, "caller"))
        return pb.OpenConsoleResponse(link=self._console_link(caller, bearer_token(headers)))

    def _description(self, view: CoordinatorView) -> pb.DescribeResponse:
        return description_to_pb(self._registry, self._databases.of(view))

    def _page(self, view: CoordinatorView, access: Access, request: pb.ListTablesRequest) -> pb.ListTablesResponse:
        if request.page_size < 0:
            raise InvalidArgument(f"a page of {request.page_size} tables is not possible")
        if _is_system(request.namespace):
            namespace = SYSTEM_DATABASE
            tables: dict[str, SystemTable | TableInfo] = {table.name: table for table in self._registry.tables}
        else:
            namespace = resolve_database(view, check_length(request.namespace, "namespace"))
            tables = {table.path.table_name: table for table in view.tables(namespace)}
        names = sorted(tables)
        start = bisect_right(names, last_name(request.page_token, namespace))
        page = names[start : start + min(request.page_size or MAX_PAGE_SIZE, MAX_PAGE_SIZE)]
        described = _first_bytes(_descriptions(view, access, [tables[name] for name in page])) if request.described else []
        page = page[: len(described)] if described else page
        more = bool(page) and page[-1] != names[-1]
        return pb.ListTablesResponse(table_names=page, tables=described, next_page_token=page_token(namespace, page[-1]) if more else "")

    def _system_table(self, request: pb.ReadTableRequest) -> SystemTable:
        if not _is_system(request.namespace):
            raise UnknownTable(f"{table_path(request.namespace, request.name)} is not a system table: its rows are in the lake")
        return self._registry.table(check_length(request.name, "table"))


def add_to_server(
    server: grpc.aio.Server, handle: CoordinatorHandle, registry: Registry | None = None, console_link: ConsoleLink | None = None
) -> SysCatalogService:
    """Serves the tables and the CALLs of `registry`, by default of all that this version has. The caller closes the service.

    `console_link` is None for a service without a console.
    """
    registry = default_registry() if registry is None else registry
    service = SysCatalogService(handle, registry, console_link)
    add_SysCatalogServicer_to_server(service, server)
    add_TieringControlServicer_to_server(CallService(handle, registry), server)
    return service


def _descriptions(view: CoordinatorView, access: Access, tables: list[SystemTable | TableInfo]) -> Iterator[pb.DescribeTableResponse]:
    """The tables of one namespace as DescribeTable answers them, in their order."""
    yield from (system_table_to_pb(table) for table in tables if isinstance(table, SystemTable))
    data_tables = describe_data_tables(view, [table for table in tables if isinstance(table, TableInfo)])
    yield from (data_table_to_pb(_for_caller(access, table)) for table in data_tables)


def _for_caller(access: Access, table: DataTable) -> DataTable:
    """Returns the table without the place of its lake copy for a caller without SELECT: a shared Spark reads the copy with its own keys."""
    if access.may_table(Privilege.SELECT, table.path):
        return table
    denial = access.denial(Privilege.SELECT, Resource.of_table(table.path))
    return replace(table, lake_path=[], not_in_lake=f"{denial.message}. {denial.hint}")


def _first_bytes(tables: Iterator[pb.DescribeTableResponse]) -> list[pb.DescribeTableResponse]:
    """The first tables, up to the one with which they reach MAX_PAGE_BYTES."""
    page, size = list[pb.DescribeTableResponse](), 0
    for table in tables:
        page.append(table)
        size += table.ByteSize()
        if size >= MAX_PAGE_BYTES:
            break
    return page


def _is_system(namespace: str) -> bool:
    return namespace.lower() == SYSTEM_DATABASE
