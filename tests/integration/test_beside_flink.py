"""Beside Flink's tiering, as Spark sees it: after `deduplicate` each offset once, whatever was compacted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.flink.flink_on_iceberg import FlinkOnIceberg, share
from support.running.spark_sessions import spark_session
from support.worlds.lake_world import LakeWorld
from tiering.cli.spark.properties import lake_properties_for_spark
from tiering.coordinator.calls.reconcile_lake import ReconcileLake, reconcile_lake


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
    assert done.rows_removed == 50
    counted = spark.sql("SELECT count(*), count(DISTINCT __bucket, __offset) FROM lake.sales.orders").collect()[0]
    assert tuple(counted) == (100, 100)
    assert world.tier(table).error is None
    world.assert_exact(table)
