"""`CALL sys.adopt_table` and `CALL sys.backfill_table` in SQL: rows that a job of Spark wrote into the lake before Lakeward."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Row, SparkSession

OPTIONS = "'table.datalake.enabled' = 'true', 'table.datalake.freshness' = '1 h'"
"""Options of a table whose rounds run only by `CALL sys.tier_table`."""


def call(spark: SparkSession, statement: str) -> Row:
    [row] = spark.sql(f"CALL fluss.sys.{statement}").collect()
    return row


def ids(spark: SparkSession, table: str) -> list[int]:
    return [row.id for row in spark.sql(f"SELECT id FROM {table} ORDER BY id").collect()]


def proved(spark: SparkSession, table: str) -> set[bool | None]:
    return {row.ok for row in spark.sql(f"CALL fluss.sys.validate_table('{table}', level => 'rows')").collect()}


def test_a_partitioned_lake_table_is_adopted_with_the_option_that_keeps_its_partitions(
    spark: SparkSession, complaint: Callable[[str], str]
) -> None:
    spark.sql(f"CREATE TABLE fluss.shop.visits (id BIGINT NOT NULL, ts TIMESTAMP) TBLPROPERTIES ({OPTIONS})")
    call(spark, "pause_tiering('shop.visits')")
    spark.sql("INSERT INTO fluss.shop.visits VALUES (1, TIMESTAMP '2026-01-01 10:00:00'), (2, TIMESTAMP '2026-01-02 10:00:00')")
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.legacy")
    spark.sql("CREATE TABLE lake.legacy.visits PARTITIONED BY (days(ts)) AS SELECT * FROM fluss.shop.visits")
    adopt = "adopt_table('shop.visits', lake_table => 'legacy.visits', offsets => map('0', 2))"
    assert "partitioned by day(ts), which is not the partition of shop.visits" in complaint(f"CALL fluss.sys.{adopt}")
    spark.sql("ALTER TABLE fluss.shop.visits SET TBLPROPERTIES ('table.datalake.partition' = 'days(ts)')")
    assert (call(spark, adopt).outcome, call(spark, adopt).outcome) == ("adopted", "already_adopted")
    spark.sql("INSERT INTO fluss.shop.visits VALUES (3, TIMESTAMP '2026-01-02 11:00:00')")
    call(spark, "resume_tiering('shop.visits')")
    assert call(spark, "tier_table('shop.visits')").records == 1
    assert ids(spark, "fluss.shop.visits") == ids(spark, "fluss.shop.`visits$lake`") == [1, 2, 3]
    assert "PARTITIONED BY (days(ts))" in spark.sql("SHOW CREATE TABLE lake.shop.visits").first()[0]  # type: ignore[index]
    assert proved(spark, "shop.visits") == {True}


def test_older_rows_come_once_also_after_a_column_got_another_name(spark: SparkSession, complaint: Callable[[str], str]) -> None:
    spark.sql(f"CREATE TABLE fluss.shop.sales (id BIGINT NOT NULL, qty INT) TBLPROPERTIES ({OPTIONS})")
    spark.sql("INSERT INTO fluss.shop.sales VALUES (100, 100)")
    call(spark, "tier_table('shop.sales')")
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.archive")
    spark.sql("CREATE TABLE lake.archive.sales AS SELECT id, CAST(id AS INT) AS qty FROM range(30)")
    backfill = "backfill_table('shop.sales', 'archive.sales', condition => '{}')"
    assert call(spark, backfill.format("qty < 10")).rows_copied == 10
    for catalog in ("fluss.shop", "lake.archive"):
        spark.sql(f"ALTER TABLE {catalog}.sales RENAME COLUMN qty TO amount")
    spark.sql("ALTER TABLE fluss.shop.sales ADD COLUMN qty INT")
    assert "rows that match it were copied before" in complaint(f"CALL fluss.sys.{backfill.format('id < 15')}")
    assert call(spark, backfill.format("amount >= 10")).rows_copied == 20
    assert ids(spark, "fluss.shop.sales") == [*range(30), 100]
    assert proved(spark, "shop.sales") == {True}
