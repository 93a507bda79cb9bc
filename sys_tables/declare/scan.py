"""The request of a statement for a system table: columns, conditions, order, limit, or aggregates. Plain values.

`sys_tables.query` evaluates them. A table may narrow its own work with `ScanRequest.equals`; all filters are applied to its rows
afterwards in any case.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any

from sys_tables.declare.procedure import Procedure
from tiering.coordinator.interface import CatalogNames
from tiering.model.reading.conditions import Condition, Filter, Operator, columns_of
from tiering.model.sql_types import Instant


@dataclass(frozen=True)
class Order:
    """One key of an ORDER BY."""

    column: str
    descending: bool = False
    nulls_first: bool = True


class Function(Enum):
    """An aggregate function; names as in `Aggregate.Function` of the proto."""

    COUNT = "count"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True)
class Aggregate:
    """An aggregate of all rows, or of each group. `column` None: COUNT(*). NULLs are not counted or compared."""

    function: Function
    column: str | None = None

    @property
    def name(self) -> str:
        """Name of its column in the answer, such as `max(lag_ms)`."""
        return f"{self.function.value}({self.column or '*'})"


@dataclass(frozen=True)
class ScanRequest:
    """A read of the rows for which all filters and conditions are true. `columns` in the order of the answer; empty = all.

    With `aggregates` or `group_by`, the answer has one row per group, with the columns of `group_by` and then the aggregates;
    without `group_by`, one row. `limit` counts the rows of the answer; None = all. `procedures` are all that are served,
    which `sys.procedures` lists.
    """

    columns: tuple[str, ...] = ()
    filters: tuple[Filter, ...] = ()
    limit: int | None = None
    conditions: tuple[Condition, ...] = ()
    order: tuple[Order, ...] = ()
    group_by: tuple[str, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    procedures: tuple[Procedure, ...] = ()
    names: CatalogNames = field(default_factory=CatalogNames)
    """How the reader's session calls this catalog and the lake's, for statements in the rows."""

    @property
    def is_aggregated(self) -> bool:
        """Whether the answer has groups instead of rows."""
        return bool(self.aggregates or self.group_by)

    @property
    def used_columns(self) -> frozenset[str]:
        """The columns that the answer depends on; empty = all of the table."""
        if not self.columns and not self.is_aggregated:
            return frozenset()
        conditions = (*self.filters, *self.conditions)
        named = (
            *self.columns,
            *self.group_by,
            *(key.column for key in self.order),
            *(aggregate.column for aggregate in self.aggregates if aggregate.column),
        )
        return frozenset(named).union(*(columns_of(condition) for condition in conditions))

    def time_bounds(self, column: str) -> tuple[datetime | None, datetime | None]:
        """The earliest and the latest moment, both inclusive, that `column` can have in the answer; None = no bound is known."""
        since: datetime | None = None
        until: datetime | None = None
        for condition in self.filters:
            if condition.column != column or (moment := _only_moment(condition)) is None:
                continue
            if condition.operator in (Operator.EQUAL, Operator.GREATER, Operator.GREATER_OR_EQUAL):
                since = max(since or moment, moment)
            if condition.operator in (Operator.EQUAL, Operator.LESS, Operator.LESS_OR_EQUAL):
                until = min(until or moment, moment)
        return since, until

    def equals(self, column: str) -> Any:
        """The value, never NULL, that `column` must have in every row of the answer; None = several values are possible."""
        for condition in self.filters:
            if condition.column == column and condition.operator in (Operator.EQUAL, Operator.IN):
                values = {value for value in condition.values if value is not None}
                if len(values) == 1:
                    return values.pop()
        return None


def _only_moment(condition: Filter) -> datetime | None:
    """The moment that a condition compares with, if Python has one for it."""
    match condition.values:
        case (Instant() as instant,):
            try:
                return instant.as_datetime()
            except OverflowError:
                return None
    return None
