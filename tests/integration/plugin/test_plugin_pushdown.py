"""Filters, columns and limits that the service applies mean what they mean in Spark, also with NULL and NaN.

Each condition is answered twice: by the service through the plugin, and by Spark alone over the same rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from support.memory_coordinator import MemoryCoordinator
from sys_tables.columns import INT, column
from sys_tables.definitions import system_table
from sys_tables.rpc.v1 import sys_catalog_pb2 as pb
from sys_tables.scan import ScanRequest
from tiering.coordinator.api import CoordinatorView

Serve = Callable[..., Any]
Session = Callable[..., SparkSession]


@dataclass(frozen=True)
class ValueRow:
    id: int = column("Number of the row.")
    text: str | None = column("A STRING.")
    small: int | None = column("An INT.", arrow_type=INT)
    big: int | None = column("A BIGINT.")
    real: float | None = column("A DOUBLE.")
    truth: bool | None = column("A BOOLEAN.")
    moment: datetime | None = column("A TIMESTAMP.")
    words: tuple[str, ...] | None = column("An ARRAY.")


def moment(second: int, microsecond: int = 0) -> datetime:
    return datetime(2026, 3, 1, 12, 0, second, microsecond, tzinfo=UTC)


ROWS = [
    ValueRow(1, "apple", 1, 10, 1.5, True, moment(1), ("a",)),
    ValueRow(2, "Apple", -1, 2**62, math.nan, False, moment(2, 1), ()),
    ValueRow(3, "", 0, 0, -0.0, True, moment(2), None),
    ValueRow(4, None, None, None, None, None, None, None),
    ValueRow(5, "ap_le%", 2**31 - 1, -(2**63), math.inf, False, moment(3), ("b",)),
    ValueRow(6, "\U0001f600 emoji", 7, 7, -math.inf, None, moment(4), None),
    ValueRow(7, "\uffff last of the basic plane", 8, 8, 0.0, None, moment(5), None),
]

PUSHED = [
    ("text = 'apple'", ["IS_NOT_NULL text", "EQUAL text"]),
    ("'apple' = text", ["IS_NOT_NULL text", "EQUAL text"]),
    ("text <> 'apple'", ["IS_NOT_NULL text", "NOT_EQUAL text"]),
    ("text < 'apple'", ["IS_NOT_NULL text", "LESS text"]),
    ("text > '\uffff'", ["IS_NOT_NULL text", "GREATER text"]),
    ("text IN ('apple', '', NULL)", ["IN text"]),
    ("text IS NULL", ["IS_NULL text"]),
    ("text IS NOT NULL", ["IS_NOT_NULL text"]),
    ("text LIKE 'ap%'", ["IS_NOT_NULL text", "STARTS_WITH text"]),
    ("startswith(text, '')", ["IS_NOT_NULL text", "STARTS_WITH text"]),
    ("small >= 0", ["IS_NOT_NULL small", "GREATER_OR_EQUAL small"]),
    ("0 < small", ["IS_NOT_NULL small", "GREATER small"]),
    ("big = 4611686018427387904", ["IS_NOT_NULL big", "EQUAL big"]),
    ("big <= 0", ["IS_NOT_NULL big", "LESS_OR_EQUAL big"]),
    ("big IN (7, 8, 9)", ["IN big"]),
    ("real > 1.0D", ["IS_NOT_NULL real", "GREATER real"]),
    ("real = 0.0D", ["IS_NOT_NULL real", "EQUAL real"]),
    ("real = double('NaN')", ["IS_NOT_NULL real", "EQUAL real"]),
    ("real < double('NaN')", ["IS_NOT_NULL real", "LESS real"]),
    ("real <> 1.5D", ["IS_NOT_NULL real", "NOT_EQUAL real"]),
    ("real IN (double('NaN'), double('Infinity'))", ["IN real"]),
    ("truth", ["IS_NOT_NULL truth", "EQUAL truth"]),
    ("NOT truth", ["IS_NOT_NULL truth", "NOT_EQUAL truth"]),
    ("truth = false", ["IS_NOT_NULL truth", "NOT_EQUAL truth"]),
    ("truth <> true", ["IS_NOT_NULL truth", "NOT_EQUAL truth"]),
    ("moment > TIMESTAMP '2026-03-01 12:00:02 UTC'", ["IS_NOT_NULL moment", "GREATER moment"]),
    ("moment = TIMESTAMP '2026-03-01 12:00:02.000001 UTC'", ["IS_NOT_NULL moment", "EQUAL moment"]),
    ("words IS NULL", ["IS_NULL words"]),
    ("id > 2 AND text IS NOT NULL", ["GREATER id", "IS_NOT_NULL text"]),
    ("text <=> 'apple'", None),
    ("text <=> NULL", None),
    ("NOT (text IN ('apple', NULL))", None),
    ("NOT (text IN ('apple', ''))", None),
    ("text IN (NULL)", None),
    ("text = 'apple' OR big = 7", None),
    ("text LIKE '%le%'", None),
    ("text LIKE 'ap\\\\_%'", None),
    ("upper(text) = 'APPLE'", None),
    ("small = 1.0D", None),
    ("small = 99999999999", None),
    ("big > 1.5D", None),
    ("real > 1", None),
    ("small = big", None),
    ("get(words, 0) = 'a'", None),
    ("words = array('a')", None),
    ("text COLLATE UTF8_LCASE = 'apple'", None),
    ("moment > DATE '2026-03-01'", None),
    ("NOT (small > 0)", None),
    ("isnan(real)", None),
    ("truth IS NOT TRUE", None),
    ("text = NULL", None),
]
"""Conditions, and the filters that reach the service; None where it does not matter what Spark makes of them."""


@pytest.fixture
def server(serve: Serve) -> Any:
    @system_table("values", ValueRow, comment="Values.")
    def values(view: CoordinatorView, scan: ScanRequest) -> Iterator[ValueRow]:
        yield from ROWS

    return serve(MemoryCoordinator(), tables=[values])


@pytest.fixture
def spark(server: Any, session: Session) -> SparkSession:
    spark = session(server.uri)
    spark.createDataFrame(spark.table("fluss.sys.values").collect(), spark.table("fluss.sys.values").schema).createTempView("alone")
    server.reads.clear()
    return spark


def ids(rows: list[Row]) -> list[int]:
    return sorted(row.id for row in rows)


def filters(read: pb.ReadTableRequest) -> list[str]:
    return [f"{pb.Filter.Operator.Name(condition.operator)} {condition.column}" for condition in read.filters]


@pytest.mark.parametrize(("condition", "pushed"), PUSHED, ids=[condition for condition, _ in PUSHED])
def test_a_condition_selects_the_rows_that_spark_would(condition: str, pushed: list[str] | None, server: Any, spark: SparkSession) -> None:
    selected = spark.sql(f"SELECT id, text FROM fluss.sys.values WHERE {condition}").collect()

    assert ids(selected) == ids(spark.sql(f"SELECT id FROM alone WHERE {condition}").collect())
    if pushed is not None:
        assert sorted(filters(server.reads[0])) == sorted(pushed)


def test_what_is_pushed_is_not_done_again(spark: SparkSession) -> None:
    plan = spark.sql("EXPLAIN SELECT * FROM fluss.sys.values WHERE text = 'apple' AND small IN (1, 2) LIMIT 3").first().plan

    assert "LocalTableScan" in plan
    assert "Filter" not in plan
    assert "Limit" not in plan


def test_only_the_columns_of_the_statement_are_asked_for(server: Any, spark: SparkSession) -> None:
    assert spark.sql("SELECT truth, small FROM fluss.sys.values WHERE id = 1").collect() == [Row(truth=True, small=1)]
    assert sorted(server.reads[0].columns) == ["small", "truth"]


def test_rows_are_counted_without_reading_them_all(server: Any, spark: SparkSession) -> None:
    assert spark.sql("SELECT count(*) AS n FROM fluss.sys.values WHERE text IS NOT NULL").first().n == 6
    assert list(server.reads[0].columns) == ["id"]


def test_a_limit_is_the_service_s_only_when_no_filter_is_left_to_spark(server: Any, spark: SparkSession) -> None:
    few = spark.sql("SELECT id FROM fluss.sys.values WHERE small > 0 LIMIT 2").collect()
    filtered = spark.sql("SELECT id FROM fluss.sys.values WHERE upper(text) = 'APPLE' LIMIT 2").collect()
    later = spark.sql("SELECT id FROM fluss.sys.values LIMIT 2 OFFSET 3").collect()

    assert (ids(few), ids(filtered), ids(later)) == ([1, 5], [1, 2], [4, 5])
    assert [read.limit if read.HasField("limit") else None for read in server.reads] == [2, None, 5]
