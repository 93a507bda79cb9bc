"""Reads and writes the conditions of a request (`Filter` and `Condition` of common.proto), and limits their size."""

from __future__ import annotations

from collections.abc import Mapping

from tiering.errors import InvalidArgument
from tiering.model.names import check_length
from tiering.model.reading.conditions import TEXT_OPERATORS, AllOf, AnyOf, Condition, Filter, Not, Operator
from tiering.model.sql_types import Day, Instant, Value
from tiering.rpc.v1 import common_pb2 as pb
from tiering.wire.procedure_calls import literal_from_pb, literal_to_pb

_DEEPEST = 50
"""Deepest nesting of conditions: people never write deeper ones, and Python's stack is finite."""

MAX_PREDICATES = 1_000
"""Filters, conditions and their parts of one read. Each is evaluated for every row: this many take a second for 100,000 rows."""

MAX_VALUES = 10_000
"""Literals of one read, of all its IN lists together. The plugin leaves longer lists to Spark."""


class ConditionReader:
    """Reads the conditions of one read. Its methods raise InvalidArgument for more predicates or values than a statement can need."""

    def __init__(self) -> None:
        self._predicates_left = MAX_PREDICATES
        self._values_left = MAX_VALUES

    def filter(self, message: pb.Filter) -> Filter:
        """Returns the filter. Raises InvalidArgument for an unknown operator, InvalidName for a column name that is too long."""
        self._count(len(message.values))
        check_length(message.column, "column")
        operators = pb.Filter.Operator
        name = operators.Name(message.operator) if message.operator in operators.values() else str(message.operator)
        if name not in Operator.__members__:
            raise InvalidArgument(f"the filter on {message.column!r} has the unknown operator {name}")
        operator, values = Operator[name], tuple(_value(literal) for literal in message.values)
        return Filter(message.column, operator, values, message.ignore_case and operator in TEXT_OPERATORS)

    def condition(self, message: pb.Condition, depth: int = _DEEPEST) -> Condition:
        """Returns the condition. Raises InvalidArgument for one that is empty or nested too deep, InvalidName."""
        if depth == 0:
            raise InvalidArgument(f"conditions are nested deeper than {_DEEPEST} times")
        kind = message.WhichOneof("kind")
        if kind == "filter":
            return self.filter(message.filter)
        self._count()
        match kind:
            case "all":
                return AllOf(tuple(self.condition(part, depth - 1) for part in message.all.conditions))
            case "any":
                return AnyOf(tuple(self.condition(part, depth - 1) for part in message.any.conditions))
            case "negated":
                return Not(self.condition(message.negated, depth - 1))
            case _:
                raise InvalidArgument("a condition says nothing that this service knows")

    def _count(self, values: int = 0) -> None:
        self._predicates_left -= 1
        self._values_left -= values
        if self._predicates_left < 0:
            raise InvalidArgument(
                f"the read has more than {MAX_PREDICATES} conditions", hint="Ask with fewer of them, and filter the answer further."
            )
        if self._values_left < 0:
            raise InvalidArgument(
                f"the conditions of the read have more than {MAX_VALUES} values",
                hint="Ask with a shorter IN list, or without it, and filter the answer.",
            )


def condition_to_pb(condition: Condition) -> pb.Condition:
    """Returns the message of a condition."""
    match condition:
        case Filter(column, operator, values, ignores_case):
            operator_value = pb.Filter.Operator.Value(operator.name)
            return pb.Condition(
                filter=pb.Filter(column=column, operator=operator_value, values=map(_literal, values), ignore_case=ignores_case)
            )
        case AllOf(parts):
            return pb.Condition(all=pb.Conditions(conditions=map(condition_to_pb, parts)))
        case AnyOf(parts):
            return pb.Condition(any=pb.Conditions(conditions=map(condition_to_pb, parts)))
        case Not(part):
            return pb.Condition(negated=condition_to_pb(part))


def _literal(value: Value) -> pb.Literal:
    if isinstance(value, Instant):
        return pb.Literal(timestamp_us=value.microseconds)
    if isinstance(value, Day):
        return pb.Literal(number=value.days, is_date=True)
    return literal_to_pb(value) or pb.Literal()  # NULL has no value


def _value(literal: pb.Literal) -> Value:
    value = literal_from_pb(literal)
    if isinstance(value, Mapping):
        raise InvalidArgument("a filter compares with no map")
    return value
