"""The argument `where` of `sys.rewrite_data_files`: selects partitions by an SQL condition. Pure.

The condition is only about partition columns, so it is evaluated on the names of the living partitions and reads no file. As in SQL, a
comparison with NULL is unknown, and a partition for which the condition is unknown does not match.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from typing import Any, TypeAlias

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from tiering.errors import InvalidArgument, cut_message
from tiering.model.tables import PARTITION_SEPARATOR, TableInfo

SHOWN_CHARACTERS = 80
"""Length to which a part of the condition is truncated in an error message."""

Value: TypeAlias = "str | int | date"
Truth: TypeAlias = "bool | None"
"""The truth of a condition; None means unknown, like SQL's NULL."""
Values: TypeAlias = "Mapping[str, Value]"
"""The values of one partition by column."""
Predicate: TypeAlias = "Callable[[Values], Truth]"

_COMPARISONS: Mapping[type[exp.Expr], tuple[Callable[[Any, Any], bool], Callable[[Any, Any], bool]]] = {
    exp.EQ: (operator.eq, operator.eq),
    exp.NEQ: (operator.ne, operator.ne),
    exp.LT: (operator.lt, operator.gt),
    exp.LTE: (operator.le, operator.ge),
    exp.GT: (operator.gt, operator.lt),
    exp.GTE: (operator.ge, operator.le),
}
"""By kind of comparison: the operator for `column < literal`, and its mirror image for `literal < column`."""


def matching_partitions(where: str, table: TableInfo, names: Iterable[str]) -> frozenset[str]:
    """Returns the partitions in `names` for which the condition `where` is true.

    Raises InvalidArgument for a condition that is not SQL, that names another column, or that has anything but comparisons with literals.
    """
    if not table.partition_keys:
        raise InvalidArgument(f"{table.path} has no partitions, so 'where' cannot choose any", hint="Leave 'where' out.")
    compiler = _Compiler(table)
    try:
        predicate = compiler.compiled(where)
        return frozenset(name for name in names if predicate(compiler.values_of(name)) is True)
    except RecursionError:
        raise compiler.refusal("the condition is nested too deep") from None


