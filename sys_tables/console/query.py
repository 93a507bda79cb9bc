"""A read of a system table: the request that a page sends, and the SQL that the page shows, from one `Query`."""

from __future__ import annotations

from dataclasses import dataclass

from sys_tables.declare.scan import Aggregate, Function, Order
from sys_tables.rpc.v1 import sys_catalog_pb2 as pb
from tiering.model.names import CATALOG, SYSTEM_DATABASE
from tiering.model.reading.conditions import AllOf, AnyOf, Condition, Filter, Not, Operator
from tiering.model.sql_types import Day, Instant, Value, literal
from tiering.wire.conditions import condition_to_pb

_FUNCTIONS = {Operator.STARTS_WITH: "startswith", Operator.ENDS_WITH: "endswith", Operator.CONTAINS: "contains"}
"""Functions of Spark SQL. LIKE would need escapes for `_`, which is frequent in names of tables."""


def equal(column: str, value: Value) -> Filter:
    """Returns the condition that a column has a value."""
    return Filter(column, Operator.EQUAL, (value,))


def contains(column: str, text: str) -> Filter:
    """Returns the condition that a column contains a text, in upper or lower case."""
    return Filter(column, Operator.CONTAINS, (text,), ignores_case=True)


def newest_first(*columns: str) -> tuple[Order, ...]:
    """Returns the order by columns, each with its largest value first."""
    return tuple(Order(column, descending=True, nulls_first=False) for column in columns)


@dataclass(frozen=True)
class Query:
    """`SELECT columns FROM sys.table WHERE all conditions ORDER BY order LIMIT limit OFFSET offset`.

    With `group_by`, the answer has one row per group, with the number of its rows as `count(*)`. Without `group_by`, `columns` are needed.
    """

    table: str
    columns: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    order: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0
    group_by: tuple[str, ...] = ()

    @property
    def is_count(self) -> bool:
        """Whether the query counts rows instead of returning them."""
        return not self.columns

    def request(self) -> pb.ReadTableRequest:
        """Returns the read. It also returns the rows before `offset`, which the service cannot skip: `Reader.rows` removes them.

        Plain comparisons are `filters`, by which a system table narrows its own work.
        """
        return pb.ReadTableRequest(
            namespace=SYSTEM_DATABASE,
            name=self.table,
            columns=self.columns,
            filters=[condition_to_pb(condition).filter for condition in self.conditions if isinstance(condition, Filter)],
            conditions=[condition_to_pb(condition) for condition in self.conditions if not isinstance(condition, Filter)],
            order=[pb.Order(column=key.column, descending=key.descending, nulls_first=key.nulls_first) for key in self.order],
            limit=None if self.limit is None else self.offset + self.limit,
            aggregates=[pb.Aggregate(function=pb.Aggregate.COUNT)] if self.is_count else [],
            group_by=self.group_by,
        )

    def sql(self) -> str:
        """Returns the statement for any SQL client of the catalog."""
        columns = (*self.group_by, Aggregate(Function.COUNT).name) if self.is_count else self.columns
        lines = [f"SELECT {', '.join(columns)}", f"FROM {CATALOG}.{SYSTEM_DATABASE}.{self.table}"]
        if self.conditions:
            lines.append("WHERE " + "\n  AND ".join(condition_sql(condition) for condition in self.conditions))
        if self.group_by:
            lines.append(f"GROUP BY {', '.join(self.group_by)}")
        if self.order:
            lines.append(f"ORDER BY {', '.join(_order_sql(key) for key in self.order)}")
        if self.limit is not None:
            lines.append(f"LIMIT {self.limit}" + (f" OFFSET {self.offset}" if self.offset else ""))
        return "\n".join(lines) + ";"


def condition_sql(condition: Condition) -> str:
    """Returns a condition in Spark SQL."""
    match condition:
        case Filter(column, Operator.IS_NULL | Operator.IS_NOT_NULL as operator, _):
            return f"{column} {operator.value}"
        case Filter(column, Operator.IN, values):
            return f"{column} IN ({', '.join(map(literal_sql, values))})"
        case Filter(column, operator, (str() as text,), True) if operator in _FUNCTIONS:
            return f"{_FUNCTIONS[operator]}(lower({column}), {literal_sql(text.lower())})"
        case Filter(column, operator, (value,)) if operator in _FUNCTIONS:
            return f"{_FUNCTIONS[operator]}({column}, {literal_sql(value)})"
        case Filter(column, operator, (value,)):
            return f"{column} {operator.value} {literal_sql(value)}"
        case AllOf(parts):
            return f"({' AND '.join(map(condition_sql, parts))})"
        case AnyOf(parts):
            return f"({' OR '.join(map(condition_sql, parts))})"
        case Not(part):
            return f"NOT ({condition_sql(part)})"
    raise ValueError(f"{condition} cannot be written in SQL")


def literal_sql(value: Value) -> str:
    """Returns a value in Spark SQL. Raises ValueError for a value that has no literal."""
    match value:
        case Instant():
            return f"TIMESTAMP '{value.as_datetime():%Y-%m-%d %H:%M:%S.%f}Z'"
        case Day():
            return f"DATE '{value.as_date()}'"
        case str() | bool() | int() | float() | None:
            return literal(value)
    raise ValueError(f"{value!r} cannot be written in SQL")


def _order_sql(key: Order) -> str:
    return f"{key.column} {'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"
