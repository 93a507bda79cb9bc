"""The rows for which a condition is true, computed by whole columns, with exactly Spark's meaning.

SQL's three-valued logic: a comparison with NULL, on either side, is unknown, and so are AND, OR and NOT of it where the rest
does not decide. NaN equals NaN and is greater than every other number; -0.0 equals 0.0; strings compare by their UTF-8 bytes.

Arrow evaluates conditions, order and groups of a scan, because DuckDB has a fixed cost per answer. Milliseconds of Arrow and DuckDB for a
condition with an order and a limit, over 20 columns: 0.2 and 2.3 for 1 row, 0.3 and 2.5 for 100 rows, 0.6 and 3.1 for 10,000 rows, 5.0 and
7.0 for 100,000 rows; with 16 threads at once, 0.6 and 2.5 for 100 rows. Only groups over 100,000 rows are faster in DuckDB (22 and 6). The
checks of values against columns, and the exact comparison of BIGINT with fractions, would be needed with DuckDB, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from tiering.errors import InvalidArgument
from tiering.model.declare import AnyField
from tiering.model.reading.conditions import AllOf, AnyOf, Condition, Filter, Not, Operator
from tiering.model.sql_types import BIGINTS, Day, Instant, Value, shown, spark_type

AnyArray: TypeAlias = Any
"""A pyarrow array. Its stubs need the type of the elements, which only a schema knows at run time."""

Truth: TypeAlias = AnyArray
"""BOOLEAN, one a row; NULL = unknown."""


@runtime_checkable
class Columns(Protocol):
    """Rows of one moment, by column. A column is made when it is requested; the rows of `take` are of the same moment."""

    @property
    def num_rows(self) -> int: ...

    def column(self, name: str) -> AnyArray:
        """Returns all rows' values of one column."""

    def take(self, indices: AnyArray) -> Self:
        """Returns the rows at these indices, in this order."""


ColumnsT = TypeVar("ColumnsT", bound=Columns)

_ARROW: Mapping[Operator, Callable[[Any, Any], Truth]] = {
    Operator.EQUAL: pc.equal,
    Operator.NOT_EQUAL: pc.not_equal,
    Operator.LESS: pc.less,
    Operator.LESS_OR_EQUAL: pc.less_equal,
    Operator.GREATER: pc.greater,
    Operator.GREATER_OR_EQUAL: pc.greater_equal,
}
_TEXT: Mapping[Operator, Callable[[Any, str], Truth]] = {
    Operator.STARTS_WITH: pc.starts_with,
    Operator.ENDS_WITH: pc.ends_with,
    Operator.CONTAINS: pc.match_substring,
}
_NARROWING = (Operator.EQUAL, Operator.IN, Operator.STARTS_WITH)


def matching(source: ColumnsT, schema: pa.Schema, conditions: Iterable[Condition]) -> ColumnsT:
    """The rows for which all conditions are true, in their order.

    Raises InvalidArgument, naming the column, for a condition that does not fit `schema`.
    """
    for condition in sorted(conditions, key=_cost):
        true = pc.fill_null(truth(condition, source, schema), False)
        if not pc.all(true, min_count=0).as_py():
            source = source.take(pc.indices_nonzero(true).cast(pa.int64()))
    return source


def _cost(condition: Condition) -> int:
    """Rank of a condition: those that leave few rows are evaluated first, so that the others have fewer to look at."""
    return 0 if isinstance(condition, Filter) and condition.operator in _NARROWING else 1


def truth(condition: Condition, source: Columns, schema: pa.Schema) -> Truth:
    """Returns for each row whether the condition is true. Raises InvalidArgument, naming the column, if it does not fit `schema`."""
    match condition:
        case AllOf(parts):
            return reduce(pc.and_kleene, [truth(part, source, schema) for part in parts], _all(source.num_rows, True))
        case AnyOf(parts):
            return reduce(pc.or_kleene, [truth(part, source, schema) for part in parts], _all(source.num_rows, False))
        case Not(part):
            return pc.invert(truth(part, source, schema))
        case Filter():
            return _filtered(condition, source, schema)


