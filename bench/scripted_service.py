"""A real coordinator process over a cluster and a lake in memory, for benches with scripted rounds.

    .venv/bin/python bench/scripted_service.py --store /tmp/x --tables 1000

The cluster has log tables of one bucket, each of which gets a row every `--row-seconds`: where a log ends follows from the time, so every
process knows it. The lake keeps real markers, which the coordinator reads as it reads any lake's; who runs rounds asks `bench.Lake` for the
base and sends it commits, beside the real services on the same port. The store is SQLite, the server and its background are the real ones.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import pickle
import signal
import subprocess
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import grpc.aio
import running.tests_path  # noqa: F401
from running.processes import python_process
from upkeep.large_tables import LargeTables

from support.clusters.memory_cluster import MemoryCluster, log_table
from support.lakes.memory_lake import MemoryLake, Request
from sys_tables.registry import default_registry
from sys_tables.rpc.v1.sys_catalog_pb2_grpc import add_SysCatalogServicer_to_server
from sys_tables.server.service import SysCatalogService
from tiering.access.requirements import RPCS, PrivilegeTarget, Requirement
from tiering.coordinator.memory.sql_store import SqlStore, sqlite_url
from tiering.coordinator.options import CoordinatorOptions
from tiering.coordinator.server.coordinator import Coordinator
from tiering.coordinator.server.serving import serve
from tiering.errors import LakeUnavailable
from tiering.lake.base import LakeView
from tiering.lake.health.measure import FileTotals, LakeMeasure
from tiering.lake.iceberg.lake import IcebergLake
from tiering.lake.marker import Marker, TieredRange
from tiering.model.tables import BucketKey, BucketOffsets, Offsets, TableInfo, TablePath

ONLY = BucketKey(None, 0)
ROW_BYTES = 100.0
LAKE_SERVICE = "bench.Lake"
HANGING_SECONDS = 30.0
HEALTHY = LakeMeasure(FileTotals(target_bytes=1), snapshots=1, oldest_snapshot_time=None, manifests=1, metadata_files=1, metadata_bytes=1)


def infos(tables: int, freshness_seconds: float, first_due: datetime, large: LargeTables | None = None) -> list[TableInfo]:
    """Log tables whose first due times spread over one freshness; behind them the large ones."""
    tables_due = []
    for number in range(1, tables + 1):
        since = first_due - timedelta(seconds=freshness_seconds * number / tables)
        info = log_table(number, TablePath("many", f"t{number:05d}"), buckets=1)
        tables_due.append(replace(info, freshness_ms=int(freshness_seconds * 1_000), created_at=since, lake_enabled_at=since))
    if large is not None:
        tables_due += large.infos(tables, freshness_seconds, first_due)
    return tables_due


class TickingCluster(MemoryCluster):
    """A cluster whose logs grow with the time. The `large_rows` of large tables are already in the lake."""

    def __init__(self, tables: Sequence[TableInfo], start: datetime, row_seconds: float, large_rows: int = 0) -> None:
        super().__init__(*tables)
        self.large_ids = {table.table_id for table in tables if table.auto_compaction}
        self._large_rows = large_rows
        self.by_id = {table.table_id: table for table in tables}
        self._listed, self._start, self._row_seconds = list(tables), start, row_seconds

    def tables(self, database_name: str | None = None) -> Sequence[TableInfo]:
        return list(self._listed)  # a new list, as of a cluster that is asked anew each time

    def end(self, table_id: int, at: datetime | None = None) -> int:
        """Rows written until then, or now."""
        if table_id in self.large_ids:
            return self._large_rows
        seconds = ((at or datetime.now(UTC)) - self._written(table_id, 0)).total_seconds()
        return max(int(seconds // self._row_seconds) + 1, 0)

    def _written(self, table_id: int, offset: int) -> datetime:
        phase = table_id % 97 / 97 * self._row_seconds
        return self._start + timedelta(seconds=phase + offset * self._row_seconds)

    def age(self, table_id: int, offset: int) -> float:
        """Seconds since that row was written."""
        return (datetime.now(UTC) - self._written(table_id, offset)).total_seconds()

    def offsets(self, table: TableInfo) -> Mapping[BucketKey, BucketOffsets]:
        return {ONLY: BucketOffsets(0, self.end(table.table_id), ROW_BYTES)}

    def oldest_timestamps(self, table: TableInfo, offsets: Offsets) -> Mapping[BucketKey, datetime]:
        return {bucket: self._written(table.table_id, offset) for bucket, offset in offsets.items() if offset < self.end(table.table_id)}


@dataclass(frozen=True)
class Base:
    """State from which a round continues."""

    uuid: str
    head: int | None
    tag: int | None
    marker: Marker | None
    tiered: int


class ServedLake:
    """The lake in memory, for the coordinator in this process and for rounds in others. `hanging`: tables for which it does not answer
    the coordinator. `real`: the lake of the large tables.
    """

    def __init__(self, cluster: TickingCluster, hanging: frozenset[int], real: IcebergLake | None = None) -> None:
        self._real, self._large = real, {cluster.by_id[table_id].path for table_id in cluster.large_ids}
        self.lake, self._cluster, self._lock = MemoryLake(), cluster, threading.Lock()
        self._hanging = frozenset(cluster.by_id[table_id].path for table_id in hanging)
        self.peaks: list[tuple[int, float]] = []
        """Table, and seconds since the oldest row was written that the commit brought."""

    format = "iceberg"

    def view(self, path: TablePath) -> LakeView | None:
        """The cluster as the coordinator reads it."""
        if path in self._hanging:
            time.sleep(HANGING_SECONDS)
            raise LakeUnavailable("the lake's catalog has not answered")
        if self._real is not None and path in self._large:
            return self._real.view(path)
        with self._lock:
            return self.lake.view(path)

    def measure(self, table: TableInfo, view: LakeView) -> LakeMeasure:
        """Tables in memory are healthy."""
        if self._real is not None and table.path in self._large:
            return self._real.measure(table, view)
        return HEALTHY

    def view_for_rounds(self, path: TablePath) -> LakeView | None:
        """The cluster as rounds read it."""
        with self._lock:
            return self.lake.view(path)

    def databases(self) -> list[str]:
        return self.lake.databases()

    def begin(self, table_id: int) -> Base:
        """Makes the lake table if need be."""
        with self._lock:
            view = self.lake.ensure_table(self._cluster.by_id[table_id])
        tiered = view.marker.buckets[ONLY].tiered if view.marker else 0
        return Base(view.table_uuid, view.head, view.tiered, view.marker, tiered)

    def commit(self, table_id: int, request: Request) -> int | None:
        """The new snapshot, or None if the compare-and-set failed."""
        end = request.marker.buckets[ONLY].tiered
        with self._lock:
            before = self.lake.view(request.path)
            start = before.marker.buckets[ONLY].tiered if before is not None and before.marker is not None else 0
            if not self.lake.receive(request):
                return None
            head = self.lake.tables[request.path].head
        if start and end > start:
            self.peaks.append((table_id, self._cluster.age(table_id, start)))
        return head

    def take_peaks(self) -> list[tuple[int, float]]:
        peaks, self.peaks = self.peaks, []
        return peaks


def next_commit(cluster: TickingCluster, table_id: int, base: Base, round_id: str, epoch: int, end: int) -> Request:
    """The commit that brings the lake to `end`."""
    path = cluster.by_id[table_id].path
    marker = Marker(
        cluster_id=cluster.cluster_id,
        table_id=table_id,
        lake_table_uuid=base.uuid,
        round_id=round_id,
        tiering_epoch=epoch,
        base_round_id=base.marker.round_id if base.marker else None,
        buckets={ONLY: TieredRange(base.tiered, end)},
    )
    return Request(path, base.uuid, base.head, base.tag, marker, ((ONLY, base.tiered, end, f"lakeward-{round_id}.parquet"),))


def register(server: grpc.aio.Server, lake: ServedLake, reads: TimedReads) -> None:
    """Adds `bench.Lake`: pickled arguments, pickled results."""

    def handler(work: Callable[..., Any]) -> grpc.RpcMethodHandler[tuple[Any, ...], bytes]:
        async def handle(request: tuple[Any, ...], context: Any) -> bytes:
            return pickle.dumps(await asyncio.to_thread(work, *request))

        return grpc.unary_unary_rpc_method_handler(handle, request_deserializer=pickle.loads)

    methods: dict[str, Any] = {
        "Begin": handler(lake.begin),
        "Commit": handler(lake.commit),
        "Peaks": handler(lake.take_peaks),
        "View": handler(lake.view_for_rounds),
        "Selects": handler(lambda: reads.ended),
    }
    # The bench's own calls belong to no service of Lakeward, so no caller is authenticated.
    free = Requirement(None, PrivilegeTarget.NOTHING, identified=False)
    cast("dict[str, Requirement]", RPCS).update({f"/{LAKE_SERVICE}/{method}": free for method in methods})
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(LAKE_SERVICE, methods),))
    server.add_registered_method_handlers(LAKE_SERVICE, methods)  # type: ignore[attr-defined]


class TimedReads(SysCatalogService):
    """Remembers what each SELECT took here, in milliseconds, until its last piece was handed to gRPC."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.ended: dict[str, list[float]] = {}

    async def ReadTable(self, request: Any, context: Any) -> AsyncGenerator[Any, None]:
        began = time.perf_counter()
        async for piece in super().ReadTable(request, context):
            yield piece
        self.ended.setdefault(request.name, []).append((time.perf_counter() - began) * 1_000)


