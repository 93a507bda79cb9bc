"""Leaves out data files that can have no row for which the conditions of a read are true, by partition values and column bounds. Pure.

Only bounds of integers and dates are used. Lakeward writes no others, and other writers shorten the bounds of texts. A negation is not
used.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from tiering.model.reading.conditions import AllOf, AnyOf, Condition, Filter, Operator
from tiering.model.sql_types import Day, Value

_BOUNDED = frozenset(("TINYINT", "SMALLINT", "INT", "BIGINT", "DATE"))
"""Paimon's types whose bounds are used."""


@dataclass(frozen=True)
class Bounds:
    """The values of a column in a file: lowest and highest (None = unknown), and the number of NULLs (None = unknown)."""

    low: int | str | Day | None
    high: int | str | Day | None
    nulls: int | None


def file_bounds(entry: Any, partition_keys: Sequence[str], names: Mapping[int, str], *, has_key: bool) -> dict[str, Bounds]:
    """Returns the bounds of a manifest entry's file by column. `names`: the names of the source's columns by the lake's field ids.

    `has_key`: a row hides older rows of its key in other files. So only bounds of the key tell that a file is not needed.
    """
    stats = entry.file.key_stats if has_key else entry.file.value_stats
    bounds = {}
    for place, field in enumerate(stats.min_values.fields[: len(stats.min_values)]):
        if int(field.id) in names and str(field.type).split()[0] in _BOUNDED:
            nulls = None if stats.null_counts is None else stats.null_counts[place]
            bounds[names[int(field.id)]] = Bounds(_bound(stats.min_values, place), _bound(stats.max_values, place), nulls)
    for name, value in zip(partition_keys, entry.partition.values, strict=True):
        if isinstance(value, (int, str, date)):
            bounds[name] = Bounds(_comparable(value), _comparable(value), 0)
    return bounds


def _bound(row: Any, place: int) -> int | str | Day | None:
    try:
        return _comparable(row.get_field(place))
    except OverflowError:  # a date that Python cannot represent
        return None


def _comparable(value: int | str | date | None) -> int | str | Day | None:
    return Day.of(value) if isinstance(value, date) else value


def may_match(conditions: Iterable[Condition], bounds: Mapping[str, Bounds], rows: int) -> bool:
    """Whether a file of so many rows, whose columns have these bounds, may have a row for which all conditions are true."""
    return all(_may_match(condition, bounds, rows) for condition in conditions)


def _may_match(condition: Condition, bounds: Mapping[str, Bounds], rows: int) -> bool:
    match condition:
        case AllOf(parts):
            return may_match(parts, bounds, rows)
        case AnyOf(parts) if parts:
            return any(_may_match(part, bounds, rows) for part in parts)
        case Filter(column, operator, values) if column in bounds:
            return _may_have(operator, values, bounds[column], rows)
        case _:
            return True


def _may_have(operator: Operator, values: Sequence[Value], bounds: Bounds, rows: int) -> bool:
    if operator is Operator.IS_NULL:
        return bounds.nulls != 0
    if bounds.nulls == rows:  # a comparison with NULL is never true
        return False
    low, high = bounds.low, bounds.high
    literals = [value for value in values if value is not None]
    if operator is Operator.IS_NOT_NULL or low is None or high is None or not all(_is_comparable(value, low) for value in literals):
        return True
    compared: Sequence[Any] = literals
    match operator:
        case Operator.EQUAL | Operator.IN:
            return any(low <= value <= high for value in compared)
        case Operator.LESS:
            return any(low < value for value in compared)
        case Operator.LESS_OR_EQUAL:
            return any(low <= value for value in compared)
        case Operator.GREATER:
            return any(high > value for value in compared)
        case Operator.GREATER_OR_EQUAL:
            return any(high >= value for value in compared)
        case _:
            return True


def _is_comparable(value: Value, bound: int | str | Day) -> bool:
    """Whether Python compares the literal with the bound as the engines do. They compare texts by their bytes: the order of code points."""
    if isinstance(bound, str):
        return isinstance(value, str)
    if isinstance(bound, Day):
        return isinstance(value, Day)
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)
