"""The tierer process: a PySpark driver that runs rounds until a signal stops it."""

from __future__ import annotations

import os
import signal
import socket
import threading
from datetime import datetime
from importlib.metadata import version

import structlog

from tiering.cli.processes.monitoring import check_host, monitoring
from tiering.cli.spark.java import require_java
from tiering.cli.terminal.options import MetricsAddress, TiererOptions, read_pairs
from tiering.clock import RandomIds, SystemClock
from tiering.cluster.registry import EMBEDDED, ClusterAddress, cluster_kind
from tiering.coordinator.memory.tierer_registry import check_tierer_id
from tiering.instants import to_milliseconds
from tiering.lake.registry import lake_opener, properties_from_service
from tiering.round.lease_keeper import LeaseKeeper
from tiering.round.progress import ProgressPulse
from tiering.round.runner import RoundEnvironment
from tiering.round.tasks.inline_runner import InlineTaskRunner, usable_threads
from tiering.round.tasks.spark_runner import SparkTaskRunner
from tiering.round.tasks.spark_session import open_spark, warm_up
from tiering.round.tierer import Tierer
from tiering.round.tierer import TiererOptions as RoundOptions
from tiering.round.transport import GrpcTransport
from tiering.round.watch import TiererWatch, Watches
from tiering.rpc.v1.coordinator_pb2 import GetServiceConfigResponse
from tiering.telemetry.http_server import new_registry
from tiering.telemetry.tierer_metrics import TiererMetrics
from tiering.telemetry.traces import open_traces

log = structlog.get_logger(__name__)

END_SECONDS = 9.0
"""The process ends this long after a SIGTERM, whatever Spark does. The promise is ten seconds."""
PARENT_POLL_SECONDS = 1.0


def run_tierer(
    uri: str,
    settings: TiererOptions,
    address: MetricsAddress,
    *,
    tierer_id: str | None = None,
    parent_pid: int | None = None,
    insecure: bool = False,
) -> None:
    """Runs the tierer until SIGTERM or SIGINT. Raises SetupError without Java, and InvalidArgument for an invalid tierer id.

    It stops when `parent_pid` is no longer its parent, because `lakeward up` was killed. `insecure`: whether metrics may be served on an
    address other than loopback.
    """
    check_tierer_id(tierer_id or "")
    check_host(address.host, insecure)
    require_java()
    clock, ids = SystemClock(), RandomIds()
    # Start Spark first: the start of its JVM forks, and a process with open gRPC channels should not fork.
    spark = open_spark(settings.master, "lakeward tierer", read_pairs(settings.conf or (), "--conf"))
    threading.Thread(target=warm_up, args=(spark,), daemon=True).start()
    tierer_id = tierer_id or f"{socket.gethostname()}-{ids.new_id()[:8]}"
    incarnation = ids.new_id()
    traces = open_traces(clock, tierer_id)
    transport = GrpcTransport(uri, tierer_id, incarnation, None if traces is None else traces.metadata)
    stopping = _catch_signals(transport, parent_pid)
    config = transport.service_config()
    registry = new_registry()
    metrics = TiererMetrics(registry, clock, settings.slots, ready_ms=config.service_timeout_ms // 2)
    watch = Watches([watch for watch in (metrics, traces) if watch is not None])
    world = _world(uri, config, transport, SparkTaskRunner(spark), tierer_id, watch)
    application_id = spark.sparkContext.applicationId or ""
    tierer = Tierer(world, _round_options(settings, config.service_timeout_ms, tierer_id, incarnation, application_id, clock.now()))
    with monitoring(address, registry, lambda: None, metrics.not_ready):
        threading.Thread(target=_stop_when, args=(stopping, tierer), daemon=True).start()
        log.info("tierer is ready", tierer_id=tierer_id, uri=uri, master=settings.master, slots=settings.slots)
        tierer.run()
    transport.close()
    if traces is not None:
        traces.close()
    spark.stop()
    log.info("tierer stopped", tierer_id=tierer_id)


def _round_options(
    settings: TiererOptions, service_timeout_ms: int, tierer_id: str, incarnation: str, application_id: str, started_at: datetime
) -> RoundOptions:
    return RoundOptions(
        tierer_id=tierer_id,
        host=socket.gethostname(),
        application_id=application_id,
        version=version("lakeward"),
        started_at_ms=to_milliseconds(started_at),
        incarnation=incarnation,
        slots=settings.slots,
        service_timeout_ms=service_timeout_ms,
        stalled_after_ms=settings.stalled_after_ms,
    )


def _world(
    uri: str, config: GetServiceConfigResponse, transport: GrpcTransport, spark: SparkTaskRunner, tierer_id: str, watch: TiererWatch
) -> RoundEnvironment:
    clock, ids = SystemClock(), RandomIds()
    lake_properties = properties_from_service(config.lake_format, config.lake_properties)
    return RoundEnvironment(
        transport=transport,
        cluster=cluster_kind(config.cluster_kind).connect(ClusterAddress(uri, config.cluster_id, config.cluster_properties)),
        lake=lake_opener(lake_properties, None if config.cluster_kind == EMBEDDED else config.lake_format),
        inline=InlineTaskRunner(usable_threads(), ProgressPulse()),
        spark=spark,
        clock=clock,
        ids=ids,
        inline_round_bytes=config.inline_round_bytes,
        leases=LeaseKeeper(transport, clock, f"{tierer_id}-{ids.new_id()[:8]}"),
        watch=watch,
    )


def _catch_signals(transport: GrpcTransport, parent_pid: int | None) -> threading.Event:
    """Returns an event that SIGTERM, SIGINT and the death of the parent set. The process then ends within END_SECONDS."""
    stopping = threading.Event()

    def stop(*_: object) -> None:
        if not stopping.is_set():
            timer = threading.Timer(END_SECONDS, os._exit, args=(0,))
            timer.daemon = True
            timer.start()
        stopping.set()
        transport.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    if parent_pid is not None:
        threading.Thread(target=_watch_parent, args=(parent_pid, stopping), daemon=True).start()
    return stopping


def _watch_parent(parent_pid: int, stopping: threading.Event) -> None:
    while not stopping.wait(PARENT_POLL_SECONDS):
        if os.getppid() != parent_pid:
            log.warning("the parent process has ended; stopping")
            os.kill(os.getpid(), signal.SIGTERM)
            return


def _stop_when(stopping: threading.Event, tierer: Tierer) -> None:
    stopping.wait()
    tierer.stop()
