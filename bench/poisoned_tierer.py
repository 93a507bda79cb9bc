"""A real tierer process over `scripted_service.py`: loop, slots, transport and rounds are the real ones, cluster and lake are in memory.

Some tables are poisoned, each kind in another place; two kinds ask a real REST catalog that never ends an answer.
"""

from __future__ import annotations

import argparse
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import scripted_service as service

from support.clusters.memory_cluster import MemoryReader
from support.lakes.memory_lake import Request, ranges_of
from tiering.clock import RandomIds, SystemClock
from tiering.errors import (
    CommitOutcomeUnknown,
    DataCorrupt,
    LakeRolledBack,
    LakeTableReplaced,
    LakeUnavailable,
    SchemaDrift,
    UnsupportedType,
)
from tiering.instants import to_milliseconds
from tiering.lake.base import NO_PROPERTIES, Committable, LakeView, WriteResult, WriterInitContext
from tiering.lake.iceberg.lake import IcebergLake
from tiering.lake.maintenance import UpkeepPlan
from tiering.lake.marker import Marker
from tiering.model.splits import TieringSplit
from tiering.model.tables import BucketKey, TableInfo, TablePath
from tiering.model.upkeep import UpkeepOrder
from tiering.round.lease_keeper import LeaseKeeper
from tiering.round.runner import RoundEnvironment
from tiering.round.tasks.inline_runner import InlineTaskRunner
from tiering.round.tierer import Tierer, TiererOptions
from tiering.round.transport import GrpcTransport
from tiering.wire.channel import Connection

DRIFT, GONE, DAMAGED, UNWRITABLE, UNKNOWN_TYPE = "drift", "gone lake table", "damaged segment", "unwritable folder", "unknown type"
ROLLED_BACK, SILENT, DRIPPING = "rolled back", "silent catalog", "catalog that answers a byte now and then"
NO_ANSWER, ACK_HANGS = "commit without an answer", "lake that hangs for the coordinator"
KINDS = (DRIFT, GONE, DAMAGED, UNWRITABLE, UNKNOWN_TYPE, ROLLED_BACK, SILENT, DRIPPING, NO_ANSWER, ACK_HANGS)
COMMIT_SECONDS = 120.0


