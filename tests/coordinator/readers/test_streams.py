"""Streams over real gRPC: batches by their offsets alone, and what the service keeps for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from support.fresh.held_logs import ids
from support.fresh.read_service import reads_at_uri
from support.lake_kinds.kinds import ICEBERG, ICEBERG_CLEAN
from support.worlds.lake_world import LakeWorld
from tiering.coordinator.readers import open_reads as open_reads_module
from tiering.coordinator.readers.open_reads import OpenReads
from tiering.coordinator.readers.streams import STREAM_TTL
from tiering.errors import InvalidArgument, LogTruncated, ServiceBusy, UnknownTable
from tiering.model.tables import BucketKey, TableInfo, TablePath
from tiering.union_read.streams.batches import StreamOptions
from tiering.union_read.streams.client import StreamClient
from tiering.union_read.streams.offsets import BEGINNING

BUCKET = BucketKey(None, 0)
VISITS = pa.schema([pa.field("id", pa.int64()), pa.field("region", pa.string(), nullable=False)])


@dataclass
class Query:
    """A run of a query."""

    client: StreamClient
    checkpoint: str = BEGINNING

    def next_end(self, max_records: int | None = None) -> str:
        return self.client.next_batch(self.checkpoint, max_records)

    def rows(self, end: str) -> list[int]:
        return ids(self.client.plan_batch(self.checkpoint, end, ["id"]))

    def run(self, max_records: int | None = None) -> list[int]:
        """Runs one batch. Returns its rows."""
        end = self.next_end(max_records)
        if end == self.checkpoint:
            return []
        rows, self.checkpoint = self.rows(end), end
        return rows


@dataclass
class Service:
    world: LakeWorld
    uri: str

    @property
    def open_reads(self) -> OpenReads:
        return self.world.coordinator.reads.open_reads

    def query(self, path: TablePath, stream_id: str = "run 1") -> Query:
        return Query(StreamClient(self.uri, StreamOptions(path), stream_id, "application 1"))


@pytest.fixture(params=[ICEBERG, ICEBERG_CLEAN], ids=lambda kind: kind.name)
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    world = LakeWorld(tmp_path, kind=request.param)
    try:
        with reads_at_uri(world) as uri:
            yield Service(world, uri)
    finally:
        world.close()


def tiered_table(world: LakeWorld, **options: str) -> TableInfo:
    """A table of one bucket with 30 rows in three lake files, and 5 rows in the log alone."""
    table = world.table("orders", buckets=1, **options)
    for start in range(0, 30, 10):
        world.append(table, start, 10)
        world.due()
        world.tier(table)
    world.append(table, 30, 5)
    return table


def visit(world: LakeWorld, table: TableInfo, number: int, region: str) -> None:
    world.storage.append(table.path, pa.record_batch({"id": [number], "region": [region]}, schema=VISITS), f"writer-{number}", 0)


def test_batches_follow_each_other_from_lake_to_log(service: Service) -> None:
    table = tiered_table(service.world)
    orders = service.query(table.path)

    batches = []
    while rows := orders.run(12):
        batches.append(rows)
        service.world.due()
        service.world.tier(table)

    assert [len(rows) for rows in batches] == [10, 10, 12, 3]
    assert sorted(row for rows in batches for row in rows) == list(range(35))
    assert orders.next_end() == orders.checkpoint


def test_a_stream_is_an_open_read_that_each_call_moves(service: Service) -> None:
    table = tiered_table(service.world)
    head = service.world.view(table).head
    orders = service.query(table.path)

    orders.run(10)
    [read] = service.open_reads.all()
    assert (read.engine, read.application_id, read.moment.lake_snapshot_id) == ("stream", "application 1", head)
    assert service.open_reads.kept_log(table.table_id) == {BUCKET: 30}

    while orders.run(10):
        service.world.clock.advance(60)
    [moved] = service.open_reads.all()
    assert (moved.read_id, moved.opened_at, moved.moment.lake_snapshot_id) == (read.read_id, read.opened_at, None)
    assert service.open_reads.kept_log(table.table_id) == {BUCKET: 35}
    assert moved.expires_at - moved.renewed_at == STREAM_TTL


def test_a_batch_keeps_the_log_of_a_partition_that_is_new_to_the_stream(service: Service) -> None:
    table = service.world.table("visits", 1, ("region",), VISITS)
    visits = service.query(table.path)
    visit(service.world, table, 0, "north")
    assert visits.run() == [0]
    visit(service.world, table, 1, "south")

    assert visits.rows(visits.next_end()) == [1]

    partitions = service.world.storage.partitions(table)
    starts = {BucketKey(partition.partition_id, 0): int(partition.partition_name == "north") for partition in partitions}
    assert service.open_reads.kept_log(table.table_id) == starts


def test_a_stream_that_makes_no_calls_ends_after_its_time(service: Service) -> None:
    table = tiered_table(service.world)
    service.query(table.path).run()

    service.world.clock.advance((STREAM_TTL - timedelta(seconds=1)).total_seconds())
    assert service.open_reads.expire() == []
    service.world.clock.advance(1)
    assert [read.engine for read in service.open_reads.expire()] == ["stream"]


def test_two_runs_keep_what_each_of_them_needs(service: Service) -> None:
    table = tiered_table(service.world)
    first, second = service.query(table.path, "run 1"), service.query(table.path, "run 2")
    first.run()
    service.world.append(table, 35, 5)
    second.run()
    second.run()
    second.next_end()

    assert service.open_reads.kept_log(table.table_id) == {BUCKET: 30}
    first.next_end()
    assert service.open_reads.kept_log(table.table_id) == {BUCKET: 35}


def test_errors_arrive_with_their_class(service: Service) -> None:
    table = tiered_table(service.world, log_ttl="60 s")
    orders = service.query(table.path)
    orders.run()
    service.world.append(table, 35, 5)
    service.world.due()
    service.world.tier(table)
    service.world.clock.advance(STREAM_TTL.total_seconds() + 61)
    service.open_reads.expire()
    service.world.storage.maintenance.run()

    with pytest.raises(LogTruncated, match=r"bucket 0 of sales.orders: .* up to offset 35, .* starts at 40"):
        orders.run()
    with pytest.raises(InvalidArgument, match="must be at least 1"):
        orders.run(0)
    with pytest.raises(InvalidArgument, match="cannot be read"):
        replace(orders, checkpoint="{}").run()
    with pytest.raises(UnknownTable):
        service.query(TablePath("sales", "nothing")).run()


def test_a_running_stream_goes_on_when_no_further_read_may_be_opened(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tiered_table(service.world)
    query = service.query(table.path)
    assert query.run() == list(range(35))
    monkeypatch.setattr(open_reads_module, "MAX_OPEN_READS", 1)
    service.world.append(table, 35, 3)

    with pytest.raises(ServiceBusy, match="1 reads of tables are open"):
        service.query(table.path, "run 2").run()
    with pytest.raises(ServiceBusy, match="1 reads of tables are open"):
        service.world.coordinator.reads.open(table.path, "spark", "application 1")
    assert query.run() == [35, 36, 37]