def lake_call(channel: grpc.aio.Channel, name: str) -> Callable[..., Awaitable[Any]]:
    """A method of `bench.Lake` for an event loop."""
    call = channel.unary_unary(f"/{LAKE_SERVICE}/{name}", request_serializer=pickle.dumps)

    async def ask(*arguments: Any) -> Any:
        return pickle.loads(await call(arguments))  # gRPC takes None for an error

    return ask


def ask_lake(channel: grpc.Channel, name: str, *arguments: Any) -> Any:
    """The result of a method of `bench.Lake`, waited for."""
    path = f"/{LAKE_SERVICE}/{name}"
    return pickle.loads(channel.unary_unary(path, request_serializer=pickle.dumps)(arguments, timeout=30))  # gRPC takes None for an error


def add_large_tables(parser: argparse.ArgumentParser) -> None:
    """Options for tables with real files."""
    parser.add_argument("--large-lake", type=Path, help="folder of the lake of the large tables; default: there are none")
    parser.add_argument("--large-tables", type=int, default=0)
    parser.add_argument("--large-rows", type=int, default=0, help="of each large table")


def large_tables(arguments: argparse.Namespace) -> LargeTables | None:
    """The large tables that the command line names."""
    return None if arguments.large_lake is None else LargeTables(arguments.large_lake, arguments.large_tables, arguments.large_rows)