def _filtered(condition: Filter, source: Columns, schema: pa.Schema) -> Truth:
    name, operator = condition.column, condition.operator
    if name not in schema.names:
        raise InvalidArgument(f"there is no column {name!r} to filter by; there are: {', '.join(schema.names)}")
    field, values = schema.field(name), source.column(name)
    if operator is Operator.IS_NULL:
        return pc.is_null(values)
    if operator is Operator.IS_NOT_NULL:
        return pc.is_valid(values)
    for literal in condition.values:
        _check_fit(field, literal)
    if operator is Operator.IN:
        return _member(values, condition.values)
    if len(condition.values) != 1:
        raise InvalidArgument(f"the filter {name} {operator.value} takes one value, not {len(condition.values)}")
    if operator in _TEXT and not pa.types.is_string(field.type):
        raise InvalidArgument(f"the column {name!r} is {spark_type(field.type)}: it has no text to compare")
    if (literal := condition.values[0]) is None:
        return _all(len(values), None)
    if operator in _TEXT:
        assert isinstance(literal, str)
        return _TEXT[operator](pc.utf8_lower(values), literal.lower()) if condition.ignores_case else _TEXT[operator](values, literal)
    return _compared(values, operator, literal)


def _check_fit(field: AnyField, value: Value) -> None:
    kind, is_number = field.type, isinstance(value, (int, float)) and not isinstance(value, bool)
    fits = (
        value is None
        or (pa.types.is_string(kind) and isinstance(value, str))
        or (pa.types.is_boolean(kind) and isinstance(value, bool))
        or ((pa.types.is_integer(kind) or pa.types.is_floating(kind)) and is_number)
        or (pa.types.is_timestamp(kind) and isinstance(value, Instant))
        or (pa.types.is_date32(kind) and isinstance(value, Day))
    )
    comparable = pa.types.is_primitive(kind) or pa.types.is_string(kind)
    if not fits or not comparable:
        raise InvalidArgument(f"the column {field.name!r} is {spark_type(kind)}: it cannot be compared with {shown(value)}")


def _member(values: AnyArray, members: tuple[Value, ...]) -> Truth:
    """Computes `IN`: `x IN (a, NULL)` is true for a, and unknown for all else, since NULL might be it. One look-up a row, however many
    members.
    """
    non_nulls = [member for member in members if member is not None]
    if not members:
        return _all(len(values), False)
    true = pc.if_else(pc.is_null(values), pa.scalar(None, pa.bool_()), _in_set(values, non_nulls))
    return true if len(non_nulls) == len(members) else pc.or_kleene(true, _all(len(values), None))


def _in_set(values: AnyArray, members: Sequence[Value]) -> Truth:
    """Whether each value is one of the members, none of which is NULL; the result for a NULL does not count."""
    kind = values.type
    if pa.types.is_timestamp(kind):
        moments = [member.microseconds for member in members if isinstance(member, Instant)]
        return pc.is_in(values.cast(pa.int64()), value_set=pa.array(moments, pa.int64()))
    if pa.types.is_date32(kind):
        days = [member.days for member in members if isinstance(member, Day) and _is_bigint(member.days)]
        return pc.is_in(_days(values), value_set=pa.array(days, pa.int64()))
    if pa.types.is_integer(kind):
        whole = [int(member) for member in members if isinstance(member, (int, float)) and _is_bigint(member)]
        return pc.is_in(values.cast(pa.int64()), value_set=pa.array(whole, pa.int64()))
    if pa.types.is_floating(kind):
        # The sum makes 0.0 of -0.0. An integer that no double is exactly equals none.
        reals = [float(member) + 0.0 for member in members if isinstance(member, (int, float)) and _is_double(member)]
        true: Truth = pc.is_in(pc.add(values, 0.0), value_set=pa.array(reals, kind))
        # Arrow compares the bits of NaN, which differ: 0.0 * inf is another NaN than that of a literal.
        nan: Truth = pc.is_nan(values)
        return pc.or_(true, pc.fill_null(nan, False)) if any(map(math.isnan, reals)) else true
    return pc.is_in(values, value_set=pa.array(members, kind))


