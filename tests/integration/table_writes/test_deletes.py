"""DELETE FROM ... WHERE through the plugin: rows are deleted by their keys."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from support.running.cluster_of_processes import Deployment
from support.running.spark_sessions import complaint
from tiering.model.tables import TablePath

KEYS = pa.schema(
    [
        pa.field("number", pa.int32(), nullable=False),
        pa.field("price", pa.decimal128(9, 2), nullable=False),
        pa.field("bytes", pa.binary(), nullable=False),
        pa.field("day", pa.date32(), nullable=False),
        pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("local", pa.timestamp("us"), nullable=False),
        pa.field("text", pa.string()),
    ]
)
KEY = ("number", "price", "bytes", "day", "at", "local")


@pytest.fixture(scope="module")
def table(service: Deployment) -> str:
    service.create_keyed(TablePath("sales", "deleted"))
    return "fluss.sales.deleted"


def ids(spark: SparkSession, table: str) -> list[int]:
    return [row.id for row in spark.sql(f"SELECT id FROM {table} ORDER BY id").collect()]


def test_rows_are_deleted_by_key(spark: SparkSession, table: str) -> None:
    spark.sql(f"INSERT INTO {table} SELECT id, 'x' FROM range(12)")

    spark.sql(f"DELETE FROM {table} WHERE id = 0")
    spark.sql(f"DELETE FROM {table} WHERE id IN (1, 2, 99) AND id IN (2, 1, 3)")
    spark.sql(f"DELETE FROM {table} WHERE '3' = id")
    spark.sql(f"DELETE FROM {table} WHERE id <=> 4")
    for nothing in ("id = 5.5", "id = NULL", "id = 6 AND id = 7", "id = 0", "false"):
        spark.sql(f"DELETE FROM {table} WHERE {nothing}")

    assert ids(spark, table) == list(range(5, 12))


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("id > 1", "the condition id > 1 is no comparison by = or IN"),
        ("id = 1 OR id = 2", "is no comparison by = or IN"),
        ("text = 'a'", "text is not a key column"),
        ("id = 1 AND text = 'a'", "text is not a key column"),
        ("id IN (SELECT 1L)", "subquery"),
        ("true", "the condition TRUE is no comparison by = or IN"),
    ],
)
def test_other_conditions_are_refused_with_the_reason(spark: SparkSession, table: str, condition: str, reason: str) -> None:
    before = ids(spark, table)

    assert reason in complaint(spark, f"DELETE FROM {table} WHERE {condition}", PySparkException)

    assert ids(spark, table) == before


def test_keys_of_several_types_are_compared_exactly(spark: SparkSession, service: Deployment) -> None:
    service.create(TablePath("sales", "long_keys"), freshness="1 h", schema=KEYS, primary_key=KEY)
    values = "1.50, X'00FF', DATE '2026-01-01', TIMESTAMP '2026-01-01 00:00:00.000001', TIMESTAMP_NTZ '2026-01-01 00:00:00', 'x'"
    spark.sql(f"INSERT INTO fluss.sales.long_keys VALUES (1, {values}), (2, {values}), (3, {values})")
    other_keys = (
        "price = 1.5 AND bytes = X'00FF' AND day = '2026-01-01' AND at = TIMESTAMP '2026-01-01 00:00:00.000001' "
        "AND local = TIMESTAMP_NTZ '2026-01-01 00:00:00'"
    )

    assert "it names no value of the key column number" in complaint(
        spark, f"DELETE FROM fluss.sales.long_keys WHERE {other_keys}", PySparkException
    )
    spark.sql(f"DELETE FROM fluss.sales.long_keys WHERE number IN (1, 3) AND {other_keys}")

    assert [row.number for row in spark.sql("SELECT number FROM fluss.sales.long_keys").collect()] == [2]


def test_rows_of_a_log_table_are_not_deleted(spark: SparkSession, service: Deployment) -> None:
    service.create(TablePath("sales", "kept"), freshness="1 h")

    assert "cannot delete rows of fluss.sales.kept: it has no primary key" in complaint(
        spark, "DELETE FROM fluss.sales.kept WHERE id = 1", PySparkException
    )


def test_merge_is_refused_and_changes_nothing(spark: SparkSession, table: str) -> None:
    before = ids(spark, table)
    merge = f"MERGE INTO {table} t USING (SELECT 5L AS n) s ON t.id = s.n WHEN MATCHED THEN DELETE"
    assert "MERGE INTO TABLE" in complaint(spark, merge, PySparkException)
    assert ids(spark, table) == before
