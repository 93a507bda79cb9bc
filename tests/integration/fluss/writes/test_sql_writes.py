"""INSERT INTO and DELETE FROM through the plugin, on a real Fluss cluster: executors write with Fluss's own client."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Row, SparkSession

from support.clusters.fluss_tables import FlussTables
from support.running.cluster_of_processes import KEYED, SCHEMA
from support.running.fluss_deployment import BY_HAND

BY_DAY = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("day", pa.string(), nullable=False), ("text", pa.string())])
TYPES = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("price", pa.decimal128(20, 4)),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("local", pa.timestamp("us")),
        pa.field("bytes", pa.binary()),
        pa.field("truth", pa.bool_()),
        pa.field("real", pa.float64()),
    ]
)


def rows(spark: SparkSession, statement: str) -> list[Row]:
    return spark.sql(statement).collect()


def test_rows_of_a_log_table_are_appended_by_several_tasks(tables: FlussTables, spark: SparkSession) -> None:
    tables.create("written", SCHEMA, buckets=3, properties=BY_HAND)

    spark.sql("INSERT INTO fluss.sales.written SELECT id, 'many' FROM range(0, 20000, 1, 3)")
    spark.sql("INSERT INTO fluss.sales.written (text) VALUES ('no id')")

    assert rows(spark, "SELECT count(*), count(DISTINCT id), count(text) FROM fluss.sales.written") == [(20_001, 20_000, 20_001)]


def test_rows_of_a_primary_key_table_are_upserted_and_deleted(tables: FlussTables, spark: SparkSession) -> None:
    tables.create("keyed_rows", KEYED, ("id",), buckets=2, properties=BY_HAND)

    spark.sql("INSERT INTO fluss.sales.keyed_rows VALUES (1, 'old'), (2, 'old'), (3, 'old')")
    spark.sql("INSERT INTO fluss.sales.keyed_rows VALUES (1, 'new')")
    spark.sql("DELETE FROM fluss.sales.keyed_rows WHERE id IN (2, 99)")

    assert rows(spark, "SELECT * FROM fluss.sales.keyed_rows ORDER BY id") == [(1, "new"), (3, "old")]


def test_partitions_are_created_by_their_first_rows(tables: FlussTables, spark: SparkSession) -> None:
    tables.create("by_day", BY_DAY, ("id", "day"), buckets=1, partition_keys=("day",), properties=BY_HAND)

    spark.sql("INSERT INTO fluss.sales.by_day SELECT id, 'd' || id % 3, 'x' FROM range(0, 300, 1, 2)")
    spark.sql("DELETE FROM fluss.sales.by_day WHERE id = 3 AND day IN ('d0', 'never')")

    counts = rows(spark, "SELECT day, count(*) FROM fluss.sales.by_day GROUP BY day ORDER BY day")
    assert counts == [("d0", 99), ("d1", 100), ("d2", 100)]


def test_values_are_stored_as_they_are(tables: FlussTables, spark: SparkSession) -> None:
    tables.create("typed", TYPES, properties=BY_HAND)
    values = (
        "1L, 1234567890123456.0001, DATE '2026-03-01', TIMESTAMP '2026-03-01 12:00:00.123456', TIMESTAMP_NTZ '2026-03-01 12:00:00', X'00FF'"
    )

    spark.sql(f"INSERT INTO fluss.sales.typed VALUES ({values}, true, -1.5D), (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL)")

    [expected] = rows(spark, f"SELECT {values}, true, -1.5D")
    assert rows(spark, "SELECT * FROM fluss.sales.typed ORDER BY id") == [expected, (2, *[None] * 7)]
