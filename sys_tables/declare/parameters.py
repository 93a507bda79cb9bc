"""Arguments of a CALL to a procedure's typed input: one frozen dataclass, one field a parameter.

    @dataclass(frozen=True)
    class TierTableInput:
        table: TablePath = parameter("The table.")
        wait: bool = parameter("Whether to wait for the end.", default=True)
        idempotency_key: str | None = parameter("Names the operation.", default=None)

A field without a default is a required parameter. Spark has resolved positional and named arguments to names already;
a missing one gets its default, and NULL counts as missing (DESIGN 12). Every error is an InvalidArgument that names the
argument.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, TypeVar, cast

import pyarrow as pa

from sys_tables.declare.columns import arrow_type_of
from sys_tables.declare.sql_types import ArgumentValue, Instant, literal, shown, spark_type
from tiering.errors import InvalidArgument
from tiering.model.names import CATALOG, parse_table_path
from tiering.model.tables import TablePath

InputT = TypeVar("InputT")

_COMMENT = "comment"
_ARROW_TYPE = "arrow_type"
TEXT_LIMIT = 4_096
"""Characters of one argument. Reasons and keys are stored, shown and logged."""
_INT_RANGE = range(-(2**31), 2**31)
_BIGINT_RANGE = range(-(2**63), 2**63)


@dataclass(frozen=True)
class Parameter:
    """One parameter as SQL sees it. `default` is a Spark SQL literal; None on a required one.

    A `table_path` is a STRING in SQL and a checked TablePath in the input.
    """

    name: str
    arrow_type: pa.DataType
    required: bool
    default: str | None
    comment: str
    table_path: bool = False

    @property
    def type(self) -> str:
        """Its Spark SQL type."""
        return spark_type(self.arrow_type)


def parameter(comment: str, *, default: Any = dataclasses.MISSING, arrow_type: pa.DataType | None = None) -> Any:
    """A dataclass field that is a parameter. `arrow_type` overrides the type that follows from the annotation."""
    return dataclasses.field(default=default, metadata={_COMMENT: comment, _ARROW_TYPE: arrow_type})


@cache
def parameters_of(input_class: type) -> tuple[Parameter, ...]:
    """The parameters of an input dataclass, in order. Raises TypeError for a field that cannot be one."""
    hints = typing.get_type_hints(input_class)
    return tuple(_parameter_of(input_class, field, hints[field.name]) for field in dataclasses.fields(input_class))


@dataclass(frozen=True)
class SessionNames:
    """What names of tables mean to the caller of a CALL. `catalog`: what the session calls ours; empty = not known.

    `database`: the one that the session uses; empty = none of ours.
    """

    catalog: str = CATALOG
    database: str = ""


FLUSS_SESSION = SessionNames()
"""A session that calls our catalog as the documentation does, and uses none of its databases."""


class ProcedureInput:
    """The arguments of one CALL: checks their names once, then returns typed values."""

    def __init__(
        self,
        procedure_name: str,
        parameters: Sequence[Parameter],
        arguments: Sequence[tuple[str, ArgumentValue]],
        names: SessionNames = FLUSS_SESSION,
    ) -> None:
        """Raises InvalidArgument for an unknown argument, and for a name that occurs twice."""
        self._names = names
        self._sql_name = f"sys.{procedure_name}"
        self._parameters = {parameter.name: parameter for parameter in parameters}
        values: dict[str, ArgumentValue] = {}
        for name, value in arguments:
            known = name if name in self._parameters else name.lower()
            if known not in self._parameters:
                raise self._invalid(f"{self._sql_name} has no argument {name!r}")
            if known in values:
                raise self._invalid(f"the argument {known!r} of {self._sql_name} is given twice")
            values[known] = value
        self._values: Mapping[str, ArgumentValue] = {name: value for name, value in values.items() if value is not None}

    def read(self, input_class: type[InputT]) -> InputT:
        """The input with every argument that is one of its fields. Raises InvalidArgument for a missing or mistyped one."""
        fields = parameters_of(cast("type", input_class))  # mypy does not know that a TypeVar's class is hashable
        for field in fields:
            if field.required and field.name not in self._values:
                raise self._invalid(f"the argument {field.name!r} of {self._sql_name} is required")
        return input_class(**{field.name: self._typed(field) for field in fields if field.name in self._values})

    def _typed(self, parameter: Parameter) -> Any:
        value = self._values[parameter.name]
        if isinstance(value, str) and len(value) > TEXT_LIMIT:
            raise self._invalid(
                f"the argument {parameter.name!r} of {self._sql_name} has {len(value)} characters: at most {TEXT_LIMIT} are taken"
            )
        typed = _CONVERSIONS[parameter.arrow_type](value)
        if typed is None:
            described = (
                "a moment outside the years 1 to 9999" if parameter.type == "TIMESTAMP" and isinstance(value, Instant) else shown(value)
            )
            raise self._invalid(f"the argument {parameter.name!r} of {self._sql_name} must be {parameter.type}, not {described}")
        if parameter.table_path:
            return parse_table_path(typed, catalog=self._names.catalog, database=self._names.database)
        return typed

    def _invalid(self, message: str) -> InvalidArgument:
        described = [f"{p.name} {p.type}{'' if p.required else f' => {p.default}'}" for p in self._parameters.values()]
        return InvalidArgument(message, hint=f"It takes {', '.join(described) or 'no arguments'}.")


def _parameter_of(input_class: type, field: dataclasses.Field[Any], annotation: object) -> Parameter:
    comment = field.metadata.get(_COMMENT)
    if not comment:
        raise TypeError(f"{input_class.__name__}.{field.name} has no comment: declare it with parameter(...)")
    table_path = TablePath in (annotation, *typing.get_args(annotation))
    arrow_type, _ = arrow_type_of(annotation, pa.string() if table_path else field.metadata[_ARROW_TYPE])
    if arrow_type not in _CONVERSIONS:
        raise TypeError(f"{input_class.__name__}.{field.name}: a parameter cannot be {spark_type(arrow_type)}")
    default = None if field.default is dataclasses.MISSING else literal(field.default)
    return Parameter(field.name, arrow_type, default is None, default, comment, table_path)


def _text(value: ArgumentValue) -> str | None:
    return value if isinstance(value, str) else None


def _truth(value: ArgumentValue) -> bool | None:
    return value if isinstance(value, bool) else None


def _whole(allowed: range) -> Callable[[ArgumentValue], int | None]:
    return lambda value: value if isinstance(value, int) and not isinstance(value, bool) and value in allowed else None


def _real(value: ArgumentValue) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _moment(value: ArgumentValue) -> datetime | None:
    try:
        return value.as_datetime() if isinstance(value, Instant) else None
    except OverflowError:
        return None


def _numbers(value: ArgumentValue) -> Mapping[str, int] | None:
    return value if isinstance(value, Mapping) and all(number in _BIGINT_RANGE for number in value.values()) else None


_CONVERSIONS: Mapping[pa.DataType, Callable[[ArgumentValue], Any]] = {
    pa.string(): _text,
    pa.bool_(): _truth,
    pa.int32(): _whole(_INT_RANGE),
    pa.int64(): _whole(_BIGINT_RANGE),
    pa.float64(): _real,
    pa.timestamp("us", tz="UTC"): _moment,
    pa.map_(pa.string(), pa.int64()): _numbers,
}
"""What a literal becomes; None for one that is not of that type."""


@dataclass(frozen=True)
class CallOptions:
    """What every procedure that changes something takes besides its own parameters (docs/reference.md)."""

    dry_run: bool = parameter("Whether to say only what would be done.", default=False)
    idempotency_key: str | None = parameter(
        "Names the operation: a repeat with the same key and arguments gets its result instead of doing it again.", default=None
    )
