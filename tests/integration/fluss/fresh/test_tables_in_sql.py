"""Databases and tables of a real Fluss cluster are created, changed and dropped in SQL; what Fluss refuses is refused with its reason."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from support.running.spark_sessions import complaint
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.cluster.fluss.settings import FlussConnection
from tiering.cluster.fluss.writing.writer import FlussWriter, fluss_writer
from tiering.model.tables import TablePath

NUMBERS = itertools.count()


@pytest.fixture
def database() -> str:
    """A name of its own for each run: a test of Fluss may run again (`support.running.fluss_health`)."""
    return f"sold_{next(NUMBERS)}"


@pytest.fixture(scope="module")
def writer(fluss: LocalFlussCluster) -> Iterator[FlussWriter]:
    """Shows the tables as the cluster has them."""
    with fluss_writer(FlussConnection.parse(fluss.bootstrap_servers)) as opened:
        yield opened


def test_a_table_of_fluss_is_created_changed_and_dropped(fresh_spark: SparkSession, writer: FlussWriter, database: str) -> None:
    spark, path = fresh_spark, TablePath(database, "orders")
    spark.sql(f"CREATE DATABASE fluss.{database}")
    spark.sql(
        f"CREATE TABLE fluss.{database}.orders (id BIGINT NOT NULL, qty INT, day STRING) PARTITIONED BY (day) COMMENT 'All orders.'"
        " TBLPROPERTIES ('primary.key' = 'id,day', 'bucket.num' = '2', 'table.datalake.enabled' = 'true',"
        " 'table.datalake.freshness' = '1 h')"
    )
    orders = writer.table(path)
    assert (orders.primary_key, orders.partition_keys, orders.bucket_count) == (("id", "day"), ("day",), 2)
    assert (orders.lake_enabled, orders.freshness_ms) == (True, 3_600_000)

    spark.sql(
        f"ALTER TABLE fluss.{database}.orders SET TBLPROPERTIES ('table.datalake.freshness' = '2 h', 'table.datalake.round.bytes' = '1 gb')"
    )
    spark.sql(f"ALTER TABLE fluss.{database}.orders UNSET TBLPROPERTIES ('table.datalake.freshness')")
    spark.sql(f"COMMENT ON TABLE fluss.{database}.orders IS 'Orders.'")
    spark.sql(f"ALTER TABLE fluss.{database}.orders ADD COLUMNS (note STRING, price DECIMAL(10, 2))")
    spark.sql(f"ALTER TABLE fluss.{database}.orders ADD PARTITION (day = '2024') PARTITION (day = '2025')")
    spark.sql(f"ALTER TABLE fluss.{database}.orders DROP PARTITION (day = '2024')")

    assert spark.table(f"fluss.{database}.orders").columns == ["id", "qty", "day", "note", "price"]
    assert [row[0] for row in spark.sql(f"SHOW PARTITIONS fluss.{database}.orders").collect()] == ["day=2025"]
    properties = dict(spark.sql(f"SHOW TBLPROPERTIES fluss.{database}.orders").collect())
    assert properties["table.datalake.round.bytes"] == "1 gb"
    assert properties["lake.freshness-ms"] == "180000"
    described = {row.col_name: row.data_type for row in spark.sql(f"DESCRIBE TABLE EXTENDED fluss.{database}.orders").collect()}
    assert described["Comment"] == "Orders."

    spark.sql(f"DROP TABLE fluss.{database}.orders")
    spark.sql(f"DROP DATABASE fluss.{database}")
    assert database not in writer.databases()


def test_fluss_decides_what_a_table_can_be(fresh_spark: SparkSession, writer: FlussWriter, database: str) -> None:
    spark = fresh_spark
    spark.sql(f"CREATE DATABASE fluss.{database}")
    spark.sql(f"CREATE TABLE fluss.{database}.t (id INT, name STRING) TBLPROPERTIES ('primary.key' = 'id')")
    refusals = {
        f"CREATE TABLE fluss.{database}.u (id INT) TBLPROPERTIES ('table.log.tttl' = '1 d')": "did you mean table.log.ttl?",
        f"CREATE TABLE fluss.{database}.u (id INT COMMENT 'x')": "has a comment, which Fluss's client for Python cannot send",
        f"ALTER TABLE fluss.{database}.t SET TBLPROPERTIES ('table.log.ttl' = '1 d')": "Fluss cannot alter the option 'table.log.ttl'",
        f"ALTER TABLE fluss.{database}.t ADD COLUMN x INT COMMENT 'x'": "the column 'x' has a comment",
        f"ALTER TABLE fluss.{database}.t ADD COLUMN x STRUCT<y: INT COMMENT 'x'>": "the column 'y' has a comment",
        f"ALTER TABLE fluss.{database}.t DROP COLUMN name": "Fluss can only add columns",
        f"ALTER TABLE fluss.{database}.t RENAME COLUMN name TO label": "Fluss can only add columns",
        f"ALTER TABLE fluss.{database}.t ADD COLUMN x INT FIRST": "Fluss can only add columns",
        f"DROP DATABASE fluss.{database}": f"the database {database} is not empty: it has t",
    }
    for sql, reason in refusals.items():
        assert reason in complaint(spark, sql), sql
    assert writer.table(TablePath(database, "t")).schema.names == ["id", "name"]
    spark.sql(f"DROP DATABASE fluss.{database} CASCADE")
    assert database not in writer.databases()


def test_show_create_table_creates_the_same_table_in_fluss(fresh_spark: SparkSession, writer: FlussWriter, database: str) -> None:
    spark = fresh_spark
    spark.sql(f"CREATE DATABASE fluss.{database}")
    spark.sql(
        f"CREATE TABLE fluss.{database}.t (id INT, region STRING, amount DECIMAL(12, 3), at TIMESTAMP)"
        " PARTITIONED BY (region) COMMENT 'It''s one.'"
        " TBLPROPERTIES ('primary.key' = 'id,region', 'bucket.num' = '3', 'table.log.ttl' = '3 d', 'table.datalake.enabled' = 'true')"
    )
    [statement] = spark.sql(f"SHOW CREATE TABLE fluss.{database}.t").first()  # type: ignore[misc]
    first = writer.table(TablePath(database, "t"))
    spark.sql(f"DROP TABLE fluss.{database}.t")
    spark.sql(statement)
    second = writer.table(TablePath(database, "t"))

    assert (first.schema, first.properties, first.bucket_keys) == (second.schema, second.properties, second.bucket_keys)
    assert (first.primary_key, first.partition_keys, first.bucket_count) == (second.primary_key, second.partition_keys, second.bucket_count)
    spark.sql(f"DROP DATABASE fluss.{database} CASCADE")
