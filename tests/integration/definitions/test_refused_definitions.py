"""Statements that no source table can follow are refused with the reason, and change nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

Complaint = Callable[[str], str]

CREATE_REFUSED = (
    ("id VARCHAR(10)", "", "column 'id' has type VARCHAR(10)"),
    ("id CHAR(3)", "", "column 'id' has type CHAR(3)"),
    ("i INT, t STRUCT<a: ARRAY<INTERVAL DAY TO SECOND>>", "", "column 't.a.element' has type INTERVAL DAY TO SECOND"),
    ("v VARIANT", "", "column 'v' has type VARIANT"),
    ("s STRING COLLATE UTF8_LCASE", "", "the column 's' has a collation"),
    ("i INT DEFAULT 3", "", "does not support column default value"),
    ("i INT, d INT GENERATED ALWAYS AS (i + 1)", "", "generated columns"),
    ("i INT, ts TIMESTAMP", "PARTITIONED BY (days(ts))", "cannot be partitioned by days(ts)"),
    ("i INT", "USING iceberg", "cannot be created USING iceberg"),
    ("i INT", "LOCATION '/tmp/x'", "has no location"),
    ("i INT", "STORED AS parquet", "has no file format (STORED AS)"),
    ("i INT", "CLUSTERED BY (i) INTO 4 BUCKETS", "set 'bucket.key' and 'bucket.num'"),
    ("`a.b` INT", "", "'a.b' is not a valid column name"),
    ('`a"b` INT', "", "is not a valid column name"),
    ("`\U0001f600` INT", "", "is not a valid column name"),
    ("`__offset` INT", "", "starts with '__'"),
    ("i INT, I INT", "", "already exists"),
    ("s STRUCT<a: INT, A: INT>", "", "`s`.`a` already exists"),
    ("s STRUCT<`a.b`: INT>", "", "column 's': 'a.b' is not a valid field name"),
    ("i INT", "TBLPROPERTIES ('primary.key' = 'nowhere')", "'nowhere' is not a column"),
    ("i DOUBLE", "TBLPROPERTIES ('primary.key' = 'i')", "cannot be part of a primary key"),
    ("i INT", "TBLPROPERTIES ('primary.key' = 'i,')", "the property 'primary.key' is 'i,'"),
    ("i INT", "TBLPROPERTIES ('bucket.num' = '0')", "the bucket count is 0"),
    ("i INT", "TBLPROPERTIES ('bucket.num' = 'four')", "the property 'bucket.num' is 'four'"),
    ("i INT", "TBLPROPERTIES ('table.datalake.enabld' = 'true')", "unknown table option 'table.datalake.enabld'"),
    ("i INT", "TBLPROPERTIES ('primary.key' = '')", "the property 'primary.key' is ''"),
    ("i INT", "TBLPROPERTIES ('secret' = '***')", "which stands for a hidden value"),
    ("i INT", "TBLPROPERTIES ('secret' = '*********(redacted)')", "which stands for a hidden value"),
    ("i INT", "TBLPROPERTIES ('lake.enabled' = 'true')", "set 'table.datalake.enabled'"),
    ("i INT", "TBLPROPERTIES ('table-id' = '7')", "shows how the table is, and cannot be set"),
)


@pytest.mark.parametrize(("columns", "clauses", "reason"), CREATE_REFUSED)
def test_what_no_table_can_have_is_refused_with_the_column_or_the_property(
    columns: str, clauses: str, reason: str, spark: SparkSession, complaint: Complaint
) -> None:
    assert reason in complaint(f"CREATE TABLE fluss.shop.refused ({columns}) {clauses}")
    assert "refused" not in [row.tableName for row in spark.sql("SHOW TABLES IN fluss.shop").collect()]


@pytest.mark.parametrize("name", ["`a.b`", '`a"b`', "`\U0001f600`", "`__x`", "`t$lake`", "`" + "x" * 201 + "`"])
def test_unusual_names_of_tables_and_databases_are_refused(name: str, complaint: Complaint) -> None:
    for sql in (f"CREATE TABLE fluss.shop.{name} (i INT)", f"CREATE DATABASE fluss.{name}"):
        assert "name" in complaint(sql), sql


def test_reserved_words_are_names(spark: SparkSession) -> None:
    spark.sql("CREATE DATABASE fluss.`select`")
    spark.sql("CREATE TABLE fluss.`select`.`order` (`group` INT, `a-b` INT)")
    assert spark.table("fluss.`select`.`order`").columns == ["group", "a-b"]
    spark.sql("DROP DATABASE fluss.`select` CASCADE")


def test_a_table_has_at_most_2000_columns(spark: SparkSession, complaint: Complaint) -> None:
    columns = [f"c{number} INT" for number in range(2_001)]
    assert "this one has 2001. Hint: Nested fields count as columns." in complaint(f"CREATE TABLE fluss.shop.wide ({', '.join(columns)})")
    spark.sql(f"CREATE TABLE fluss.shop.wide ({', '.join(columns[:2_000])})")
    assert len(spark.table("fluss.shop.wide").columns) == 2_000


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SET TBLPROPERTIES ('bucket.num' = '9')", "the property 'bucket.num' of a table cannot change"),
        ("UNSET TBLPROPERTIES ('primary.key')", "the property 'primary.key' of a table cannot change"),
        ("SET TBLPROPERTIES ('table.datalake.freshness' = 'soon')", "'soon' is not a valid value"),
        ("SET LOCATION '/tmp/x'", "has no location"),
        ("RENAME TO shop.other", "a table of the streaming store keeps its name"),
        ("ALTER COLUMN i SET NOT NULL", "Cannot change nullable column to non-nullable"),
        ("ADD COLUMN j INT DEFAULT 3", "default value"),
        ("ALTER COLUMN i DROP DEFAULT", "have no default values, constraints or clustering. Leave that clause out"),
        ("ALTER COLUMN i AFTER i", "the column 'i' cannot be moved behind itself"),
        ("REPLACE COLUMNS (i INT, j INT)", "drops every column of the table"),
    ],
)
def test_changes_that_no_table_can_follow_are_refused(sql: str, reason: str, spark: SparkSession, complaint: Complaint) -> None:
    spark.sql("CREATE TABLE IF NOT EXISTS fluss.shop.fixed (i INT)")

    assert reason in complaint(f"ALTER TABLE fluss.shop.fixed {sql}")
    assert spark.table("fluss.shop.fixed").columns == ["i"]


def test_databases_have_no_comment_and_no_properties(complaint: Complaint) -> None:
    assert "has no properties, comment or location here: comment" in complaint("CREATE DATABASE fluss.noted COMMENT 'x'")
    assert "databases have no properties and no comment here" in complaint("COMMENT ON DATABASE fluss.shop IS 'x'")
    assert "there is no namespace nowhere" in complaint("CREATE TABLE fluss.nowhere.t (i INT)")


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE fluss.sys.mine (i INT)",
        "DROP TABLE fluss.sys.tables",
        "ALTER TABLE fluss.sys.tables SET TBLPROPERTIES ('a' = 'b')",
        "DROP DATABASE fluss.sys",
        "ALTER TABLE fluss.sys.tables RENAME TO sys.other",
    ],
)
def test_system_tables_are_not_defined_in_sql(sql: str, complaint: Complaint) -> None:
    assert "system tables are read-only" in complaint(sql)
