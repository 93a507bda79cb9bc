"""The coordinator process: state store, embedded cluster and all services on one port. The composition root of the server side."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import grpc.aio
import structlog

import sys_tables.server.service
from tiering.access.audit import AuditTrail, RefusedCallers
from tiering.access.grants import Grants
from tiering.cli.processes.console import check_console_access, console_access, console_uri, print_address, service_console
from tiering.cli.processes.coordinator_health import CoordinatorHealth
from tiering.cli.processes.data_folder import DataFolder, check_restore_ended, create_default_catalog, open_data_folder
from tiering.cli.processes.lake_check import check_lake_is_the_clusters
from tiering.cli.processes.lineage import lineage
from tiering.cli.processes.monitoring import check_host, monitoring
from tiering.cli.processes.service_access import open_access, open_grants
from tiering.cli.processes.standby import Standby, advertised, beat, check_cluster, refusal
from tiering.cli.spark.lake_reader import spark_reader
from tiering.cli.terminal.access_options import Auth
from tiering.cli.terminal.options import read_pairs
from tiering.cli.terminal.service_options import ServiceOptions
from tiering.cluster.registry import EMBEDDED, STATE_URL, HostedCluster, check_folder, cluster_kind
from tiering.coordinator.memory.leader import Leader, LeaderLock
from tiering.coordinator.memory.sql_store import SqlStore
from tiering.coordinator.options import CoordinatorOptions
from tiering.coordinator.server.coordinator import Coordinator
from tiering.coordinator.server.event_log import log_events
from tiering.coordinator.server.serving import RunningServer, serve
from tiering.errors import InvalidArgument
from tiering.files.folder_lock import FolderLock
from tiering.lake.catalog_properties import with_default_catalog
from tiering.lake.maintenance import SecondCatalog
from tiering.lake.registry import lake_opener
from tiering.model.tables import DEFAULT_LAKE_FORMAT
from tiering.telemetry.call_traces import open_call_traces
from tiering.validate.archive.sealing import TableProver
from tiering.validate.archive.signing_key import ensure_key
from tiering.validate.child import ClusterValidation
from tiering.wire.security.call_authentication import CallAuthentication

if TYPE_CHECKING:
    from sys_tables.console.service.application import ServiceConsole
    from sys_tables.server.service import ConsoleLink

log = structlog.get_logger(__name__)

_PROTECT = (
    "Protect the service with TLS (--server-cert, --server-key) and --auth, or listen on 127.0.0.1, or add --insecure in a trusted network."
)


@dataclass(frozen=True)
class RunningCoordinator:
    """A coordinator whose services answer calls."""

    coordinator: Coordinator
    server: RunningServer

    @property
    def uri(self) -> str:
        return self.server.address

    def tierer_connected(self) -> bool:
        """Returns whether any tierer sends heartbeats."""
        return self.coordinator.heartbeats.tierers.connected(self.coordinator.table_records.now())

    async def wait(self, stopping: asyncio.Event) -> None:
        """Waits until `stopping` is set. Raises Fenced if another coordinator took over the store."""
        ended = {asyncio.create_task(self.server.wait()), asyncio.create_task(stopping.wait())}
        done, pending = await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        for task in done:
            task.result()


@asynccontextmanager
async def running_coordinator(settings: ServiceOptions, stopping: asyncio.Event) -> AsyncIterator[RunningCoordinator | None]:
    """Runs a coordinator while the context is open. Yields None if `stopping` is set while another coordinator still has the folder.

    Raises SetupError for a folder or port that cannot be used, and for a store of another version.
    """
    check_host(settings.host, settings.access.insecure or settings.access.is_protected, _PROTECT)
    check_host(settings.metrics.host, settings.access.insecure)
    check_console_access(settings)
    health = CoordinatorHealth(settings.metrics_tables)
    folder = open_data_folder(settings.data)
    with monitoring(settings.metrics, health.registry, health.not_alive, health.not_ready, health.access_of), ExitStack() as stack:
        lead = await _lead(settings, folder, stopping, stack)
        if lead is None:
            yield None
            return
        grants, audit = open_grants(settings.grants, settings.access, folder.root, stack)
        coordinator, cluster = _open(settings, folder, lead.store, stack, grants, audit)
        coordinator.table_records.events_stored = log_events
        stack.enter_context(lineage(settings.lineage, settings.fluss, coordinator, health.registry))

        def register(server: grpc.aio.Server) -> None:
            sys_tables.server.service.add_to_server(server, coordinator, console_link=lead.console_link)
            if cluster.add_to_server is not None:
                cluster.add_to_server(server)

        traces = open_call_traces(socket.gethostname())
        if traces is not None:
            stack.callback(traces.close)
        access = open_access(settings.access, folder.root)
        interceptors: list[grpc.aio.ServerInterceptor[Any, Any]] = [] if traces is None else [traces]
        if access.authenticator is not None:
            interceptors.append(CallAuthentication(access.authenticator, None if audit is None else RefusedCallers(audit)))
        server = await serve(coordinator, settings.host, lead.port, [register], interceptors, settings.access.tls)
        health.serving(coordinator, access.authenticator)
        try:
            async with lead.shown(settings, coordinator, server):
                with access.found_by_its_owner(server.address):
                    yield RunningCoordinator(coordinator, server)
        finally:
            health.stopping()
            await server.stop()


@dataclass(frozen=True)
class _Leadership:
    """The lead of this coordinator. `lock` is None for a store that only one process can open."""

    port: int
    store: SqlStore
    console: ServiceConsole | None
    lock: LeaderLock | None = None

    @property
    def console_link(self) -> ConsoleLink | None:
        """Returns a link to the console for a caller; None without a console."""
        return None if self.console is None else self.console.link

    @asynccontextmanager
    async def shown(self, settings: ServiceOptions, coordinator: Coordinator, server: RunningServer) -> AsyncIterator[None]:
        """Shows the console, and tells other coordinators on the store the address of this one, while the context is open."""
        if self.console is not None:
            await asyncio.to_thread(self.console.lead, console_uri(settings.access, server.address), console_access(settings.access))
        print_address(self.console)
        if self.lock is None:
            yield
            return
        address = advertised(settings.host, server.port, settings.advertise)
        leader = lambda: Leader(coordinator.table_records.epoch, address, coordinator.cluster.cluster_id)  # noqa: E731
        beating = asyncio.create_task(beat(self.store, self.lock, leader, server.fence))
        try:
            yield
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)


async def _lead(settings: ServiceOptions, folder: DataFolder, stopping: asyncio.Event, stack: ExitStack) -> _Leadership | None:
    """Waits for the folder and for the lead. Returns None if `stopping` is set first."""
    folder_lock = FolderLock(folder.root)
    stack.callback(folder_lock.release)
    if not await _acquired(folder_lock, stopping):
        return None
    if settings.state is None:
        check_restore_ended(folder)
    console = stack.enter_context(service_console(settings))
    store = SqlStore(settings.state or folder.store_url)
    stack.callback(store.close)
    if settings.state is None:
        return _Leadership(settings.port, store, console)
    lock = LeaderLock(settings.state)
    stack.callback(lock.close)
    reason = refusal(
        settings.coordinator.cluster_kind == EMBEDDED, not settings.coordinator.lake_properties, settings.access.auth is Auth.MTLS
    )
    standby = Standby(store, lock, reason, settings.access.tls, console)
    port = await standby.wait(settings.host, settings.port, stopping)
    return None if port is None else _Leadership(port, store, console, lock)


async def _acquired(lock: FolderLock, stopping: asyncio.Event) -> bool:
    """Waits for the lock of the folder. Returns False if `stopping` is set first."""
    acquiring, stopped = asyncio.create_task(lock.acquire_async()), asyncio.create_task(stopping.wait())
    await asyncio.wait({acquiring, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not acquiring.done():
        acquiring.cancel()
        return False
    acquiring.result()
    return True


def _open(
    settings: ServiceOptions, folder: DataFolder, store: SqlStore, stack: ExitStack, grants: Grants, audit: AuditTrail | None
) -> tuple[Coordinator, HostedCluster]:
    lake_properties = with_default_catalog(settings.coordinator.lake_properties, folder.lake_properties)
    options = replace(settings.coordinator, lake_properties=lake_properties)
    check_folder(folder.cluster, options.cluster_kind)
    if options.lake_format == DEFAULT_LAKE_FORMAT and lake_properties.items() >= folder.lake_properties.items():
        create_default_catalog(folder.lake_catalog_file, lake_properties)
    lake_of = lake_opener(lake_properties, None if options.cluster_kind == EMBEDDED else options.lake_format)
    kind = cluster_kind(options.cluster_kind)
    state = {} if settings.state is None else {STATE_URL: settings.state}
    cluster = stack.enter_context(
        kind.host(folder.cluster, {**settings.cluster_settings, **state}, lambda table: lake_of(table.lake_format).check_schema(table))
    )
    check_cluster(store, cluster.owner.cluster_id)
    if (
        cluster.add_to_server is None and not settings.create_lake_tables
    ):  # the cluster has its own servers, so another service may have tiered it
        check_lake_is_the_clusters(cluster.owner, lake_of(options.lake_format))
    options = replace(options, cluster_properties=cluster.properties)
    validation = _validation(settings, folder, options, cluster.owner.cluster_id)
    ensure_key(folder.key_file)
    coordinator = Coordinator(
        store,
        cluster.owner,
        lake_of,
        options,
        validator=lambda call, started: validation.run(call.path, call.level, call.snapshot_id, started),
        prover=TableProver(validation, folder.key_file, lambda: spark_reader(lake_properties)),
        grants=grants,
        audit=audit,
        second_catalog=_second_catalog(settings, lake_properties),
    )
    if settings.state is None:  # a store in PostgreSQL gets this with each beat
        store.lead(Leader(coordinator.table_records.epoch, "", cluster.owner.cluster_id))
    return coordinator, cluster


def _second_catalog(settings: ServiceOptions, lake_properties: Mapping[str, str]) -> SecondCatalog | None:
    """Returns the catalog of --publish, without a connection; None without the option. Raises InvalidArgument."""
    name, properties = settings.coordinator.publish, read_pairs(settings.publish_property or [], "--publish-property")
    if name is None:
        if properties:
            raise InvalidArgument("--publish-property needs --publish", hint="Name the second catalog with --publish NAME.")
        return None
    # Imported here: a lake of another format does not need pyiceberg.
    from tiering.lake.iceberg.catalogs.second import IcebergSecondCatalog

    return IcebergSecondCatalog(name, properties, lake_properties)


def _validation(settings: ServiceOptions, folder: DataFolder, options: CoordinatorOptions, cluster_id: str) -> ClusterValidation:
    is_in_folder = settings.state is None or options.cluster_kind == EMBEDDED
    return ClusterValidation(
        options.cluster_kind,
        folder.cluster if is_in_folder else None,
        options.lake_format,
        options.lake_properties,
        cluster_id=cluster_id,
        cluster_properties=options.cluster_properties,
    )


async def serve_coordinator(settings: ServiceOptions) -> None:
    """Runs `lakeward coordinator`: prints the ready line, and serves until SIGTERM or SIGINT."""
    stopping = stop_signal()
    async with running_coordinator(settings, stopping) as running:
        if running is not None:
            announce(running.uri)
            await running.wait(stopping)
    log.info("coordinator stopped")


def announce(uri: str) -> None:
    """Prints the ready line, for which scripts wait."""
    print(f"lakeward is ready: {uri}", flush=True)


def stop_signal() -> asyncio.Event:
    """Returns an event that SIGTERM and SIGINT set."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    return stopping