def poisons(tables: int, poisoned: int) -> dict[int, str]:
    """By table id; spread over all tables, so that their first rounds are."""
    ids = range(1, tables + 1, max(tables // poisoned, 1)) if poisoned else range(0)
    return {table_id: KINDS[number % len(KINDS)] for number, table_id in enumerate(ids[:poisoned])}


@dataclass(frozen=True)
class DamagedReader:
    """A split whose segment is damaged."""

    def read(self) -> Iterator[pa.RecordBatch]:
        raise DataCorrupt("a segment is damaged")


class PoisonedCluster(service.TickingCluster):
    """A tierer's view of the cluster."""

    poisons: Mapping[int, str] = {}

    def reader(self, table: TableInfo, split: TieringSplit) -> Any:
        return DamagedReader() if self.poisons.get(table.table_id) == DAMAGED else MemoryReader(table, split)  # type: ignore[arg-type]


class PoisonedLake:
    """The lake of `scripted_service`, asked over gRPC."""

    format = "iceberg"

    def __init__(self, uri: str, cluster: PoisonedCluster, silent_port: int, dripping_port: int, real: IcebergLake | None = None) -> None:
        """`real`: the lake of the large tables."""
        self._real = real
        self._channel = Connection(uri).channel
        self.cluster = cluster
        ports = {SILENT: silent_port, DRIPPING: dripping_port}
        self._hanging = {
            table_id: IcebergLake({"type": "rest", "uri": f"http://127.0.0.1:{ports[kind]}", "warehouse": "s3://lake"})
            for table_id, kind in cluster.poisons.items()
            if kind in ports
        }

    def call(self, name: str, *arguments: Any) -> Any:
        """A method of `bench.Lake`."""
        return service.ask_lake(self._channel, name, *arguments)

    def _real_of(self, table: TableInfo) -> IcebergLake | None:
        return self._real if table.table_id in self.cluster.large_ids else None

    def view(self, path: TablePath) -> LakeView | None:
        table_id = self.cluster.by_path[path].table_id
        if (real := self._real_of(self.cluster.by_path[path])) is not None:
            return real.view(path)
        kind = self.cluster.poisons.get(table_id)
        if table_id in self._hanging:
            return self._hanging[table_id].view(path)
        if kind == GONE:
            raise LakeTableReplaced(f"there is no lake table {path}")
        if kind == ROLLED_BACK:
            raise LakeRolledBack(f"the lake table {path} was rolled back")
        view: LakeView | None = self.call("View", path)
        return view

    def ensure_table(self, table: TableInfo, *, may_create: bool = True) -> LakeView:
        kind = self.cluster.poisons.get(table.table_id)
        if (real := self._real_of(table)) is not None:
            return real.ensure_table(table, may_create=may_create)
        if kind == DRIFT:
            raise SchemaDrift(f"the lake table {table.path} has another column")
        if kind == UNKNOWN_TYPE:
            raise UnsupportedType(f"the column x of {table.path} has an unknown type")
        self.call("Begin", table.table_id)
        view = self.view(table.path)
        assert view is not None
        return view

    def check_schema(self, table: TableInfo) -> None:
        """Holds anything."""

    def bucket_files(self, table: TableInfo, view: LakeView, buckets: Mapping[BucketKey, str | None]) -> Mapping[BucketKey, bytes]:
        return {}

    def databases(self) -> Sequence[str]:
        return []

    def plan_upkeep(self, table: TableInfo, view: LakeView, order: UpkeepOrder, partitions: Mapping[str, int]) -> UpkeepPlan:
        """Only large tables have files."""
        real = self._real_of(table)
        return UpkeepPlan() if real is None else real.plan_upkeep(table, view, order, partitions)

    def tiering_factory(self, table: TableInfo) -> Any:
        real = self._real_of(table)
        return PoisonedFactory(self, table) if real is None else real.tiering_factory(table)


class PoisonedFactory:
    """Writers that count, and committers that send one request."""

    def __init__(self, lake: PoisonedLake, table: TableInfo) -> None:
        self._lake, self._table = lake, table

    def create_writer(self, context: WriterInitContext) -> CountingWriter:
        if self._lake.cluster.poisons.get(self._table.table_id) == UNWRITABLE:
            raise LakeUnavailable("the folder of the lake table cannot be written")
        return CountingWriter(context)

    def create_committer(self) -> PoisonedFactory:
        return self

    def commit(self, committable: Committable, base: LakeView, marker: Marker, properties: Mapping[str, str] = NO_PROPERTIES) -> int:
        if self._lake.cluster.poisons.get(self._table.table_id) == NO_ANSWER:
            time.sleep(COMMIT_SECONDS)
            raise CommitOutcomeUnknown("the catalog has not answered")
        request = Request(self._table.path, base.table_uuid, base.head, base.tiered, marker, ranges_of(committable))
        head = self._lake.call("Commit", self._table.table_id, request)
        if head is None:
            raise CommitOutcomeUnknown("the commit was refused")
        return int(head)

    def abort(self, committable: Committable) -> None:
        """There are no files."""


class CountingWriter:
    """A `LakeWriter` that keeps nothing."""

    def __init__(self, context: WriterInitContext) -> None:
        self._context = context

    def write(self, batch: pa.RecordBatch) -> None:
        """The ranges say it all."""

    def complete(self, starting_offset: int, reached_offset: int) -> WriteResult:
        records = reached_offset - starting_offset
        return WriteResult(self._context.bucket, starting_offset, reached_offset, records, 1, 1, self._context.round_id.encode())

    def abort(self) -> None:
        """There is no file."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--uri", "--name"):
        parser.add_argument(name, required=True)
    for name in ("--tables", "--poisoned", "--slots", "--silent-port", "--dripping-port"):
        parser.add_argument(name, type=int, required=True)
    for name in ("--freshness", "--row-seconds", "--start"):
        parser.add_argument(name, type=float, required=True)
    service.add_large_tables(parser)
    arguments = parser.parse_args()
    start = datetime.fromtimestamp(arguments.start, UTC)
    large = service.large_tables(arguments)
    infos = service.infos(arguments.tables, arguments.freshness, start, large)
    cluster = PoisonedCluster(infos, start, arguments.row_seconds, arguments.large_rows)
    cluster.poisons = poisons(arguments.tables, arguments.poisoned)
    lake: Any = PoisonedLake(
        arguments.uri, cluster, arguments.silent_port, arguments.dripping_port, None if large is None else large.lake()
    )
    clock, ids = SystemClock(), RandomIds()
    transport = GrpcTransport(arguments.uri, arguments.name, arguments.name)
    config, inline = transport.service_config(), InlineTaskRunner()
    leases = LeaseKeeper(transport, clock, f"lease-of-{arguments.name}")
    world = RoundEnvironment(transport, cluster, lambda _: lake, inline, inline, clock, ids, config.inline_round_bytes, leases)
    options = TiererOptions(
        arguments.name,
        "bench",
        "",
        "1",
        to_milliseconds(clock.now()),
        arguments.name,
        slots=arguments.slots,
        service_timeout_ms=config.service_timeout_ms,
        stop_grace_ms=500,
    )
    tierer = Tierer(world, options)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=tierer.stop).start())
    tierer.run()


if __name__ == "__main__":
    main()
