"""Filters rows by the conditions of a read, so that few rows travel to the engine. The engine filters again with its own comparisons.

A row that is kept by mistake does no harm, and a row that is dropped by mistake is lost. So this module applies only
conditions whose exact meaning it knows: those that compare a column of text, integers, floating point numbers, booleans, dates, or times
up to microseconds with a literal of the same kind. Any other condition keeps all rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tiering.model.reading.conditions import TEXT_OPERATORS, AllOf, AnyOf, Condition, Filter, Not, Operator, columns_of
from tiering.model.reading.matching import AnyArray, truth
from tiering.model.sql_types import BIGINTS, Day, Instant, Value

_NULLNESS = (Operator.IS_NULL, Operator.IS_NOT_NULL)
_WHOLE_UNITS = ("s", "ms", "us")
"""Units of times that are whole numbers of microseconds. Spark has no finer times."""


def applicable(conditions: Iterable[Condition], schema: pa.Schema) -> tuple[Condition, ...]:
    """Returns the conditions that can be applied exactly to rows with the columns of `schema`. Parts of an AND count as conditions."""
    return tuple(condition for condition in conjuncts(conditions) if _is_exact(condition, schema))


def are_applicable(conditions: Sequence[Condition], schema: pa.Schema) -> bool:
    """Whether all of the conditions can be applied exactly."""
    return len(applicable(conditions, schema)) == len(conjuncts(conditions))


def conjuncts(conditions: Iterable[Condition]) -> list[Condition]:
    """Returns conditions that are all true for the same rows as `conditions`, without an AND at the top."""
    parts: list[Condition] = []
    for condition in conditions:
        parts += conjuncts(condition.parts) if isinstance(condition, AllOf) else [condition]
    return parts


def filtered(rows: pa.RecordBatch, conditions: Sequence[Condition]) -> pa.RecordBatch:
    """Returns the rows for which all `applicable` conditions are true."""
    exact = applicable(conditions, rows.schema)
    if not exact or not rows.num_rows:
        return rows
    mask = matching_rows(rows, exact)
    return rows if pc.all(mask).as_py() else rows.filter(mask)


def matching_rows(rows: pa.RecordBatch, conditions: Iterable[Condition]) -> AnyArray:
    """Returns for each row whether all conditions are true. Each condition is `applicable`."""
    mask: AnyArray = pa.repeat(True, rows.num_rows)
    for condition in conditions:
        names = sorted(columns_of(condition))
        columns = [_comparable(rows.column(name)) for name in names]
        source = pa.RecordBatch.from_arrays(columns, names=names)
        mask = pc.and_(mask, pc.fill_null(truth(condition, source, source.schema), False))
    return mask


def _is_exact(condition: Condition, schema: pa.Schema) -> bool:
    match condition:
        case AllOf(parts) | AnyOf(parts):
            return all(_is_exact(part, schema) for part in parts)
        case Not(part):
            return _is_exact(part, schema)
        case Filter(column, operator, values):
            # A name that occurs twice has no index.
            place = schema.get_field_index(column)
            return place >= 0 and _is_exact_filter(operator, values, schema.field(place).type)


def _is_exact_filter(operator: Operator, values: Sequence[Value], kind: pa.DataType) -> bool:
    if operator in _NULLNESS:
        return True
    if operator in TEXT_OPERATORS:
        return pa.types.is_string(kind) and len(values) == 1 and isinstance(values[0], str)
    has_count = bool(values) if operator is Operator.IN else len(values) == 1
    return has_count and all(value is None or fits(value, kind) for value in values)


def fits(value: Value, kind: pa.DataType) -> bool:
    """Whether the comparison of a column of this type with the literal, which is not NULL, is known exactly."""
    if isinstance(value, bool):
        return pa.types.is_boolean(kind)
    if isinstance(value, str):
        return pa.types.is_string(kind)
    if isinstance(value, Instant):
        return isinstance(kind, pa.TimestampType) and kind.unit in _WHOLE_UNITS and value.microseconds in BIGINTS
    if isinstance(value, Day):
        return pa.types.is_date32(kind) and value.days in BIGINTS
    is_number = pa.types.is_signed_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind)
    return is_number and (isinstance(value, float) or value in BIGINTS)


def _comparable(column: pa.Array[Any]) -> pa.Array[Any]:
    """Returns the values in the type in which they are compared. FLOAT becomes DOUBLE, so that literals are not rounded."""
    if pa.types.is_float32(column.type):
        return column.cast(pa.float64())
    if isinstance(column.type, pa.TimestampType) and column.type.unit in ("s", "ms"):
        return _in_microseconds(column)
    return column


def _in_microseconds(column: Any) -> pa.Array[Any]:
    """Returns the times in microseconds; a time beyond their range becomes the first or last one, as it compares with any literal."""
    factor = {"s": 1_000_000, "ms": 1_000}[column.type.unit]
    numbers = column.cast(pa.int64())
    limited = pc.min_element_wise(pc.max_element_wise(numbers, BIGINTS[0] // factor + 1), BIGINTS[-1] // factor)
    limited = pc.if_else(pc.is_null(numbers), numbers, limited)
    times: pa.Array[Any] = pc.multiply(limited, factor).cast(pa.timestamp("us", column.type.tz))
    return times