def process(arguments: Sequence[str], log: Path) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """This service as a process; ended at the end."""
    return python_process(__file__, *arguments, log=log)


async def run(arguments: argparse.Namespace) -> None:
    start = datetime.fromtimestamp(arguments.start, UTC)
    first_due = start + timedelta(seconds=arguments.first_due)
    large = large_tables(arguments)
    tables = infos(arguments.tables, arguments.freshness, first_due, large)
    cluster = TickingCluster(tables, start, arguments.row_seconds, arguments.large_rows)
    lake = ServedLake(cluster, frozenset(arguments.hanging), None if large is None else large.lake())
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    store = SqlStore(sqlite_url(arguments.store / "coordinator.db"))
    coordinator = Coordinator(store, cluster, lambda _: lake, CoordinatorOptions(cluster_kind="memory"))  # type: ignore[arg-type,return-value]

    def add(server: grpc.aio.Server) -> None:
        reads = TimedReads(coordinator, default_registry())
        add_SysCatalogServicer_to_server(reads, server)
        register(server, lake, reads)

    server = await serve(coordinator, "127.0.0.1", 0, [add])
    print(f"lakeward is ready: {server.address}", flush=True)
    await stopped.wait()
    await server.stop()
    store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--tables", type=int, required=True)
    parser.add_argument("--freshness", type=float, default=120.0, help="seconds")
    parser.add_argument("--row-seconds", type=float, default=10.0)
    parser.add_argument("--start", type=float, default=time.time(), help="when the logs begin, in seconds since the epoch")
    parser.add_argument("--first-due", type=float, default=0.0, help="seconds from then until the first table is due")
    parser.add_argument("--hanging", type=int, nargs="*", default=[], help="tables whose lake does not answer the coordinator")
    parser.add_argument("--core", type=int, help="run on this core alone")
    add_large_tables(parser)
    arguments = parser.parse_args()
    if arguments.core is not None:
        os.sched_setaffinity(0, {arguments.core})
    asyncio.run(run(arguments))


if __name__ == "__main__":
    import scripted_service  # what is pickled here has to have a name that others know

    scripted_service.main()
