"""Filters of Spark's Python data sources as conditions of a read."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import datasource as spark

from support.values.plain_conditions import truth_of
from tiering.model.reading.conditions import Filter, Not, Operator
from tiering.model.sql_types import Day, Instant
from tiering.union_read.pushdown.spark_filters import condition_of, conditions_of, is_filter_worker

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
X = ("x",)


@pytest.mark.parametrize(
    ("pushed", "condition"),
    [
        (spark.EqualTo(X, 1), Filter("x", Operator.EQUAL, (1,))),
        (spark.In(X, (1, None)), Filter("x", Operator.IN, (1, None))),
        (spark.LessThan(X, NEW_YEAR), Filter("x", Operator.LESS, (Instant.of(NEW_YEAR),))),
        (spark.StringStartsWith(X, "a"), Filter("x", Operator.STARTS_WITH, ("a",))),
        (spark.Not(spark.IsNull(X)), Not(Filter("x", Operator.IS_NULL))),
        (spark.EqualTo(("x", "y"), 1), None),
        (spark.EqualTo(X, Decimal("1.5")), None),
        (spark.Not(spark.GreaterThan(X, date(1970, 1, 6))), Not(Filter("x", Operator.GREATER, (Day(5),)))),
        (spark.In(X, (date.min, date.max, None)), Filter("x", Operator.IN, (Day(-719_162), Day(2_932_896), None))),
        (spark.EqualTo(X, datetime(2026, 1, 1)), None),
        (spark.In(X, (b"a", b"b")), None),
    ],
)
def test_a_filter_becomes_the_condition_with_its_meaning(pushed: spark.Filter, condition: Any) -> None:
    assert condition_of(pushed) == condition
    assert conditions_of([pushed, spark.IsNotNull(X)]) == (*([condition] if condition else []), Filter("x", Operator.IS_NOT_NULL))


@pytest.mark.parametrize(
    ("value", "literal", "truth"), [(None, None, True), (1, None, False), (None, 1, False), (1, 1, True), (1, 2, False)]
)
def test_a_null_safe_equality_is_never_unknown(value: int | None, literal: int | None, truth: bool) -> None:
    condition = condition_of(spark.EqualNullSafe(X, literal))
    assert condition is not None
    assert (truth_of(condition, {"x": value}), truth_of(Not(condition), {"x": value})) == (truth, not truth)


def test_only_the_worker_of_spark_for_filters_pushes_filters() -> None:
    assert not is_filter_worker()
