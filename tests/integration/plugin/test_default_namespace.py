"""`default`, where JDBC clients without a database begin: empty and unlisted, unless the store has a database of that name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from support.worlds.memory_coordinator import MemoryCoordinator, table_info

Serve = Callable[..., Any]
Session = Callable[..., SparkSession]


def rows(spark: SparkSession, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in spark.sql(sql).collect()]


@pytest.fixture
def spark(serve: Serve, session: Session) -> SparkSession:
    """A session that uses the catalog, and in it the namespace `default`."""
    spark = session(serve(MemoryCoordinator([table_info("demo.flights")])).uri)
    spark.sql("USE fluss")
    spark.sql("USE default")
    return spark


def test_it_can_be_used_and_is_empty(spark: SparkSession) -> None:
    assert rows(spark, "SELECT current_catalog(), current_schema()") == [("fluss", "default")]
    assert rows(spark, "SHOW TABLES") == []
    assert rows(spark, "SHOW TABLES IN default") == []
    assert rows(spark, "SHOW PROCEDURES IN default") == []
    assert ("Comment", "Empty: for sessions that have chosen no database.") in rows(spark, "DESCRIBE NAMESPACE default")
    assert rows(spark, "SELECT count(*) FROM sys.procedures")[0][0] > 0
    assert rows(spark, "CALL sys.help('help')")


def test_a_session_that_chose_no_database_lists_the_tables_of_all(serve: Serve, session: Session) -> None:
    spark = session(serve(MemoryCoordinator([table_info("demo.flights"), table_info("sales.orders")])).uri)
    spark.sql("USE fluss")

    assert rows(spark, "SHOW TABLES") == [("demo", "flights", False), ("sales", "orders", False)]
    assert "tier_table" in [row[-1] for row in rows(spark, "SHOW PROCEDURES")]
    spark.sql("USE sales")
    assert rows(spark, "SHOW TABLES") == [("sales", "orders", False)]


def test_it_is_not_listed(spark: SparkSession) -> None:
    assert rows(spark, "SHOW NAMESPACES") == [("demo",), ("sys",)]


@pytest.mark.parametrize(
    ("sql", "complaint"),
    [
        ("SELECT * FROM flights", "[TABLE_OR_VIEW_NOT_FOUND]"),
        ("SELECT * FROM default.flights", "[TABLE_OR_VIEW_NOT_FOUND]"),
        ("CALL default.help()", "the namespace default of the catalog fluss is empty: name another one, as in namespace.name"),
        ("CREATE TABLE default.x (id INT)", "the namespace default of the catalog fluss is empty: name another one"),
        ("CREATE DATABASE default", "already exists"),
        ("USE nowhere", "[SCHEMA_NOT_FOUND]"),
    ],
)
def test_what_it_lacks_is_an_error_that_helps(spark: SparkSession, sql: str, complaint: str) -> None:
    with pytest.raises(PySparkException) as raised:
        spark.sql(sql).collect()
    assert complaint in str(raised.value)


def test_a_database_of_that_name_is_shown_as_any_other(serve: Serve, session: Session) -> None:
    spark = session(serve(MemoryCoordinator([table_info("default.flights")])).uri)
    assert rows(spark, "SHOW NAMESPACES IN fluss") == [("default",), ("sys",)]
    assert rows(spark, "SHOW TABLES IN fluss.default") == [("default", "flights", False)]
