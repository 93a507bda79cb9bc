"""The truth of a condition for one row, by plain Python values, as Spark defines it: the reference for filters and pruning."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from tiering.instants import to_microseconds
from tiering.model.reading.conditions import AllOf, AnyOf, Condition, Filter, Not, Operator
from tiering.model.sql_types import Day, Instant

COMPARISONS = (
    Operator.EQUAL,
    Operator.NOT_EQUAL,
    Operator.LESS,
    Operator.LESS_OR_EQUAL,
    Operator.GREATER,
    Operator.GREATER_OR_EQUAL,
)
"""Operators that compare a column with one literal."""


def truth_of(condition: Condition, row: Mapping[str, Any]) -> bool | None:
    """Returns whether the condition is true for a row, None = unknown, in SQL's three-valued logic."""
    match condition:
        case AllOf(parts):
            truths = [truth_of(part, row) for part in parts]
            return False if False in truths else None if None in truths else True
        case AnyOf(parts):
            truths = [truth_of(part, row) for part in parts]
            return True if True in truths else None if None in truths else False
        case Not(part):
            truth = truth_of(part, row)
            return None if truth is None else not truth
        case Filter(column, operator, (text,), True):
            return _filter_truth(operator, row[column] and row[column].lower(), [text and str(text).lower()])
        case Filter(column, operator, values):
            return _filter_truth(operator, row[column], [*values])


def _filter_truth(operator: Operator, value: Any, literals: list[Any]) -> bool | None:
    if operator is Operator.IS_NULL:
        return value is None
    if operator is Operator.IS_NOT_NULL:
        return value is not None
    if operator is Operator.IN:
        truths = [_filter_truth(Operator.EQUAL, value, [literal]) for literal in literals]
        return True if True in truths else None if None in truths else False
    if value is None or literals[0] is None:
        return None
    if operator in (Operator.STARTS_WITH, Operator.ENDS_WITH, Operator.CONTAINS):
        text, part = value, literals[0]
        return {Operator.STARTS_WITH: text.startswith(part), Operator.ENDS_WITH: text.endswith(part), Operator.CONTAINS: part in text}[
            operator
        ]
    left, right = _ordered(value), _ordered(literals[0])
    return {
        Operator.EQUAL: left == right,
        Operator.NOT_EQUAL: left != right,
        Operator.LESS: left < right,
        Operator.LESS_OR_EQUAL: left <= right,
        Operator.GREATER: left > right,
        Operator.GREATER_OR_EQUAL: left >= right,
    }[operator]


def _ordered(value: Any) -> Any:
    """Returns a value that compares as Spark compares: text by its bytes, NaN as the greatest number."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, Instant):
        return value.microseconds
    if isinstance(value, datetime):
        return to_microseconds(value if value.tzinfo else value.replace(tzinfo=UTC))
    if isinstance(value, date):
        return Day.of(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return (1, 0) if math.isnan(value) else (0, value)
    return value