def _days(dates: AnyArray) -> AnyArray:
    """Returns DATEs as BIGINT: days since 1970-01-01. Arrow casts them only to INT."""
    return dates.cast(pa.int32()).cast(pa.int64())


def _is_bigint(number: int | float) -> bool:
    return math.isfinite(number) and number == int(number) and int(number) in BIGINTS


def _is_double(number: int | float) -> bool:
    return isinstance(number, float) or float(number) == number


def _compared(values: AnyArray, operator: Operator, literal: Value) -> Truth:
    if isinstance(literal, Instant):
        return _ARROW[operator](values.cast(pa.int64()), literal.microseconds)
    if isinstance(literal, Day):
        return _ARROW[operator](_days(values), pa.scalar(literal.days, pa.int64()))
    if isinstance(literal, bool):
        return _ARROW[operator](values.cast(pa.int8()), int(literal))
    if isinstance(literal, float) and pa.types.is_floating(values.type):
        return _compared_with_nan(values, operator, literal)
    if isinstance(literal, (int, float)) and not (isinstance(literal, int) and pa.types.is_integer(values.type)):
        return _compared_exactly(values, operator, literal)
    return _ARROW[operator](values, pa.scalar(literal, pa.int64() if isinstance(literal, int) else values.type))


def _compared_with_nan(values: AnyArray, operator: Operator, literal: float) -> Truth:
    nan: AnyArray = pc.is_nan(values)
    if math.isnan(literal):
        # NaN counts as 1 and every other number as 0: then they compare as they should.
        return _ARROW[operator](nan.cast(pa.int8()), 1)
    plain = _ARROW[operator](values, literal)
    return pc.or_kleene(plain, nan) if operator in (Operator.GREATER, Operator.GREATER_OR_EQUAL) else plain


def _compared_exactly(values: AnyArray, operator: Operator, literal: int | float) -> Truth:
    """Compares an integer with a fraction without rounding either: a value between two others is compared with its neighbours."""
    below, above = _neighbours(literal) if pa.types.is_floating(values.type) else _whole_neighbours(literal)
    if below == above and below is not None:
        return _compared(values, operator, below)
    if operator in (Operator.EQUAL, Operator.NOT_EQUAL):
        return _constant(values, operator is Operator.NOT_EQUAL)
    upwards = operator in (Operator.GREATER, Operator.GREATER_OR_EQUAL)
    neighbour = above if upwards else below
    if neighbour is None:
        return _constant(values, False)
    return _compared(values, Operator.GREATER_OR_EQUAL if upwards else Operator.LESS_OR_EQUAL, neighbour)


def _neighbours(literal: int | float) -> tuple[float, float]:
    """Returns the greatest double that is not above, and the least that is not below."""
    nearest = float(literal)
    if nearest == literal:
        return nearest, nearest
    return (nearest, math.nextafter(nearest, math.inf)) if nearest < literal else (math.nextafter(nearest, -math.inf), nearest)


def _whole_neighbours(literal: int | float) -> tuple[int | None, int | None]:
    """Returns the same for BIGINT, None where there is none. NaN is above all numbers."""
    if math.isnan(literal) or literal > BIGINTS[-1]:
        return BIGINTS[-1], None
    if literal < BIGINTS[0]:
        return None, BIGINTS[0]
    return math.floor(literal), math.ceil(literal)


def _constant(values: AnyArray, value: bool) -> Truth:
    """Returns the same answer for every row, but unknown for NULL."""
    return pc.if_else(pc.is_null(values), pa.scalar(None, pa.bool_()), pa.scalar(value, pa.bool_()))


def _all(count: int, value: bool | None) -> Truth:
    return pa.repeat(pa.scalar(value, pa.bool_()), count)
