"""Embedded clusters for tests: a clock to drive, a real gRPC server on a loopback port, rows that say where they come from."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from typing import Protocol

import grpc.aio
import pyarrow as pa

from tiering.cluster.base import SplitSource
from tiering.cluster.capabilities import KvSnapshotsOnDemand, TableOptionSetting
from tiering.cluster.embedded.rpc.client import RemoteEmbeddedCluster
from tiering.cluster.embedded.rpc.service import add_to_server
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.writable import TableSpec, WritableCluster
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import BucketKey, TableInfo, TablePath
from tiering.wire.server import open_server


class EmbeddedCluster(SplitSource, WritableCluster, TableOptionSetting, KvSnapshotsOnDemand, Protocol):
    """The interface that the embedded cluster has both in process and over gRPC."""


class ManualClock:
    """Stands still until a test moves it; `set_by` sets its wall time alone."""

    def __init__(self) -> None:
        self.time = datetime(2024, 1, 1, tzinfo=UTC)
        self.elapsed_ms = 0

    def now(self) -> datetime:
        return self.time

    def monotonic_ms(self) -> int:
        return self.elapsed_ms

    def advance(self, seconds: float) -> datetime:
        self.time += timedelta(seconds=seconds)
        self.elapsed_ms += int(seconds * 1_000)
        return self.time

    def set_by(self, step: timedelta) -> None:
        self.time += step


class LoopbackServer:
    """Serves one storage on a loopback port, from an event loop in a thread."""

    def __init__(self, storage: EmbeddedStorage, port: int = 0) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        self._server, self.port = self._run(self._start(storage, port))

    def _run(self, work):  # type: ignore[no-untyped-def]
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    async def _start(self, storage: EmbeddedStorage, port: int) -> tuple[grpc.aio.Server, int]:
        server = open_server()
        add_to_server(server, storage)
        bound = server.add_insecure_port(f"127.0.0.1:{port}")
        await server.start()
        return server, bound

    @property
    def uri(self) -> str:
        return f"127.0.0.1:{self.port}"

    def stop(self) -> None:
        self._run(self._server.stop(None))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(60)
        self.loop.close()


@contextmanager
def served(storage: EmbeddedStorage) -> Iterator[RemoteEmbeddedCluster]:
    server = LoopbackServer(storage)
    try:
        with RemoteEmbeddedCluster(server.uri) as remote:
            yield remote
    finally:
        server.stop()


PATH = TablePath("sales", "orders")
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("city", pa.string())])


DAYS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("region", pa.string(), nullable=False),
        pa.field("day", pa.date32(), nullable=False),
        pa.field("city", pa.string()),
    ]
)
"""Columns of tables partitioned by region and day."""


def days(*rows: tuple[int, str, str]) -> pa.RecordBatch:
    """Rows of (id, region, day as text)."""
    values = [{"id": number, "region": region, "day": date.fromisoformat(day), "city": f"city {number}"} for number, region, day in rows]
    return pa.RecordBatch.from_pylist(values, schema=DAYS)


def orders(start: int, count: int) -> pa.RecordBatch:
    """Rows whose id says where they come from."""
    ids = range(start, start + count)
    return pa.RecordBatch.from_pydict({"id": list(ids), "city": [None if i % 7 == 0 else f"city {i % 5}" for i in ids]}, schema=SCHEMA)


def make_table(
    cluster: WritableCluster,
    *,
    bucket_count: int = 1,
    bucket_keys: tuple[str, ...] = (),
    partition_keys: tuple[str, ...] = (),
    primary_key: tuple[str, ...] = (),
    properties: Mapping[str, str] | None = None,
    schema: pa.Schema = SCHEMA,
    path: TablePath = PATH,
) -> TableInfo:
    cluster.create_database(path.database_name, ignore_if_exists=True)
    spec = TableSpec(schema, bucket_count, bucket_keys, properties or {}, primary_key=primary_key, partition_keys=partition_keys)
    return cluster.create_table(path, spec)


def cities(*rows: tuple[int, str | None]) -> pa.RecordBatch:
    """Rows of (id, city)."""
    return pa.RecordBatch.from_pydict({"id": [number for number, _ in rows], "city": [city for _, city in rows]}, schema=SCHEMA)


def order_ids(*numbers: int) -> pa.RecordBatch:
    """Keys of a table with the primary key id."""
    return pa.RecordBatch.from_pydict({"id": list(numbers)}, schema=pa.schema([SCHEMA.field("id")]))


def split_of(table: TableInfo, bucket: int | BucketKey, start: int, stop: int) -> TieringLogSplit:
    return TieringLogSplit(table.path, bucket if isinstance(bucket, BucketKey) else BucketKey(None, bucket), None, start, stop, stop)


def scan(cluster: SplitSource, table: TableInfo, bucket: int | BucketKey, start: int, stop: int) -> pa.Table:
    batches = list(cluster.reader(table, split_of(table, bucket, start, stop)).read())
    return pa.Table.from_batches(batches, schema=table.read_schema())


def scan_all(cluster: SplitSource, table: TableInfo) -> pa.Table:
    """Every bucket from start to end, one after the other."""
    bounds = cluster.offsets(table)
    return pa.concat_tables([scan(cluster, table, key, ends.log_start, ends.log_end) for key, ends in bounds.items()])


def all_threads(work: Sequence[Callable[[], None]]) -> None:
    """Runs all at once and raises the first error."""
    errors: list[BaseException] = []

    def guarded(task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(task,)) for task in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if errors:
        raise errors[0]
