"""`CALL sys.adopt_table` in SQL on a real Fluss cluster: a job of Spark wrote the lake table, and rounds continue it."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from pyspark.sql import Row, SparkSession


@pytest.fixture
def database(fresh_spark: SparkSession) -> Iterator[str]:
    """A new database in Fluss and in the lake's catalog."""
    name = f"adopted_{uuid4().hex[:8]}"
    fresh_spark.sql(f"CREATE DATABASE fluss.{name}")
    yield name
    fresh_spark.sql(f"DROP DATABASE fluss.{name} CASCADE")


def answer(spark: SparkSession, statement: str) -> Row:
    [row] = spark.sql(statement).collect()
    return row


def test_rounds_continue_what_a_job_of_spark_wrote_into_the_lake(fresh_spark: SparkSession, database: str) -> None:
    spark, table = fresh_spark, f"{database}.orders"
    spark.sql(
        f"CREATE TABLE fluss.{table} (id BIGINT NOT NULL, day STRING) PARTITIONED BY (day)"
        " TBLPROPERTIES ('table.datalake.enabled' = 'true', 'table.datalake.freshness' = '1 h')"
    )
    spark.sql(f"CALL fluss.sys.pause_tiering('{table}', reason => 'its lake table is adopted')")
    spark.sql(f"INSERT INTO fluss.{table} VALUES (1, 'a'), (2, 'a'), (3, 'b')")
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS lake.{database}_legacy")
    legacy = f"{database}_legacy.events"
    spark.sql(f"CREATE TABLE lake.{legacy} PARTITIONED BY (day) AS SELECT * FROM fluss.{table}")
    call = f"CALL fluss.sys.adopt_table('{table}', lake_table => '{legacy}', timestamp => current_timestamp()"
    tried = answer(spark, f"{call}, dry_run => true)")
    assert (tried.outcome, tried.rows_adopted, tried.rows_unproved) == ("would_adopt", 3, 0)
    done = answer(spark, f"{call})")
    assert (done.outcome, done.offsets) == ("adopted", tried.offsets)

    spark.sql(f"INSERT INTO fluss.{table} VALUES (4, 'a'), (5, 'c')")
    spark.sql(f"CALL fluss.sys.resume_tiering('{table}')")
    assert answer(spark, f"CALL fluss.sys.tier_table('{table}')").records == 2
    for name in (f"fluss.{table}", f"fluss.{database}.`orders$lake`"):
        assert [row.id for row in spark.sql(f"SELECT id FROM {name} ORDER BY id").collect()] == [1, 2, 3, 4, 5]
    checks = spark.sql(f"CALL fluss.sys.validate_table('{table}', level => 'rows')").collect()
    assert {row.ok for row in checks} == {True}
