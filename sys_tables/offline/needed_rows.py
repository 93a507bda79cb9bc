"""Finds the rows of a table that a query needs, so that little is read for it. Pure.

DuckDB evaluates the whole query over the rows that were read. So a condition whose meaning is not known exactly here is left out. A
condition may only be one that is never true for NULL: then it also removes the rows that an outer join adds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date

import pyarrow as pa
from sqlglot import exp

from tiering.errors import InvalidArgument
from tiering.model.reading.conditions import AllOf, AnyOf, Condition, Filter, Operator
from tiering.model.sql_types import BIGINTS, Day
from tiering.wire.conditions import ConditionReader, condition_to_pb

_COMPARED: dict[type[exp.Expr], tuple[Operator, Operator]] = {
    exp.EQ: (Operator.EQUAL, Operator.EQUAL),
    exp.LT: (Operator.LESS, Operator.GREATER),
    exp.LTE: (Operator.LESS_OR_EQUAL, Operator.GREATER_OR_EQUAL),
    exp.GT: (Operator.GREATER, Operator.LESS),
    exp.GTE: (Operator.GREATER_OR_EQUAL, Operator.LESS_OR_EQUAL),
}
"""Operators of `column operator literal`, and of `literal operator column`."""

_JOIN_KINDS = frozenset(("", "INNER", "CROSS", "OUTER", "SEMI", "ANTI"))
_LIMITED = frozenset(("expressions", "from_", "where", "limit"))
"""Clauses of a query whose limit is that of its table's rows."""


@dataclass(frozen=True)
class NeededRows:
    """The rows of a table for which all conditions are true, or so many of them."""

    conditions: tuple[Condition, ...] = ()
    limit: int | None = None


def needed_rows(query: exp.Query, name: tuple[str, str, str], schema: pa.Schema) -> NeededRows:
    """Returns the rows that the query needs of the table with the full name `name` and these columns."""
    uses = [table for table in query.find_all(exp.Table) if tuple(part.name for part in table.parts) == name]
    needed = [_of_use(use, schema, is_only=len(uses) == 1 and use.parent_select is query) for use in uses]
    if len(needed) == 1:
        rows = needed[0]
    elif needed and all(rows.conditions for rows in needed):
        rows = NeededRows((AnyOf(tuple(AllOf(rows.conditions) for rows in needed)),))
    else:
        rows = NeededRows()
    return rows if _are_taken(rows.conditions) else NeededRows()


def _are_taken(conditions: Iterable[Condition]) -> bool:
    """Whether a service takes so many conditions. More of them would cost more than they save."""
    reader = ConditionReader()
    try:
        for condition in conditions:
            reader.condition(condition_to_pb(condition))
    except InvalidArgument:
        return False
    return True


def _of_use(use: exp.Table, schema: pa.Schema, *, is_only: bool) -> NeededRows:
    select = use.parent.parent if isinstance(use.parent, (exp.From, exp.Join)) else None
    alias = use.args.get("alias")
    if not isinstance(select, exp.Select) or use.args.get("pivots") or use.args.get("joins") or (alias is not None and alias.columns):
        return NeededRows()
    joins, where = select.args.get("joins") or (), select.args.get("where")
    if any(join.args.get("method") or join.args.get("using") or str(join.args.get("kind") or "") not in _JOIN_KINDS for join in joins):
        return NeededRows()
    is_alone = not joins and not select.args.get("laterals")
    columns = _Columns(use.alias_or_name.lower(), _unique_columns(schema), is_alone=is_alone)
    parts = [] if where is None else _conjuncts(where.this)
    conditions = [columns.condition(part) for part in parts]
    known_conditions = tuple(condition for condition in conditions if condition is not None)
    has_limit = is_only and len(known_conditions) == len(parts)
    return NeededRows(known_conditions, _limit(select) if has_limit else None)


def _unique_columns(schema: pa.Schema) -> dict[str, pa.Field[pa.DataType]]:
    """Returns the columns by their lower-case names, without names that occur twice."""
    names = [name.lower() for name in schema.names]
    return {name: schema.field(place) for place, name in enumerate(names) if names.count(name) == 1}


def _conjuncts(condition: exp.Expr) -> list[exp.Expr]:
    whole = condition.unnest()
    return list(whole.flatten()) if isinstance(whole, exp.And) else [whole]


