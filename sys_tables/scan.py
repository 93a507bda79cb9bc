"""What a statement wants of a system table: columns, filters, limit; and the filters' exact meaning.

Filters are SQL's, with its three-valued logic: a comparison with NULL, on either side, holds for no row. As in Spark, NaN
equals NaN and is greater than every other number, and strings compare by their UTF-8 bytes (which is the order of code points).
A table may narrow its own work with `ScanRequest.equals`; all filters are applied to its rows afterwards in any case.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from itertools import islice
from operator import eq, ge, gt, le, lt, ne
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sys_tables.columns import AnyField
from sys_tables.sql_types import spark_type
from tiering.errors import InvalidArgument

if TYPE_CHECKING:
    from sys_tables.definitions import Procedure

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Operator(Enum):
    """As `Filter.Operator` of the proto, by name."""

    EQUAL = "="
    NOT_EQUAL = "<>"
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    IN = "IN"
    IS_NULL = "IS NULL"
    IS_NOT_NULL = "IS NOT NULL"
    STARTS_WITH = "LIKE 'x%'"


@dataclass(frozen=True)
class Instant:
    """A point in time as SQL has it: microseconds since the epoch, UTC. Spark's range is wider than datetime's."""

    microseconds: int

    def __repr__(self) -> str:
        return f"TIMESTAMP({self.microseconds} us)"

    @staticmethod
    def of(moment: datetime) -> Instant:
        """An aware datetime, exactly."""
        return Instant((moment - _EPOCH) // _MICROSECOND)

    def as_datetime(self) -> datetime:
        """Raises OverflowError outside the years 1 to 9999."""
        return _EPOCH + timedelta(microseconds=self.microseconds)


Value = str | int | float | bool | Instant | None
"""A literal of a statement; None is NULL."""


@dataclass(frozen=True)
class Filter:
    """A conjunct: `column operator values`."""

    column: str
    operator: Operator
    values: tuple[Value, ...] = ()


@dataclass(frozen=True)
class ScanRequest:
    """What is wanted. `columns` in the order asked (a table may skip costly ones it does not find there); None = no limit.

    `procedures` are those being served beside the table: `sys.procedures` lists them.
    """

    columns: tuple[str, ...] = ()
    filters: tuple[Filter, ...] = ()
    limit: int | None = None
    procedures: tuple[Procedure, ...] = ()

    def equals(self, column: str) -> Any:
        """The one value, never NULL, that `column` must have in every row wanted; None = not narrowed to one."""
        for condition in self.filters:
            if condition.column == column and condition.operator in (Operator.EQUAL, Operator.IN):
                values = {value for value in condition.values if value is not None}
                if len(values) == 1:
                    return values.pop()
        return None


Predicate = Callable[[object], bool]
_COMPARISONS: dict[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQUAL: eq,
    Operator.NOT_EQUAL: ne,
    Operator.LESS: lt,
    Operator.LESS_OR_EQUAL: le,
    Operator.GREATER: gt,
    Operator.GREATER_OR_EQUAL: ge,
}


def select(rows: Iterable[object], schema: pa.Schema, scan: ScanRequest) -> Iterator[object]:
    """The rows that pass every filter, at most `limit` of them, lazily and in order.

    Raises InvalidArgument, naming the column, for a filter that does not fit `schema`, and for a negative limit.
    """
    predicates = [_predicate(condition, schema) for condition in scan.filters]
    if scan.limit is not None and scan.limit < 0:
        raise InvalidArgument(f"a limit of {scan.limit} rows is not possible")
    wanted = (row for row in rows if all(holds(row) for holds in predicates))
    return islice(wanted, scan.limit)


def _predicate(condition: Filter, schema: pa.Schema) -> Predicate:
    if condition.column not in schema.names:
        raise InvalidArgument(f"there is no column {condition.column!r} to filter by; there are: {', '.join(schema.names)}")
    name, operator, field = condition.column, condition.operator, schema.field(condition.column)
    if operator is Operator.IS_NULL:
        return lambda row: getattr(row, name) is None
    if operator is Operator.IS_NOT_NULL:
        return lambda row: getattr(row, name) is not None
    literals = [None if value is None else _literal_key(field, value) for value in condition.values]
    if operator is Operator.IN:
        members = {key for key in literals if key is not None}
        return lambda row: (value := getattr(row, name)) is not None and _key(value) in members
    if len(literals) != 1:
        raise InvalidArgument(f"the filter {name} {operator.value} takes one value, not {len(literals)}")
    if (literal := literals[0]) is None:
        return lambda row: False
    return _one_value_predicate(name, operator, literal, field)


def _one_value_predicate(name: str, operator: Operator, literal: Any, field: AnyField) -> Predicate:
    if operator is Operator.STARTS_WITH:
        if not pa.types.is_string(field.type):
            raise InvalidArgument(f"the column {name!r} is {spark_type(field.type)}: it has no beginning to compare")
        return lambda row: (value := getattr(row, name)) is not None and value.startswith(literal)
    compare = _COMPARISONS[operator]
    return lambda row: (value := getattr(row, name)) is not None and compare(_key(value), literal)


def _literal_key(field: AnyField, value: Value) -> Any:
    """What a literal compares by, if it fits the column; raises InvalidArgument."""
    kind, is_number = field.type, isinstance(value, (int, float)) and not isinstance(value, bool)
    fits = (
        (pa.types.is_string(kind) and isinstance(value, str))
        or (pa.types.is_boolean(kind) and isinstance(value, bool))
        or ((pa.types.is_integer(kind) or pa.types.is_floating(kind)) and is_number)
        or (pa.types.is_timestamp(kind) and isinstance(value, Instant))
    )
    if not fits:
        raise InvalidArgument(f"the column {field.name!r} is {spark_type(kind)}: it cannot be compared with {value!r}")
    return _key(value)


def _key(value: Any) -> Any:
    """What a value compares by: exact for integers of any size, Spark's order for NaN, whole microseconds for times."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    if isinstance(value, int) and not isinstance(value, bool):
        return (False, value)
    if isinstance(value, datetime):
        return Instant.of(value).microseconds
    return value.microseconds if isinstance(value, Instant) else value