class _Compiler:
    """Compiles the condition to a function of a partition's values."""

    def __init__(self, table: TableInfo) -> None:
        self._table = table
        self._columns = {name: table.schema.field(name).type for name in table.partition_keys}

    def compiled(self, where: str) -> Predicate:
        """Returns the compiled condition. Raises InvalidArgument."""
        try:
            tree = sqlglot.parse_one(where, into=exp.Condition, dialect="spark")
        except SqlglotError as error:
            shown = _shown(where)
            raise self.refusal(f"the condition {shown} cannot be read as SQL" if where.strip() else "the condition is empty") from error
        for column in tree.find_all(exp.Column):
            self._name_of(column)
        return self._predicate(tree)

    def values_of(self, partition_name: str) -> dict[str, Value]:
        """Returns the typed values of a partition. An unreadable value stays a text."""
        texts = partition_name.split(PARTITION_SEPARATOR)
        pairs = zip(self._columns.items(), texts, strict=False)
        return {name: _typed(kind, text) for (name, kind), text in pairs}

    def refusal(self, message: str) -> InvalidArgument:
        """Returns the error, with what is allowed."""
        columns = ", ".join(f"{name} {_type_name(kind)}" for name, kind in self._columns.items())
        return InvalidArgument(
            f"the argument 'where' is not a condition over the partition columns of {self._table.path}: {message}",
            hint=f"It may compare the columns {columns} with literals (=, <>, <, <=, >, >=, IN, BETWEEN, IS NULL) and join such "
            "comparisons by AND, OR and NOT.",
        )

    def _predicate(self, node: exp.Expr) -> Predicate:
        if isinstance(node, exp.Paren):
            return self._predicate(node.this)
        if isinstance(node, exp.Not):
            return _negated(self._predicate(node.this))
        if isinstance(node, exp.And | exp.Or):
            return _joined(self._predicate(node.this), self._predicate(node.expression), decisive=isinstance(node, exp.Or))
        if isinstance(node, exp.Boolean):
            truth = bool(node.this)
            return lambda values: truth
        if isinstance(node, exp.Is):
            return self._is_null(node)
        if isinstance(node, exp.In):
            return self._is_in(node)
        if isinstance(node, exp.Between):
            at_least = self._comparison(node, node.this, operator.ge, node.args["low"])
            return _joined(at_least, self._comparison(node, node.this, operator.le, node.args["high"]), decisive=False)
        if (comparison := _COMPARISONS.get(type(node))) is not None:
            left, right = node.this.unnest(), node.expression.unnest()
            if isinstance(right, exp.Column):
                left, right, comparison = right, left, comparison[::-1]
            return self._comparison(node, left, comparison[0], right)
        raise self._unsupported(node)

    def _is_null(self, node: exp.Is) -> Predicate:
        """Returns False, because partition columns are never NULL. Raises InvalidArgument for another use of IS."""
        if not isinstance(node.this.unnest(), exp.Column) or not isinstance(node.expression, exp.Null):
            raise self._unsupported(node)
        return lambda values: False

    def _is_in(self, node: exp.In) -> Predicate:
        options = node.expressions
        if not options or node.args.get("query") is not None:
            raise self._unsupported(node)
        predicate = self._comparison(node, node.this, operator.eq, options[0])
        for option in options[1:]:
            predicate = _joined(predicate, self._comparison(node, node.this, operator.eq, option), decisive=True)
        return predicate

    def _comparison(self, node: exp.Expr, left: exp.Expr, compare: Callable[[Any, Any], bool], right: exp.Expr) -> Predicate:
        column = left.unnest()
        if not isinstance(column, exp.Column):
            raise self._unsupported(node)
        name = self._name_of(column)
        literal = self._literal(node, name, right.unnest())
        if literal is None:
            return lambda values: None
        return lambda values: compare(values[name], literal) if type(values.get(name)) is type(literal) else None

    def _literal(self, node: exp.Expr, name: str, literal: exp.Expr) -> Value | None:
        """Returns the literal as a value of the column; None for NULL."""
        if isinstance(literal, exp.Null):
            return None
        is_date = isinstance(literal, exp.Cast) and literal.to.is_type("date")
        is_negative = isinstance(literal, exp.Neg)
        bare = literal.this if is_date or is_negative else literal
        if not isinstance(bare, exp.Literal):
            raise self._unsupported(node)
        kind, text = self._columns[name], f"-{bare.name}" if is_negative else bare.name
        is_text = bare.is_string and not is_negative
        if is_text is pa.types.is_integer(kind) or (is_date and not pa.types.is_date(kind)):
            raise self._mismatch(name, literal)
        value = _typed(kind, text)
        if isinstance(value, str) and (pa.types.is_date(kind) or pa.types.is_integer(kind)):
            raise self._mismatch(name, literal)
        return value

    def _name_of(self, column: exp.Column) -> str:
        """Returns the stored name of the partition column. Raises InvalidArgument for any other column."""
        written = ".".join(part.name for part in column.parts)
        alike = [written] if written in self._columns else [name for name in self._columns if name.lower() == written.lower()]
        if len(alike) != 1:
            raise self.refusal(f"it names {_shown(written)}, which is no partition column")
        return alike[0]

    def _mismatch(self, name: str, literal: exp.Expr) -> InvalidArgument:
        kind = _type_name(self._columns[name])
        return self.refusal(f"it compares the column {name!r}, which is {kind}, with {_shown(literal.sql(dialect='spark'))}")

    def _unsupported(self, node: exp.Expr) -> InvalidArgument:
        shown = _shown(node.sql(dialect="spark"))
        column = node.find(exp.Column)
        about = "" if column is None else f" of the column {self._name_of(column)!r}"
        return self.refusal(f"it has {shown}, and not a comparison{about} with a literal")


def _typed(kind: pa.DataType, text: str) -> Value:
    """Returns the typed value of a text in a partition's name; the text itself if it has another form, or its type is compared as text."""
    try:
        if pa.types.is_date(kind):
            return date.fromisoformat(text)
        if pa.types.is_integer(kind):
            return int(text)
    except ValueError:
        pass
    return text


def _type_name(kind: pa.DataType) -> str:
    """Returns the type's name in SQL."""
    if pa.types.is_date(kind):
        return "DATE"
    return "INT" if pa.types.is_integer(kind) else "STRING"


def _shown(text: str) -> str:
    return repr(cut_message(text, SHOWN_CHARACTERS))


def _negated(predicate: Predicate) -> Predicate:
    def negated(values: Values) -> Truth:
        truth = predicate(values)
        return None if truth is None else not truth

    return negated


def _joined(left: Predicate, right: Predicate, *, decisive: bool) -> Predicate:
    """Returns the AND (`decisive` False) or the OR (`decisive` True): one side with the decisive truth decides."""

    def joined(values: Values) -> Truth:
        truths = left(values), right(values)
        return decisive if decisive in truths else None if None in truths else not decisive

    return joined
