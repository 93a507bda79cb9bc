"""Databases and tables of a real Fluss cluster are created, changed and dropped in SQL; what Fluss refuses is refused with its reason."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from support.running.spark_sessions import complaint
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.cluster.fluss.settings import FlussConnection
from tiering.cluster.fluss.writing.writer import FlussWriter, fluss_writer
from tiering.model.tables import TablePath


@pytest.fixture(scope="module")
def writer(fluss: LocalFlussCluster) -> Iterator[FlussWriter]:
    """Shows the tables as the cluster has them."""
    with fluss_writer(FlussConnection.parse(fluss.bootstrap_servers)) as opened:
        yield opened


def test_a_table_of_fluss_is_created_changed_and_dropped(fresh_spark: SparkSession, writer: FlussWriter) -> None:
    spark, path = fresh_spark, TablePath("bought", "orders")
    spark.sql("CREATE DATABASE fluss.bought")
    spark.sql(
        "CREATE TABLE fluss.bought.orders (id BIGINT NOT NULL, qty INT, day STRING) PARTITIONED BY (day) COMMENT 'All orders.'"
        " TBLPROPERTIES ('primary.key' = 'id,day', 'bucket.num' = '2', 'table.datalake.enabled' = 'true',"
        " 'table.datalake.freshness' = '1 h')"
    )
    orders = writer.table(path)
    assert (orders.primary_key, orders.partition_keys, orders.bucket_count) == (("id", "day"), ("day",), 2)
    assert (orders.lake_enabled, orders.freshness_ms) == (True, 3_600_000)

    spark.sql(
        "ALTER TABLE fluss.bought.orders SET TBLPROPERTIES ('table.datalake.freshness' = '2 h', 'table.datalake.round.bytes' = '1 gb')"
    )
    spark.sql("ALTER TABLE fluss.bought.orders UNSET TBLPROPERTIES ('table.datalake.freshness')")
    spark.sql("COMMENT ON TABLE fluss.bought.orders IS 'Orders.'")
    spark.sql("ALTER TABLE fluss.bought.orders ADD COLUMNS (note STRING, price DECIMAL(10, 2))")
    spark.sql("ALTER TABLE fluss.bought.orders ADD PARTITION (day = '2024') PARTITION (day = '2025')")
    spark.sql("ALTER TABLE fluss.bought.orders DROP PARTITION (day = '2024')")

    assert spark.table("fluss.bought.orders").columns == ["id", "qty", "day", "note", "price"]
    assert [row[0] for row in spark.sql("SHOW PARTITIONS fluss.bought.orders").collect()] == ["day=2025"]
    properties = dict(spark.sql("SHOW TBLPROPERTIES fluss.bought.orders").collect())
    assert properties["table.datalake.round.bytes"] == "1 gb"
    assert properties["lake.freshness-ms"] == "180000"
    described = {row.col_name: row.data_type for row in spark.sql("DESCRIBE TABLE EXTENDED fluss.bought.orders").collect()}
    assert described["Comment"] == "Orders."

    spark.sql("DROP TABLE fluss.bought.orders")
    spark.sql("DROP DATABASE fluss.bought")
    assert "bought" not in writer.databases()


def test_fluss_decides_what_a_table_can_be(fresh_spark: SparkSession, writer: FlussWriter) -> None:
    spark = fresh_spark
    spark.sql("CREATE DATABASE fluss.strict")
    spark.sql("CREATE TABLE fluss.strict.t (id INT, name STRING) TBLPROPERTIES ('primary.key' = 'id')")
    refusals = {
        "CREATE TABLE fluss.strict.u (id INT) TBLPROPERTIES ('table.log.tttl' = '1 d')": "did you mean table.log.ttl?",
        "CREATE TABLE fluss.strict.u (id INT COMMENT 'x')": "has a comment, which Fluss's client for Python cannot send",
        "ALTER TABLE fluss.strict.t SET TBLPROPERTIES ('table.log.ttl' = '1 d')": "Fluss cannot alter the option 'table.log.ttl'",
        "ALTER TABLE fluss.strict.t DROP COLUMN name": "Fluss can only add columns",
        "ALTER TABLE fluss.strict.t RENAME COLUMN name TO label": "Fluss can only add columns",
        "ALTER TABLE fluss.strict.t ADD COLUMN x INT FIRST": "Fluss can only add columns",
        "DROP DATABASE fluss.strict": "the database strict is not empty: it has t",
    }
    for sql, reason in refusals.items():
        assert reason in complaint(spark, sql), sql
    assert writer.table(TablePath("strict", "t")).schema.names == ["id", "name"]
    spark.sql("DROP DATABASE fluss.strict CASCADE")
    assert "strict" not in writer.databases()


def test_show_create_table_creates_the_same_table_in_fluss(fresh_spark: SparkSession, writer: FlussWriter) -> None:
    spark = fresh_spark
    spark.sql("CREATE DATABASE fluss.twice")
    spark.sql(
        "CREATE TABLE fluss.twice.t (id INT, region STRING, amount DECIMAL(12, 3), at TIMESTAMP)"
        " PARTITIONED BY (region) COMMENT 'It''s one.'"
        " TBLPROPERTIES ('primary.key' = 'id,region', 'bucket.num' = '3', 'table.log.ttl' = '3 d', 'table.datalake.enabled' = 'true')"
    )
    [statement] = spark.sql("SHOW CREATE TABLE fluss.twice.t").first()  # type: ignore[misc]
    first = writer.table(TablePath("twice", "t"))
    spark.sql("DROP TABLE fluss.twice.t")
    spark.sql(statement)
    second = writer.table(TablePath("twice", "t"))

    assert (first.schema, first.properties, first.bucket_keys) == (second.schema, second.properties, second.bucket_keys)
    assert (first.primary_key, first.partition_keys, first.bucket_count) == (second.primary_key, second.partition_keys, second.bucket_count)
    spark.sql("DROP DATABASE fluss.twice CASCADE")
