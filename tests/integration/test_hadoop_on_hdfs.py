"""A hadoop catalog on a real HDFS beside Spark: executors write, Spark reads and commits, and rounds go on from there."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.lakes.lake_kit import LakeKit, bucket
from support.running.spark_sessions import spark_session
from tiering.cli.spark.properties import lake_properties_for_spark
from tiering.lake.base import Committable, WriterInitContext
from tiering.lake.iceberg.catalogs.opening import open_catalog
from tiering.lake.iceberg.lake import IcebergLake
from tiering.lake.writing.serializers import deserialize_write_result, serialize_write_result


@pytest.fixture
def kit(hdfs: str, tmp_path: Path) -> LakeKit:
    kit = LakeKit(tmp_path)
    kit.properties = {"type": "hadoop", "warehouse": f"hdfs://{hdfs}/{uuid.uuid4().hex}"}
    kit.lake = IcebergLake(kit.properties)
    return kit


@pytest.fixture
def spark(kit: LakeKit, tmp_path: Path) -> Iterator[SparkSession]:
    properties = {**lake_properties_for_spark(kit.properties), "spark.sql.catalog.lake.cache-enabled": "false"}
    with spark_session(tmp_path, properties) as session:
        yield session


def offsets(spark: SparkSession) -> list[tuple[int, int]]:
    return sorted((row[0], row[1]) for row in spark.sql("SELECT `__bucket`, `__offset` FROM lake.sales.orders").collect())


@pytest.mark.soak
def test_executors_write_spark_reads_and_commits_and_rounds_go_on(kit: LakeKit, spark: SparkSession) -> None:
    table = kit.table()
    kit.tier(table, "r1", {bucket(0): 10, bucket(1): 5})

    prepared = kit.prepare(table, "r2", {bucket(0): 10, bucket(1): 8})
    rows, context = kit.rows(table, bucket(0), 10, 25), WriterInitContext(table, prepared.base.table_uuid, bucket(0), None, "r2", "nonce")
    factory = prepared.factory

    def write(_: int) -> bytes:
        writer = factory.create_writer(context)
        writer.write(rows)
        return serialize_write_result(writer.complete(10, 25))

    [written] = spark.sparkContext.parallelize([0], 1).map(write).collect()
    results = (deserialize_write_result(written), prepared.committable.results[1])
    buckets = dict(prepared.marker.buckets) | {bucket(0): replace(prepared.marker.buckets[bucket(0)], tiered=25)}
    replace(prepared, committable=Committable("r2", results), marker=replace(prepared.marker, buckets=buckets)).commit()
    expected = [(0, offset) for offset in range(25)] + [(1, offset) for offset in range(8)]
    assert offsets(spark) == expected

    spark.sql("ALTER TABLE lake.sales.orders SET TBLPROPERTIES ('by' = 'spark')")
    spark.sql("CALL lake.system.rewrite_data_files(table => 'sales.orders', options => map('rewrite-all', 'true'))")
    kit.tier(table, "r3", {bucket(1): 11})
    assert offsets(spark) == [*expected, (1, 8), (1, 9), (1, 10)]
    loaded = open_catalog(kit.properties).load_table("sales.orders")
    assert loaded.properties["by"] == "spark"
    assert loaded.metadata_location.endswith("/v6.metadata.json")  # made, two rounds, two of Spark's, one round
