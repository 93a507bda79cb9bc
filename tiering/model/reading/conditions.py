"""The conditions that a read passes to the service: comparisons of columns with literals, joined by AND, OR and NOT. Plain values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tiering.model.sql_types import Value


class Operator(Enum):
    """How a column is compared with literals; names as in `Filter.Operator` of the proto."""

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
    ENDS_WITH = "LIKE '%x'"
    CONTAINS = "LIKE '%x%'"


TEXT_OPERATORS = (Operator.STARTS_WITH, Operator.ENDS_WITH, Operator.CONTAINS)


@dataclass(frozen=True)
class Filter:
    """`column operator values`. With `ignores_case` one of TEXT_OPERATORS compares in lower case."""

    column: str
    operator: Operator
    values: tuple[Value, ...] = ()
    ignores_case: bool = False


@dataclass(frozen=True)
class AllOf:
    """Conditions joined by AND."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class AnyOf:
    """Conditions joined by OR."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Not:
    """The negation of a condition; unknown stays unknown."""

    part: Condition


Condition = Filter | AllOf | AnyOf | Not


def columns_of(condition: Condition) -> frozenset[str]:
    """Names of the columns that a condition reads."""
    match condition:
        case Filter(column):
            return frozenset((column,))
        case Not(part):
            return columns_of(part)
        case AllOf(parts) | AnyOf(parts):
            return frozenset().union(*(columns_of(part) for part in parts))
