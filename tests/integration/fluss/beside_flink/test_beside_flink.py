"""Beside Flink's tiering, as Spark sees it: after `deduplicate` each offset once, whatever was compacted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from support.flink.flink_on_iceberg import FlinkOnIceberg, share
from support.running.spark_sessions import spark_session
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA, LakeWorld
from tiering.cli.spark.properties import lake_properties_for_spark
from tiering.cluster.log_writer import LogWriter
from tiering.coordinator.calls.reconcile_lake import reconcile_lake
from tiering.procedures.reconcile_lake import ReconcileLake


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeWorld]:
    world = LakeWorld(Path(tmp_path_factory.mktemp("beside_flink")))
    share(world)
    yield world
    world.close()


@pytest.fixture(scope="module")
def spark(world: LakeWorld, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    world.lake.databases()  # pyiceberg makes the catalog's tables
    properties = {**lake_properties_for_spark(world.lake_properties), "spark.sql.catalog.lake.cache-enabled": "false"}
    with spark_session(tmp_path_factory.mktemp("warehouse"), properties) as session:
        yield session


def keyed(ids: list[int], text: str) -> pa.Table:
    return pa.table({"id": ids, "text": [f"{text} {number}" for number in ids]}, schema=PRIMARY_KEY_SCHEMA)


@pytest.mark.soak
def test_copies_that_spark_compacted_into_one_file_are_deduplicated(world: LakeWorld, spark: SparkSession) -> None:
    table = world.table("orders")
    world.append(table, 0, 50)
    world.tier(table)
    world.append(table, 50, 50)
    late = FlinkOnIceberg(world, table).plan()
    world.tier(table)
    late.append().tell()
    spark.sql("CALL lake.system.rewrite_data_files(table => 'sales.orders', options => map('rewrite-all', 'true'))").collect()
    outcome = world.tier(table)
    assert outcome.error is not None
    assert outcome.error.error_class == "ForeignTieringOverlap"
    done = reconcile_lake(world.coordinator.call_parts, ReconcileLake(table.path, "deduplicate", caller="alice"))
    assert done.records_removed == 50
    counted = spark.sql("SELECT count(*), count(DISTINCT __bucket, __offset) FROM lake.sales.orders").collect()[0]
    assert tuple(counted) == (100, 100)
    assert world.tier(table).error is None
    world.assert_exact(table)
    world.storage.drop_table(table.path)


def test_equality_deletes_and_doubled_keys_of_a_stale_round_are_replayed(world: LakeWorld, spark: SparkSession) -> None:
    table = world.primary_key_table("planes", buckets=1)
    writer = LogWriter(world.storage, table.path, "writer")
    writer.upsert(keyed(list(range(50)), "first"))
    world.tier(table)
    writer.upsert(keyed([0, 1, 2], "second"))
    writer.upsert(keyed([100, 101], "new"))
    stale = FlinkOnIceberg(world, table).plan()
    writer.upsert(keyed([0, 1, 2], "third"))
    writer.delete(pa.table({"id": list(range(10, 20))}, schema=pa.schema([PRIMARY_KEY_SCHEMA.field("id")])))
    world.tier(table)
    stale.append().tell()
    assert spark.sql("SELECT * FROM lake.sales.planes WHERE id = 100").count() == 2
    assert world.tier(table).error is None
    rows = {row["id"]: row["text"] for row in spark.sql("SELECT id, text FROM lake.sales.planes").collect()}
    assert rows == {
        **{number: f"first {number}" for number in range(3, 50) if not 10 <= number < 20},
        **{number: f"third {number}" for number in range(3)},
        100: "new 100",
        101: "new 101",
    }
    assert spark.sql("SELECT * FROM lake.sales.planes").count() == len(rows)
