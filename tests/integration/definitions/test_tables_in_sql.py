"""Databases and tables are created, changed and dropped in plain SQL through the catalog `fluss`, on the embedded cluster."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from support.running.cluster_of_processes import Deployment
from tiering.cluster.embedded.rpc.client import RemoteEmbeddedCluster
from tiering.model.tables import TableInfo, TablePath, TableType

Complaint = Callable[[str], str]


def table(service: Deployment, name: str) -> TableInfo:
    with RemoteEmbeddedCluster(service.uri) as cluster:
        return cluster.table(TablePath("shop", name))


def events(spark: SparkSession, name: str) -> list[tuple[str, str]]:
    rows = spark.sql(f"SELECT event_type, message FROM fluss.sys.tiering_events WHERE table_name = '{name}' ORDER BY event_id").collect()
    return [(row.event_type, row.message) for row in rows]


def test_create_table_makes_the_table_that_the_statement_defines(spark: SparkSession, service: Deployment) -> None:
    spark.sql(
        "CREATE TABLE fluss.SHOP.orders (id BIGINT, qty INT, note STRUCT<text: STRING, marks: ARRAY<INT>>, day DATE NOT NULL)"
        " PARTITIONED BY (Day) COMMENT 'All orders.'"
        " TBLPROPERTIES ('primary.key' = 'ID, day', 'bucket.num' = '4', 'table.datalake.enabled' = 'true')"
    )
    orders = table(service, "orders")

    assert (orders.table_type, orders.primary_key, orders.partition_keys) == (TableType.PRIMARY_KEY, ("id", "day"), ("day",))
    assert (orders.bucket_count, orders.bucket_keys, orders.lake_enabled) == (4, ("id",), True)
    assert [(field.name, field.nullable) for field in orders.schema] == [("id", False), ("qty", True), ("note", True), ("day", False)]
    assert orders.schema.field("note").type == pa.struct([("text", pa.string()), ("marks", pa.list_(pa.int32()))])
    assert orders.properties["comment"] == "All orders."
    assert "owner" not in orders.properties


def test_statements_with_if_exists_and_if_not_exists_may_be_repeated(spark: SparkSession, complaint: Complaint) -> None:
    for _ in range(2):
        spark.sql("CREATE DATABASE IF NOT EXISTS fluss.twice")
        spark.sql("CREATE TABLE IF NOT EXISTS fluss.twice.t (id INT)")
    assert "already exists" in complaint("CREATE DATABASE fluss.Twice")
    assert "already exists" in complaint("CREATE TABLE fluss.twice.T (id INT)")
    for _ in range(2):
        spark.sql("DROP TABLE IF EXISTS fluss.twice.T")
        spark.sql("DROP DATABASE IF EXISTS fluss.twice")
    assert "TABLE_OR_VIEW_NOT_FOUND" in complaint("DROP TABLE fluss.shop.nowhere")
    assert "twice" not in [row[0] for row in spark.sql("SHOW DATABASES IN fluss").collect()]


def test_a_database_with_tables_is_dropped_with_cascade_alone(spark: SparkSession, complaint: Complaint) -> None:
    spark.sql("CREATE DATABASE fluss.full")
    spark.sql("CREATE TABLE fluss.full.a (id INT)")
    spark.sql("CREATE TABLE fluss.full.b (id INT) TBLPROPERTIES ('table.datalake.enabled' = 'true')")

    assert "the database full is not empty: it has a, b" in complaint("DROP DATABASE fluss.full")
    spark.sql("DROP DATABASE fluss.full CASCADE")

    assert "full" not in [row[0] for row in spark.sql("SHOW DATABASES IN fluss").collect()]
    dropped = ("DROP_DATABASE", "the table was dropped with its database; its lake table full.b stays in the lake's catalog")
    assert dropped in events(spark, "b")


def test_properties_are_set_and_unset_and_the_comment_is_one_of_them(spark: SparkSession, service: Deployment) -> None:
    spark.sql("CREATE TABLE fluss.shop.props (id INT) TBLPROPERTIES ('team' = 'a')")
    spark.sql("ALTER TABLE fluss.shop.PROPS SET TBLPROPERTIES ('table.datalake.enabled' = 'true', 'table.datalake.freshness' = '1 h')")
    spark.sql("ALTER TABLE fluss.shop.props UNSET TBLPROPERTIES ('team')")
    spark.sql("COMMENT ON TABLE fluss.shop.props IS 'Has properties.'")
    props = table(service, "props")

    assert (props.lake_enabled, props.freshness_ms) == (True, 3_600_000)
    assert props.properties.keys() == {"comment", "table.datalake.enabled", "table.datalake.freshness", "table.datalake.layout"}
    assert props.properties["comment"] == "Has properties."
    changed = [message for kind, message in events(spark, "props") if kind == "ALTER_TABLE"]
    assert changed == [
        "the table was altered: table.datalake.enabled was set, table.datalake.freshness was set",
        "the table was altered: team was removed",
        "the table was altered: comment was set",
    ]


def test_columns_are_added_behind_the_others(spark: SparkSession, service: Deployment, complaint: Complaint) -> None:
    spark.sql("CREATE TABLE fluss.shop.wider (id INT)")
    spark.sql("ALTER TABLE fluss.shop.wider ADD COLUMNS (a STRING, b MAP<STRING, DOUBLE>)")

    assert table(service, "wider").schema.names == ["id", "a", "b"]
    assert "the new column 'c' is NOT NULL" in complaint("ALTER TABLE fluss.shop.wider ADD COLUMN c INT NOT NULL")
    assert table(service, "wider").schema.names == ["id", "a", "b"]


def test_a_dropped_table_leaves_its_lake_table_and_an_event_that_names_it(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE fluss.shop.gone (id INT) TBLPROPERTIES ('table.datalake.enabled' = 'true')")
    spark.sql("DROP TABLE fluss.shop.Gone")

    assert ("DROP_TABLE", "the table was dropped; its lake table shop.gone stays in the lake's catalog") in events(spark, "gone")
    assert "gone" not in [row.tableName for row in spark.sql("SHOW TABLES IN fluss.shop").collect()]


def test_a_purged_table_takes_its_lake_table_with_it(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE fluss.shop.purged (id INT) TBLPROPERTIES ('table.datalake.enabled' = 'true')")
    spark.sql("DROP TABLE fluss.shop.purged PURGE")

    assert ("DROP_TABLE", "the table was dropped; it had no lake table") in events(spark, "purged")
    assert "purged" not in [row.tableName for row in spark.sql("SHOW TABLES IN fluss.shop").collect()]


def test_create_or_replace_never_drops_the_rows_of_a_table(spark: SparkSession, service: Deployment, complaint: Complaint) -> None:
    spark.sql("CREATE OR REPLACE TABLE fluss.shop.kept (id INT)")
    before = table(service, "kept").table_id
    replacing = (
        "CREATE OR REPLACE TABLE fluss.shop.kept (id INT)",
        "REPLACE TABLE fluss.shop.kept (id INT)",
        "CREATE OR REPLACE TABLE fluss.shop.kept AS SELECT 1 AS id",
    )
    for sql in replacing:
        assert "cannot replace fluss.shop.kept: its rows would be lost" in complaint(sql), sql
    with pytest.raises(Exception, match="cannot replace fluss"):
        spark.range(1).writeTo("fluss.shop.kept").createOrReplace()

    assert table(service, "kept").table_id == before


def test_create_or_replace_with_a_query_leaves_no_empty_table(spark: SparkSession, complaint: Complaint) -> None:
    assert "write CREATE TABLE ... AS SELECT" in complaint("CREATE OR REPLACE TABLE fluss.shop.replaced AS SELECT 1 AS id")
    assert "replaced" not in [row.tableName for row in spark.sql("SHOW TABLES IN fluss.shop").collect()]


def test_partitions_are_shown_added_and_dropped(spark: SparkSession, complaint: Complaint) -> None:
    spark.sql("CREATE TABLE fluss.shop.days (id INT, day DATE, shop INT) PARTITIONED BY (day, shop)")
    spark.sql("ALTER TABLE fluss.shop.days ADD PARTITION (day = DATE'2024-05-01', shop = 7) PARTITION (shop = 8, day = '2024-05-02')")
    spark.sql("ALTER TABLE fluss.shop.days ADD IF NOT EXISTS PARTITION (day = DATE'2024-05-01', shop = 7)")

    def shown(clause: str = "") -> list[str]:
        return [row[0] for row in spark.sql(f"SHOW PARTITIONS fluss.shop.days {clause}").collect()]

    assert shown() == ["day=2024-05-01/shop=7", "day=2024-05-02/shop=8"]
    assert shown("PARTITION (shop = 8)") == ["day=2024-05-02/shop=8"]
    assert "already exist" in complaint("ALTER TABLE fluss.shop.days ADD PARTITION (day = DATE'2024-05-01', shop = 7)")
    spark.sql("ALTER TABLE fluss.shop.days DROP PARTITION (day = DATE'2024-05-01', shop = 7)")
    assert shown() == ["day=2024-05-02/shop=8"]
    assert "cannot be found" in complaint("ALTER TABLE fluss.shop.days DROP PARTITION (day = DATE'2024-05-01', shop = 7)")
    spark.sql("ALTER TABLE fluss.shop.days DROP IF EXISTS PARTITION (day = DATE'2024-05-01', shop = 7)")
    assert "has no location" in complaint("ALTER TABLE fluss.shop.days ADD PARTITION (day = '2024-05-03', shop = 1) LOCATION '/tmp/x'")


def test_partitions_are_not_truncated_or_renamed_and_have_dates_of_four_digits(spark: SparkSession, complaint: Complaint) -> None:
    spark.sql("CREATE TABLE fluss.shop.dated (id INT, day DATE) PARTITIONED BY (day)")
    spark.sql("ALTER TABLE fluss.shop.dated ADD PARTITION (day = '2024-05-01')")
    refusal = "a partition of fluss.shop.dated"

    truncated = complaint("TRUNCATE TABLE fluss.shop.dated PARTITION (day = '2024-05-01')")
    assert f"cannot truncate {refusal}: ALTER TABLE ... DROP PARTITION drops its rows" in truncated
    assert f"cannot rename {refusal}" in complaint(
        "ALTER TABLE fluss.shop.dated PARTITION (day = '2024-05-01') RENAME TO PARTITION (day = '2024-05-02')"
    )
    far = complaint("ALTER TABLE fluss.shop.dated ADD PARTITION (day = '+12345-01-01')")
    assert "partition column 'day': the date 12345-01-01 is not between the years 1 and 9999" in far
    spark.sql("ALTER TABLE fluss.shop.dated DROP PARTITION (day = '2024-05-01'), PARTITION (day = '2024-05-01')")
    assert spark.sql("SHOW PARTITIONS fluss.shop.dated").collect() == []


def test_a_table_without_partition_columns_has_no_partitions(spark: SparkSession, complaint: Complaint) -> None:
    spark.sql("CREATE TABLE fluss.shop.plain (id INT)")
    assert "is not partitioned" in complaint("SHOW PARTITIONS fluss.shop.plain")