def _limit(select: exp.Select) -> int | None:
    """Returns the number of the table's rows that the query returns; None = it returns others, or needs all of them."""
    limit = select.args.get("limit")
    if not isinstance(limit, exp.Limit) or any(value for clause, value in select.args.items() if clause not in _LIMITED):
        return None
    if any(next(iter(expression.find_all(exp.Func, exp.Query)), None) is not None for expression in select.expressions):
        return None  # an aggregate, or a function that returns several rows or none
    number = limit.expression
    rows = _literal(number, pa.int64())
    return rows if isinstance(rows, int) and rows >= 0 else None


@dataclass(frozen=True)
class _Columns:
    """The columns of a use of a table. `is_alone`: the query has no other source, so names without the alias are those of the table."""

    alias: str
    fields: Mapping[str, pa.Field[pa.DataType]]
    is_alone: bool

    def condition(self, expression: exp.Expr) -> Condition | None:
        """Returns the condition on the table's columns; None = it is not known exactly, or concerns other columns."""
        match expression:
            case exp.Paren():
                return self.condition(expression.this)
            case exp.And() | exp.Or():
                parts = [self.condition(part) for part in expression.flatten()]
                known_parts = tuple(part for part in parts if part is not None)
                joined = AllOf(known_parts) if isinstance(expression, exp.And) else AnyOf(known_parts)
                return joined if len(known_parts) == len(parts) else None
            case exp.Between() if not expression.args.get("symmetric"):
                bounds = ((Operator.GREATER_OR_EQUAL, "low"), (Operator.LESS_OR_EQUAL, "high"))
                filters = [self._filter(expression.this, operator, expression.args[arg]) for operator, arg in bounds]
                return AllOf(tuple(part for part in filters if part is not None)) if None not in filters else None
            case exp.In() if expression.expressions and not any(expression.args.get(arg) for arg in ("query", "unnest", "field")):
                return self._filter(expression.this, Operator.IN, *expression.expressions)
            case exp.Binary() if type(expression) in _COMPARED:
                operator, swapped = _COMPARED[type(expression)]
                return self._filter(expression.left, operator, expression.right) or self._filter(expression.right, swapped, expression.left)
            case _:
                return None

    def _filter(self, column: exp.Expr, operator: Operator, *literals: exp.Expr) -> Filter | None:
        field = self._field(column)
        if field is None:
            return None
        values = [_literal(literal, field.type) for literal in literals]
        known_values = tuple(value for value in values if value is not None)
        return Filter(field.name, operator, known_values) if len(known_values) == len(values) else None

    def _field(self, column: exp.Expr) -> pa.Field[pa.DataType] | None:
        if not isinstance(column, exp.Column) or not isinstance(column.this, exp.Identifier) or column.args.get("db"):
            return None
        is_of_table = column.table.lower() == self.alias if column.table else self.is_alone
        return self.fields.get(column.name.lower()) if is_of_table else None


def _literal(expression: exp.Expr, kind: pa.DataType) -> str | int | Day | None:
    """Returns the value of a literal that is compared exactly with a column of this type: a text, a whole number, or a date."""
    if pa.types.is_date32(kind):
        return _day(expression)
    is_negative = isinstance(expression, exp.Neg)
    literal = expression.this if is_negative else expression
    if not isinstance(literal, exp.Literal):
        return None
    if literal.is_string:
        return literal.name if pa.types.is_string(kind) and not is_negative else None
    if not pa.types.is_signed_integer(kind) or not literal.is_int or len(literal.name) > len(str(BIGINTS.stop)):
        return None
    number = -int(literal.name) if is_negative else int(literal.name)
    return number if number in BIGINTS else None


def _day(expression: exp.Expr) -> Day | None:
    """Returns the value of `DATE '2026-01-31'` or of `'2026-01-31'`, which DuckDB compares with a date as Spark does."""
    is_cast = isinstance(expression, exp.Cast) and expression.to.is_type(exp.DataType.Type.DATE)
    literal = expression.this if is_cast else expression
    if not isinstance(literal, exp.Literal) or not literal.is_string:
        return None
    try:
        day = date.fromisoformat(literal.name)
    except ValueError:
        return None
    return Day.of(day) if day.isoformat() == literal.name else None
