"""Makes a request from the arguments of a CALL in SQL.

Spark has resolved positional and named arguments to names already. A missing argument gets its default, and NULL counts as missing
(DESIGN 12). Every error is an InvalidArgument that names the argument.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import pyarrow as pa

from tiering.errors import InvalidArgument
from tiering.model.declare import Parameter
from tiering.model.names import CATALOG, parse_table_path
from tiering.model.sql_types import BIGINTS, ArgumentValue, Instant, shown

InputT = TypeVar("InputT")

TEXT_LIMIT = 4_096
"""Upper bound of characters of one argument. Reasons and keys are stored, shown and logged."""
_INT_RANGE = range(-(2**31), 2**31)


@dataclass(frozen=True)
class SessionNames:
    """The meaning of table names to the caller of a CALL. `catalog`: the session's name of Lakeward's catalog; empty = unknown.

    `database`: the database that the session uses; empty = none of Lakeward's databases.
    """

    catalog: str = CATALOG
    database: str = ""


FLUSS_SESSION = SessionNames()
"""A session that names the catalog as the documentation does, and uses none of its databases."""


class ProcedureInput:
    """The arguments of one CALL. It checks their names once, then returns typed values."""

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
            folded = name if name in self._parameters else name.lower()
            if folded not in self._parameters:
                raise self._invalid(f"{self._sql_name} has no argument {name!r}")
            if folded in values:
                raise self._invalid(f"the argument {folded!r} of {self._sql_name} is given twice")
            values[folded] = value
        self._values: Mapping[str, ArgumentValue] = {name: value for name, value in values.items() if value is not None}

    def read(self, input_class: type[InputT]) -> InputT:
        """Returns the request. Raises InvalidArgument for an argument that is missing or has another type."""
        fields = self._parameters.values()
        for field in fields:
            if field.required and field.name not in self._values:
                raise self._invalid(f"the argument {field.name!r} of {self._sql_name} is required")
        return input_class(**{field.attribute: self._typed(field) for field in fields if field.name in self._values})

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
    return value if isinstance(value, Mapping) and all(number in BIGINTS for number in value.values()) else None


_CONVERSIONS: Mapping[pa.DataType, Callable[[ArgumentValue], Any]] = {
    pa.string(): _text,
    pa.bool_(): _truth,
    pa.int32(): _whole(_INT_RANGE),
    pa.int64(): _whole(BIGINTS),
    pa.float64(): _real,
    pa.timestamp("us", tz="UTC"): _moment,
    pa.map_(pa.string(), pa.int64()): _numbers,
}
"""Functions that convert a literal to a type; they return None for a literal of another type."""
