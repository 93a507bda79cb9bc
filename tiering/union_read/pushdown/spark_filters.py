"""Translates the filters that Spark passes to a Python data source into conditions of a read."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import date, datetime
from typing import Any

from pyspark.sql import datasource as spark

from tiering.model.reading.conditions import AllOf, Condition, Filter, Not, Operator
from tiering.model.sql_types import Day, Instant, Value

MAX_CONDITIONS, MAX_LITERALS = 50, 100
"""Conditions of a read, and literals of one of them, that are passed on. The service limits their number."""
_PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"
_OPERATORS: dict[type, Operator] = {
    spark.EqualTo: Operator.EQUAL,
    spark.GreaterThan: Operator.GREATER,
    spark.GreaterThanOrEqual: Operator.GREATER_OR_EQUAL,
    spark.LessThan: Operator.LESS,
    spark.LessThanOrEqual: Operator.LESS_OR_EQUAL,
    spark.StringStartsWith: Operator.STARTS_WITH,
    spark.StringEndsWith: Operator.ENDS_WITH,
    spark.StringContains: Operator.CONTAINS,
}


def is_filter_worker() -> bool:
    """Whether this process is Spark's worker that pushes filters down. Spark starts it if `spark.sql.python.filterPushdown.enabled` is set,
    and otherwise refuses every reader that has `pushFilters`."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSHDOWN_WORKER in sys.modules or getattr(main, "name", None) == _PUSHDOWN_WORKER


def conditions_of(filters: Iterable[spark.Filter]) -> tuple[Condition, ...]:
    """Returns the conditions with the same meaning as the filters, without those that conditions cannot express."""
    conditions = (condition_of(pushed) for pushed in filters)
    return tuple(condition for condition in conditions if condition is not None)[:MAX_CONDITIONS]


def condition_of(pushed: Any) -> Condition | None:
    """Returns the condition that is true, false and unknown for the same rows as a filter; None if there is none."""
    if isinstance(pushed, spark.Not):
        child = condition_of(pushed.child)
        return None if child is None else Not(child)
    if len(pushed.attribute) != 1:
        return None
    (column,) = pushed.attribute
    match pushed:
        case spark.IsNull():
            return Filter(column, Operator.IS_NULL)
        case spark.IsNotNull():
            return Filter(column, Operator.IS_NOT_NULL)
        case spark.In():
            return _compared(column, Operator.IN, pushed.value)
        case spark.EqualNullSafe():
            return _null_safe(column, pushed.value)
    operator = _OPERATORS.get(type(pushed))
    return None if operator is None else _compared(column, operator, [pushed.value])


def _null_safe(column: str, value: Any) -> Condition | None:
    if value is None:
        return Filter(column, Operator.IS_NULL)
    equal = _compared(column, Operator.EQUAL, [value])
    # False for NULL, and not unknown as an equality is.
    return None if equal is None else AllOf((Filter(column, Operator.IS_NOT_NULL), equal))


def _compared(column: str, operator: Operator, values: Iterable[Any]) -> Condition | None:
    literals: list[Value] = []
    for value in values:
        if isinstance(value, datetime) and value.tzinfo is not None:
            literals.append(Instant.of(value))
        elif isinstance(value, date) and not isinstance(value, datetime):
            literals.append(Day.of(value))
        elif value is None or isinstance(value, (str, bool, int, float)):
            literals.append(value)
        else:
            return None
    return Filter(column, operator, tuple(literals)) if len(literals) <= MAX_LITERALS else None
