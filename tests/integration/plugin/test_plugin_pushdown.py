"""Filters, columns and limits that the service applies mean what they mean in Spark, also with NULL and NaN.

Each condition is answered twice: by the service through the plugin, and by Spark alone over the same rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from support.values.values_table import values
from support.worlds.memory_coordinator import MemoryCoordinator
from sys_tables.rpc.v1 import sys_catalog_pb2 as pb
from tiering.rpc.v1 import common_pb2

Serve = Callable[..., Any]
Session = Callable[..., SparkSession]


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
    ("text LIKE '%le%'", ["IS_NOT_NULL text", "CONTAINS text"]),
    ("text LIKE '%le'", ["IS_NOT_NULL text", "ENDS_WITH text"]),
    ("text <=> 'apple'", ["(IS_NOT_NULL text AND EQUAL text)"]),
    ("text <=> NULL", ["IS_NULL text"]),
    ("NOT (text <=> 'apple')", ["NOT (IS_NOT_NULL text AND EQUAL text)"]),
    ("NOT (text IN ('apple', ''))", ["NOT IN text"]),
    ("text = 'apple' OR big = 7", ["(EQUAL text OR EQUAL big)"]),
    ("NOT (text = 'apple' AND big = 10)", ["(NOT EQUAL text OR NOT EQUAL big)"]),
    ("(small > 0 AND truth) OR real IS NULL", None),
    ("NOT (text LIKE 'ap%' OR small > 5)", None),
    ("(truth OR small = 7) AND (text > 'a' OR text IS NULL)", None),
    ("text = 'apple' OR upper(text) = 'APPLE'", None),
    ("NOT (text IN ('apple', NULL))", None),
    ("text IN (NULL)", None),
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
    return serve(MemoryCoordinator(), tables=[values])


@pytest.fixture
def spark(server: Any, session: Session) -> SparkSession:
    spark = session(server.uri)
    spark.createDataFrame(spark.table("fluss.sys.values").collect(), spark.table("fluss.sys.values").schema).createTempView("alone")
    server.reads.clear()
    return spark


def ids(rows: list[Row]) -> list[int]:
    return sorted(row.id for row in rows)


def conditions_of(read: pb.ReadTableRequest) -> list[str]:
    return [text_of(common_pb2.Condition(filter=condition)) for condition in read.filters] + [
        text_of(condition) for condition in read.conditions
    ]


def text_of(condition: common_pb2.Condition) -> str:
    """A condition as text."""
    match condition.WhichOneof("kind"):
        case "filter":
            return f"{common_pb2.Filter.Operator.Name(condition.filter.operator)} {condition.filter.column}"
        case "all":
            return f"({' AND '.join(text_of(part) for part in condition.all.conditions)})"
        case "any":
            return f"({' OR '.join(text_of(part) for part in condition.any.conditions)})"
        case _:
            return f"NOT {text_of(condition.negated)}"


@pytest.mark.parametrize(("condition", "pushed"), PUSHED, ids=[condition for condition, _ in PUSHED])
def test_a_condition_selects_the_rows_that_spark_would(condition: str, pushed: list[str] | None, server: Any, spark: SparkSession) -> None:
    selected = spark.sql(f"SELECT id, text FROM fluss.sys.values WHERE {condition}").collect()

    assert ids(selected) == ids(spark.sql(f"SELECT id FROM alone WHERE {condition}").collect())
    if pushed is not None:
        assert sorted(conditions_of(server.reads[0])) == sorted(pushed)


def test_an_in_list_longer_than_a_service_takes_stays_with_spark(server: Any, spark: SparkSession) -> None:
    long, short = (", ".join(map(str, range(2, count))) for count in (6_000, 1_000))

    assert ids(spark.sql(f"SELECT id FROM fluss.sys.values WHERE id IN ({long}) AND small > 0").collect()) == ids(
        spark.sql(f"SELECT id FROM alone WHERE id IN ({long}) AND small > 0").collect()
    )
    assert sorted(conditions_of(server.reads[0])) in (["GREATER small"], ["GREATER small", "IS_NOT_NULL small"])
    spark.sql(f"SELECT id FROM fluss.sys.values WHERE id IN ({short})").collect()
    assert conditions_of(server.reads[1]) == ["IN id"]


def test_what_is_pushed_is_not_done_again(spark: SparkSession) -> None:
    plan = spark.sql("EXPLAIN SELECT * FROM fluss.sys.values WHERE text = 'apple' AND small IN (1, 2) LIMIT 3").first().plan

    assert "SystemTableScan" in plan
    assert "Filter" not in plan
    assert "Limit" not in plan


def test_only_the_columns_of_the_statement_are_asked_for(server: Any, spark: SparkSession) -> None:
    assert spark.sql("SELECT truth, small FROM fluss.sys.values WHERE id = 1").collect() == [Row(truth=True, small=1)]
    assert sorted(server.reads[0].columns) == ["small", "truth"]


def test_rows_are_counted_by_the_service(server: Any, spark: SparkSession) -> None:
    assert spark.sql("SELECT count(*) AS n FROM fluss.sys.values WHERE text IS NOT NULL").first().n == 6
    assert [pb.Aggregate.Function.Name(aggregate.function) for aggregate in server.reads[0].aggregates] == ["COUNT"]


def test_sort_and_limit_are_the_service_s(server: Any, spark: SparkSession) -> None:
    largest = spark.sql("SELECT id, real AS r FROM fluss.sys.values ORDER BY r DESC NULLS LAST, id LIMIT 2").collect()

    assert [row.id for row in largest] == [2, 5]
    assert [(key.column, key.descending, key.nulls_first) for key in server.reads[0].order] == [("real", True, False), ("id", False, True)]
    assert server.reads[0].limit == 2


def test_a_limit_is_the_service_s_only_when_no_filter_is_left_to_spark(server: Any, spark: SparkSession) -> None:
    few = spark.sql("SELECT id FROM fluss.sys.values WHERE small > 0 LIMIT 2").collect()
    filtered = spark.sql("SELECT id FROM fluss.sys.values WHERE upper(text) = 'APPLE' LIMIT 2").collect()
    later = spark.sql("SELECT id FROM fluss.sys.values LIMIT 2 OFFSET 3").collect()

    assert (ids(few), ids(filtered), ids(later)) == ([1, 5], [1, 2], [4, 5])
    assert [read.limit if read.HasField("limit") else None for read in server.reads] == [2, None, 5]
