"""Streaming queries in one Spark session: triggers, options, partitions, deletions, and a log that was cut behind a stopped query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from support.fresh.read_service import reads_at_uri
from support.lake_kinds.kinds import ICEBERG
from support.running.cluster_of_processes import KEYED, Deployment
from support.worlds.lake_world import LakeWorld
from tiering.cli.spark.properties import CATALOG
from tiering.coordinator.readers.streams import STREAM_TTL
from tiering.model.tables import TablePath

LOG_TTL_S = 60
VISITS = pa.schema([pa.field("id", pa.int64()), pa.field("region", pa.string(), nullable=False)])


@dataclass(frozen=True)
class Query:
    """A streaming query over a table, by the catalog or by the data source. `run` starts it from its checkpoint."""

    spark: SparkSession
    uri: str
    path: TablePath
    checkpoint: Path
    by_catalog: bool

    def run(self, suffix: str = "", **options: Any) -> list[list[Row]]:
        """Reads everything that exists. Returns the rows of each batch."""
        batches: list[list[Row]] = []
        self.writer(batches, suffix, **options).trigger(availableNow=True).start().awaitTermination()
        return batches

    def writer(self, batches: list[list[Row]], suffix: str = "", **options: Any) -> DataStreamWriter:
        """Returns the query, which has not begun. It adds the rows of each batch to `batches`."""

        def collect(frame: DataFrame, batch: int) -> None:
            batches.append(frame.collect())

        reader = self.spark.readStream.options(**options)
        if self.by_catalog:
            frame = reader.table(f"{CATALOG}.{self.path.database_name}.`{self.path.table_name}{suffix}`")
        else:
            frame = reader.format("lakeward").option("table", f"{self.path}{suffix}").option("uri", self.uri).load()
        return frame.writeStream.foreachBatch(collect).option("checkpointLocation", str(self.checkpoint))

    def ids(self, **options: Any) -> list[int]:
        return sorted(row.id for batch in self.run(**options) for row in batch)


@pytest.fixture(params=["catalog", "data source"])
def query(request: pytest.FixtureRequest, service: Deployment, fresh_spark: SparkSession, tmp_path: Path) -> Query:
    path = TablePath("sales", f"{request.node.originalname}_{request.param.replace(' ', '_')}".removeprefix("test_"))
    return Query(fresh_spark, service.uri, path, tmp_path / "checkpoint", request.param == "catalog")


def test_available_now_reads_lake_and_log_and_continues_at_the_next_start(service: Deployment, query: Query) -> None:
    service.create(query.path, freshness="1 h")
    service.append(query.path, 0, 60)
    service.lakeward("tier", str(query.path))
    service.append(query.path, 60, 30)
    limit = {"maxRecordsPerTrigger": 25} if query.by_catalog else {}

    first = query.run(**limit)
    service.append(query.path, 90, 10)
    service.lakeward("tier", str(query.path))
    second = query.ids(**limit)

    assert sorted(row.id for batch in first for row in batch) == list(range(90))
    assert second == list(range(90, 100))
    assert query.ids() == []
    if query.by_catalog:
        assert [len(batch) for batch in first] == [20, 20, 25, 25]


def test_a_stream_from_the_latest_offset_has_only_later_rows(service: Deployment, query: Query) -> None:
    service.create(query.path, freshness="1 h")
    service.append(query.path, 0, 60)

    assert query.ids(startingOffsets="latest") == []
    service.append(query.path, 60, 30)
    assert query.ids(startingOffsets="latest") == list(range(60, 90))


def test_a_stream_begins_at_offsets_per_bucket_and_its_batches_have_a_limit(service: Deployment, query: Query) -> None:
    service.create(query.path, freshness="1 h", buckets=1)
    service.append(query.path, 0, 30)
    service.lakeward("tier", str(query.path))

    sizes, read = list[int](), list[int]()
    while any(batches := query.run(startingOffsets='{"0": 12}', maxRecordsPerTrigger=5)):
        sizes += [len(batch) for batch in batches]
        read += [row.id for batch in batches for row in batch]

    assert sizes == [5, 5, 5, 3]
    assert sorted(read) == list(range(12, 30))


def test_a_recreated_table_ends_the_query_with_both_ids(service: Deployment, query: Query) -> None:
    ids = []
    for count in (3, 7):
        service.create(query.path, freshness="1 h", kind=None)
        with service.cluster() as cluster:
            ids.append(cluster.table(query.path).table_id)
        service.append(query.path, 0, count)
        if count == 3:
            assert query.ids() == [0, 1, 2]
            service.drop(query.path)

    with pytest.raises(StreamingQueryException, match=rf"TableMismatch.* began with the table id {ids[0]}, now it is {ids[1]}"):
        query.run()
    assert replace(query, checkpoint=query.checkpoint.with_name("other")).ids() == list(range(7))


def test_a_query_ends_when_the_service_is_away_and_continues_when_it_is_back(service: Deployment, query: Query) -> None:
    service.create(query.path, freshness="1 h")
    service.append(query.path, 0, 30)
    batches: list[list[Row]] = []
    running = query.writer(batches).start()
    running.processAllAvailable()
    port = service.port

    service.kill_coordinator()
    with pytest.raises(StreamingQueryException, match=r"no Lakeward service answers|ServiceUnreachable"):
        running.awaitTermination(120)
    service.start_coordinator(port=port)
    service.append(query.path, 30, 10)
    service.lakeward("tier", str(query.path))

    assert sorted(row.id for batch in batches for row in batch) == list(range(30))
    assert query.ids() == list(range(30, 40))


def test_partitions_come_and_go_between_two_starts(service: Deployment, query: Query) -> None:
    service.create(query.path, "1 h", VISITS, 1, None, partition_keys=("region",))
    with service.cluster() as cluster:
        rows = [pa.record_batch({"id": [number], "region": [region]}, schema=VISITS) for number, region in enumerate(("n", "s", "n", "w"))]
        cluster.append(query.path, rows[0], "writer", 0)
        cluster.append(query.path, rows[1], "writer", 1)
        assert query.ids() == [0, 1]
        cluster.append(query.path, rows[2], "writer", 2)
        cluster.append(query.path, rows[3], "writer", 3)
        cluster.drop_partition(query.path, "s")

    with pytest.raises(StreamingQueryException, match=r"partition of bucket .* was dropped"):
        query.run(failOnDataLoss="true")
    assert query.ids() == [2, 3]


def test_a_deletion_in_a_primary_key_table_is_an_error_or_ignored(service: Deployment, query: Query) -> None:
    service.create_keyed(query.path, buckets=1)
    with service.cluster() as cluster:
        cluster.upsert(query.path, pa.record_batch({"id": [1, 2, 3], "text": ["a", "b", "c"]}, schema=KEYED), "writer", 0)
        service.lakeward("tier", str(query.path))
        cluster.upsert(query.path, pa.record_batch({"id": [2], "text": ["d"]}, schema=KEYED), "writer", 1)
        assert [(row.id, row.text) for batch in query.run() for row in batch] == [(1, "a"), (2, "b"), (3, "c"), (2, "d")]
        cluster.delete(query.path, pa.record_batch({"id": [1]}, schema=pa.schema([KEYED.field("id")])), "writer", 2)
        cluster.upsert(query.path, pa.record_batch({"id": [4], "text": ["e"]}, schema=KEYED), "writer", 3)

    with pytest.raises(StreamingQueryException, match=r"changelog"):
        query.run()
    assert query.ids(ignoreDeletes="true") == [4]


def test_wrong_options_are_refused(service: Deployment, query: Query) -> None:
    service.create(query.path, freshness="1 h")

    numbers = [{"maxRecordsPerTrigger": text} for text in ("many", "0", "-5", str(2**63))]
    for options in (*numbers, {"failOnDataLoss": "perhaps"}, {"startingOffsets": "newest"}):
        with pytest.raises(Exception, match=f"{next(iter(options))}|{next(iter(options.values()))}") as refused:
            query.run(**options)
        assert ("must be a whole number from 1 to 9223372036854775807" in str(refused.value)) == (options in numbers)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LakeWorld]:
    lake_world = LakeWorld(tmp_path / "world", kind=ICEBERG)
    yield lake_world
    lake_world.close()


def test_a_log_that_was_cut_behind_a_stopped_query_ends_it_with_the_offsets(
    world: LakeWorld, fresh_spark: SparkSession, tmp_path: Path
) -> None:
    table = world.table("orders", buckets=1, log_ttl=f"{LOG_TTL_S} s")
    world.append(table, 0, 10)
    with reads_at_uri(world) as uri:
        query = Query(fresh_spark, uri, table.path, tmp_path / "checkpoint", False)
        assert query.ids() == list(range(10))
        world.append(table, 10, 6)
        world.tier(table)
        world.clock.advance((STREAM_TTL + timedelta(seconds=LOG_TTL_S + 1)).total_seconds())
        world.coordinator.reads.open_reads.expire()
        world.storage.maintenance.run()

        for _ in range(2):
            with pytest.raises(StreamingQueryException, match=r"\[LogTruncated\] bucket 0 .* up to offset 10, .* starts at 16"):
                query.run()
        assert replace(query, checkpoint=tmp_path / "other").ids() == list(range(16))
