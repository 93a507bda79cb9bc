"""ALTER TABLE changes the columns of a table of the embedded cluster: which changes it makes, and which it refuses with the reason."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from support.running.cluster_of_processes import Deployment
from tiering.cluster.embedded.rpc.client import RemoteEmbeddedCluster
from tiering.model.schema.field_ids import comment
from tiering.model.sql_types import spark_type
from tiering.model.tables import TablePath

Complaint = Callable[[str], str]

CHANGES = (
    "ADD COLUMN leading STRING COMMENT 'new' FIRST",
    "ADD COLUMN s.c DOUBLE COMMENT 'nested' AFTER a",
    "ADD COLUMN s.d INT FIRST",
    "RENAME COLUMN qty TO `order`",
    "RENAME COLUMN s.b TO label",
    "ALTER COLUMN `order` TYPE BIGINT",
    "ALTER COLUMN m.value TYPE BIGINT",
    "ALTER COLUMN `order` COMMENT 'how many'",
    "ALTER COLUMN s.a COMMENT 'inside'",
    "ALTER COLUMN id COMMENT 'still the key'",
    "ALTER COLUMN needed DROP NOT NULL",
    "ALTER COLUMN `order` AFTER m",
    "ALTER COLUMN s.c FIRST",
    "DROP COLUMN old",
    "DROP COLUMN IF EXISTS nowhere",
    "ADD COLUMNS (x DECIMAL(10, 2), y ARRAY<INT>)",
    "ALTER COLUMN x TYPE DECIMAL(20, 2), y COMMENT 'two at once'",
)


def columns(service: Deployment, name: str) -> list[tuple[str, str, bool, str | None]]:
    with RemoteEmbeddedCluster(service.uri) as cluster:
        schema = cluster.table(TablePath("shop", name)).schema
    return [(field.name, spark_type(field.type), field.nullable, comment(field)) for field in schema]


def test_columns_change_in_all_ways(spark: SparkSession, service: Deployment) -> None:
    spark.sql(
        "CREATE TABLE fluss.shop.changing (id BIGINT COMMENT 'the key', old INT, qty INT, needed INT NOT NULL,"
        " s STRUCT<a: INT COMMENT 'in', b: STRING>, m MAP<STRING, INT>) TBLPROPERTIES ('primary.key' = 'id')"
    )
    for change in CHANGES:
        spark.sql(f"ALTER TABLE fluss.shop.Changing {change}")

    assert columns(service, "changing") == [
        ("leading", "STRING", True, "new"),
        ("id", "BIGINT", False, "still the key"),
        ("needed", "INT", True, None),
        ("s", "STRUCT<c: DOUBLE, d: INT, a: INT, label: STRING>", True, None),
        ("m", "MAP<STRING, BIGINT>", True, None),
        ("order", "BIGINT", True, "how many"),
        ("x", "DECIMAL(20,2)", True, None),
        ("y", "ARRAY<INT>", True, "two at once"),
    ]
    [[shown]] = spark.sql("SHOW CREATE TABLE fluss.shop.changing").collect()
    assert "s STRUCT<c: DOUBLE COMMENT 'nested', d: INT, a: INT COMMENT 'inside', label: STRING>" in shown
    events = spark.sql(
        "SELECT message FROM fluss.sys.tiering_events WHERE table_name = 'changing' AND event_type = 'ALTER_TABLE'"
    ).collect()
    assert len(events) == len(CHANGES) - 1  # a column that does not exist is no change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("ALTER COLUMN n TYPE STRING", "the column 'n' is BIGINT and cannot become STRING"),
        ("ALTER COLUMN n TYPE INT", 'with type "INT"'),
        ("ALTER COLUMN d TYPE DECIMAL(12, 3)", "the column 'd' is DECIMAL(10,2) and cannot become DECIMAL(12,3)"),
        ("RENAME COLUMN n TO ID", "already exists"),
        ("RENAME COLUMN n TO `a.b`", "'a.b' is not a valid column name"),
        ("RENAME COLUMN n TO `\U0001f600`", "is not a valid column name"),
        ("RENAME COLUMN id TO other", "the column 'id' is a key, bucket key or partition column"),
        ("DROP COLUMN id", "the column 'id' is a key, bucket key or partition column"),
        ("DROP COLUMN day", "the column 'day' is a key, bucket key or partition column"),
        ("ALTER COLUMN id DROP NOT NULL", "the column 'id' is a key, bucket key or partition column"),
        ("ALTER COLUMN n SET NOT NULL", "Cannot change nullable column to non-nullable"),
        ("ADD COLUMN N INT", "already exists"),
        ("ADD COLUMN x INT NOT NULL", "the new column 'x' is NOT NULL"),
        ("ADD COLUMN x VARCHAR(3)", "column 'x' has type VARCHAR(3)"),
        ("ADD COLUMNS (x INT, y INT AFTER nowhere)", "No such struct field"),
        ("REPLACE COLUMNS (id BIGINT, x INT)", "is a key, bucket key or partition column"),
        ("DROP COLUMNS (n, day)", "the column 'day' is a key, bucket key or partition column"),
    ],
)
def test_a_refused_change_changes_nothing(change: str, reason: str, spark: SparkSession, service: Deployment, complaint: Complaint) -> None:
    spark.sql(
        "CREATE TABLE IF NOT EXISTS fluss.shop.settled (id INT, n BIGINT, d DECIMAL(10, 2), day STRING) PARTITIONED BY (day)"
        " TBLPROPERTIES ('primary.key' = 'id,day')"
    )
    before = columns(service, "settled")

    assert reason in complaint(f"ALTER TABLE fluss.shop.settled {change}")
    assert columns(service, "settled") == before
