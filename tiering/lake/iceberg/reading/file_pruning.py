"""Leaves out data files that can have no row for which the conditions of a read are true, by their partition values and column bounds.

Only conditions whose meaning is the same in Spark and in Iceberg are used. Bounds do not contain NaN, which Spark compares as the greatest
number, so floating point columns are only compared with `=`, `<` and `<=`. A negation, and a literal that would be rounded, are not used.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable
from functools import cache, reduce
from typing import Any

import pyarrow as pa
from pyiceberg import expressions
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, Or
from pyiceberg.expressions.literals import BooleanLiteral, DateLiteral, DoubleLiteral, Literal, LongLiteral, StringLiteral, TimestampLiteral
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator, expression_evaluator, inclusive_projection
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import (
    BooleanType,
    DateType,
    DoubleType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from tiering.lake.iceberg.schema.columns import named_as_source, recorded_ids
from tiering.model.reading.conditions import AllOf, AnyOf, Condition, Filter, Not, Operator
from tiering.model.sql_types import Day, Instant, Value

FileFilter = Callable[[DataFile], bool]
"""Whether a data file may have a row that is needed."""

_MAKE: Any = expressions
"""The constructors of predicates, whose stubs do not have the arguments that they take."""
_BELOW = (Operator.LESS, Operator.LESS_OR_EQUAL)
_COMPARED: dict[Operator, Any] = {
    Operator.EQUAL: _MAKE.EqualTo,
    Operator.LESS: _MAKE.LessThan,
    Operator.LESS_OR_EQUAL: _MAKE.LessThanOrEqual,
    Operator.GREATER: _MAKE.GreaterThan,
    Operator.GREATER_OR_EQUAL: _MAKE.GreaterThanOrEqual,
}
_WHOLE_UNITS = ("s", "ms", "us")


def file_filter(table: Table, source: pa.Schema, conditions: Iterable[Condition]) -> FileFilter:
    """Returns the filter for the conditions, which use the columns of `source`, on the data files of the lake table."""
    schema = named_as_source(source, table.schema(), recorded_ids(table.properties))
    expression = _expression(AllOf(tuple(conditions)), source, schema)
    if expression == AlwaysTrue():
        return lambda file: True
    metrics = _InclusiveMetricsEvaluator(schema, expression)
    specs = table.metadata.specs()

    @cache
    def partition_filter(spec_id: int) -> Callable[[Any], bool]:
        spec = specs[spec_id]
        projected = inclusive_projection(schema, spec)(expression)
        return expression_evaluator(Schema(*spec.partition_type(schema).fields), projected, case_sensitive=True)

    def may_match(file: DataFile) -> bool:
        try:
            return partition_filter(file.spec_id)(file.partition) and metrics.eval(file)
        except (ValueError, TypeError, OverflowError, struct.error):
            # A bound of another type, for example of a column that was widened since, or a damaged one.
            return True

    return may_match


def _expression(condition: Condition, source: pa.Schema, schema: Schema) -> BooleanExpression:
    """Returns an expression that is true for each row for which the condition is true."""
    match condition:
        case AllOf(parts):
            everything: BooleanExpression = AlwaysTrue()
            return reduce(And, (_expression(part, source, schema) for part in parts), everything)
        case AnyOf(parts) if parts:
            return reduce(Or, (_expression(part, source, schema) for part in parts))
        case Filter(column):
            field = next((field for field in schema.fields if field.name == column), None)
            place = source.get_field_index(column)
            # A reference with a dot would mean a nested column.
            is_usable = field is not None and place >= 0 and "." not in column
            return _predicate(condition, field, source.field(place).type) if field is not None and is_usable else AlwaysTrue()
        case AnyOf() | Not():
            return AlwaysTrue()


def _predicate(condition: Filter, field: NestedField, source: pa.DataType) -> BooleanExpression:
    name, operator = condition.column, condition.operator
    predicate: BooleanExpression = AlwaysTrue()
    if not isinstance(field.field_type, PrimitiveType):
        return predicate
    if operator is Operator.IS_NULL:
        predicate = _MAKE.IsNull(name)
    elif operator is Operator.IS_NOT_NULL:
        predicate = _MAKE.NotNull(name)
    elif literals := _literals(condition.values, field.field_type, source):
        is_real = isinstance(field.field_type, DoubleType)
        if operator is Operator.IN:
            predicate = _MAKE.In(name, literals)
        elif operator is Operator.STARTS_WITH and isinstance(field.field_type, StringType) and not condition.ignores_case:
            predicate = _MAKE.StartsWith(name, literals[0])
        elif operator in _COMPARED and (not is_real or operator is Operator.EQUAL or operator in _BELOW):
            predicate = _COMPARED[operator](name, literals[0])
    return predicate


def _literals(values: Iterable[Value], kind: IcebergType, source: pa.DataType) -> list[Literal[Any]]:
    """Returns the literals without NULL; none if one of them is not exact."""
    literals = [_literal(value, kind, source) for value in values if value is not None]
    exact = [literal for literal in literals if literal is not None]
    return exact if len(exact) == len(literals) else []


def _literal(value: Value, kind: IcebergType, source: pa.DataType) -> Literal[Any] | None:
    """Returns the literal of the column's type with exactly this value; None if there is none."""
    if isinstance(value, bool):
        return BooleanLiteral(value) if isinstance(kind, BooleanType) else None
    if isinstance(value, str):
        return StringLiteral(value) if isinstance(kind, StringType) else None
    if isinstance(value, Instant):
        is_exact = isinstance(source, pa.TimestampType) and source.unit in _WHOLE_UNITS
        return TimestampLiteral(value.microseconds) if is_exact and isinstance(kind, (TimestampType, TimestamptzType)) else None
    if isinstance(value, Day):
        is_exact = pa.types.is_date32(source) and isinstance(kind, DateType)
        return DateLiteral(value.days) if is_exact and -(2**31) <= value.days < 2**31 else None
    if isinstance(value, int) and isinstance(kind, (IntegerType, LongType)):
        bits = 31 if isinstance(kind, IntegerType) else 63
        return LongLiteral(value) if -(2**bits) <= value < 2**bits else None
    if isinstance(value, (int, float)) and isinstance(kind, DoubleType):
        return DoubleLiteral(float(value)) if float(value) == value and not math.isnan(value) else None
    return None
