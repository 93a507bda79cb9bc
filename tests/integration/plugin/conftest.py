"""The real SysCatalog service in this process, and Spark sessions that reach it through the plugin's jar."""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from support.repository import ROOT
from support.running.spark_sessions import sessions_started_with, spark_session
from support.worlds.memory_coordinator import MemoryCoordinator
from sys_tables.declare.procedure import Procedure
from sys_tables.declare.system_table import SystemTable
from sys_tables.registry import Registry, default_registry
from sys_tables.rpc.v1 import sys_catalog_pb2 as pb
from sys_tables.rpc.v1.sys_catalog_pb2_grpc import add_SysCatalogServicer_to_server
from sys_tables.server.calls import CallService
from sys_tables.server.service import SysCatalogService
from tiering.cli.fluss_server.held_ports import HeldPort
from tiering.cli.spark.jars import SPARK_JARS, jar_path
from tiering.cli.spark.properties import CATALOG, CATALOG_CLASS
from tiering.rpc.v1.control_pb2 import CallProcedureRequest, CallProcedureResponse
from tiering.rpc.v1.control_pb2_grpc import add_TieringControlServicer_to_server
from tiering.wire.server import open_server

_PATIENCE_S = 60


class GrowingRegistry(Registry):
    """A registry that a test adds to while it is served."""

    def add(self, *, tables: Iterable[SystemTable] = (), procedures: Iterable[Procedure] = ()) -> None:
        super().__init__((*self.tables, *tables), (*self.procedures, *procedures))


class WatchedService(SysCatalogService):
    """Remembers what the plugin asked."""

    def watch(self, reads: list[pb.ReadTableRequest], lookups: list[Any]) -> None:
        self._reads_seen, self._lookups_seen = reads, lookups

    async def ListTables(self, request: pb.ListTablesRequest, context: Any) -> pb.ListTablesResponse:
        self._lookups_seen.append(request)
        return await super().ListTables(request, context)

    async def DescribeTable(self, request: pb.DescribeTableRequest, context: Any) -> pb.DescribeTableResponse:
        self._lookups_seen.append(request)
        return await super().DescribeTable(request, context)

    async def ReadTable(self, request: pb.ReadTableRequest, context: Any) -> AsyncGenerator[pb.ReadTableResponse, None]:
        self._reads_seen.append(request)
        async for piece in super().ReadTable(request, context):
            yield piece


class WatchedCalls(CallService):
    """Stores the requests of CALLs."""

    def __init__(self, handle: MemoryCoordinator, registry: GrowingRegistry, calls: list[CallProcedureRequest]) -> None:
        super().__init__(handle, registry)
        self._calls_seen = calls

    async def CallProcedure(self, request: CallProcedureRequest, context: Any) -> AsyncGenerator[CallProcedureResponse, None]:
        self._calls_seen.append(request)
        async for step in super().CallProcedure(request, context):
            yield step


class Server:
    """A SysCatalog on a loopback port of its own, which it keeps over `stop` and `start`."""

    def __init__(self, handle: MemoryCoordinator, registry: GrowingRegistry, host: str = "127.0.0.1") -> None:
        self.handle = handle
        self.registry = registry
        self.reads: list[pb.ReadTableRequest] = []
        self.calls: list[CallProcedureRequest] = []
        self.lookups: list[pb.ListTablesRequest | pb.DescribeTableRequest] = []
        self._held_port = HeldPort(host.strip("[]"))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sys-catalog", daemon=True)
        self._thread.start()
        self.start()

    @property
    def uri(self) -> str:
        return self._held_port.address

    def start(self) -> None:
        self._run(self._start())

    def stop(self) -> None:
        """At once: calls under way are cut off."""
        self._run(self._stop())

    def close(self) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE_S)
        self._loop.close()
        self._held_port.close()

    async def _start(self) -> None:
        self._server = open_server()
        self._service = WatchedService(self.handle, self.registry)
        self._service.watch(self.reads, self.lookups)
        add_SysCatalogServicer_to_server(self._service, self._server)
        calls = WatchedCalls(self.handle, self.registry, self.calls)
        add_TieringControlServicer_to_server(calls, self._server)
        self._server.add_insecure_port(self.uri)
        await self._server.start()

    async def _stop(self) -> None:
        await self._server.stop(grace=None)
        self._service.close()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_PATIENCE_S)


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """Makes servers: of a coordinator, with the tables and procedures of this version and any others."""
    with _servers() as make:
        yield make


@pytest.fixture(scope="module")
def serve_module() -> Iterator[Callable[..., Server]]:
    """Starts a server, for all tests of a file."""
    with _servers() as make:
        yield make


@contextmanager
def _servers() -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def make(
        handle: MemoryCoordinator | None = None,
        *,
        tables: Iterable[SystemTable] = (),
        procedures: Iterable[Procedure] = (),
        host: str = "127.0.0.1",
    ) -> Server:
        known = default_registry()
        registry = GrowingRegistry((*known.tables, *tables), (*known.procedures, *procedures))
        servers.append(Server(handle or MemoryCoordinator(), registry, host))
        return servers[-1]

    yield make
    for server in servers:
        server.close()


@pytest.fixture(scope="session")
def plugin_jar() -> Path:
    """The jar, built anew if it is older than its sources."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return ROOT / module.build_jars_and_fetch_libraries(ROOT)[0]


@pytest.fixture(scope="package")
def jvm(plugin_jar: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The Spark of this folder's tests, with the plugin on its class path, and Iceberg."""
    jars = ",".join(str(jar_path(jar)) for jar in SPARK_JARS)
    properties = {"spark.driver.extraClassPath": str(plugin_jar), "spark.jars": jars}
    with spark_session(tmp_path_factory.mktemp("warehouse"), properties, "plugin tests") as spark:
        yield spark


@pytest.fixture
def session(jvm: SparkSession) -> Iterator[Callable[..., SparkSession]]:
    """Makes sessions of their own with the catalog `fluss` at a uri; further options by their names."""
    with sessions_started_with(jvm, CATALOG, CATALOG_CLASS) as make:
        yield lambda uri, **options: make({"uri": uri, **{name.replace("_", "-"): value for name, value in options.items()}})


@pytest.fixture
def jobs(jvm: SparkSession) -> Callable[[Callable[[], object]], int]:
    """Counts the Spark jobs that something starts."""
    context, numbers = jvm.sparkContext, count()

    def started_by(work: Callable[[], object]) -> int:
        group = f"counted-{next(numbers)}-{id(work)}"
        context.setJobGroup(group, "counted by a test")
        work()
        return len(context.statusTracker().getJobIdsForGroup(group))

    return started_by
