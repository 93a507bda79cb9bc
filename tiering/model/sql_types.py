"""Arrow types and Python values as Spark SQL writes them: type names, column lists, literals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime

import pyarrow as pa

from tiering.instants import from_microseconds, to_microseconds
from tiering.model.names import quote_identifier

_SIMPLE: dict[pa.DataType, str] = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.large_string(): "STRING",
    pa.binary(): "BINARY",
    pa.large_binary(): "BINARY",
    pa.date32(): "DATE",
}


@dataclass(frozen=True)
class Instant:
    """A point in time as SQL has it: microseconds since the epoch, UTC. Spark's range is wider than datetime's."""

    microseconds: int

    def __repr__(self) -> str:
        return f"TIMESTAMP({self.microseconds} us)"

    @staticmethod
    def of(moment: datetime) -> Instant:
        """An aware datetime, exactly."""
        return Instant(to_microseconds(moment))

    def as_datetime(self) -> datetime:
        """Raises OverflowError outside the years 1 to 9999."""
        return from_microseconds(self.microseconds)


BIGINTS = range(-(2**63), 2**63)
"""The values of a BIGINT."""

_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, order=True)
class Day:
    """A DATE as SQL has it: days since 1970-01-01. Spark's range is wider than that of Python's dates."""

    days: int

    def __repr__(self) -> str:
        return f"DATE({self.days} days)"

    @staticmethod
    def of(day: date) -> Day:
        """A date, exactly."""
        return Day(day.toordinal() - _EPOCH_ORDINAL)

    def as_date(self) -> date:
        """Raises ValueError outside the years 1 to 9999."""
        return date.fromordinal(_EPOCH_ORDINAL + self.days)


Value = str | int | float | bool | Instant | Day | None
"""A literal of a statement; None is NULL."""
ArgumentValue = Value | Mapping[str, int]
"""The value of an argument of a CALL."""

_SHOWN_CHARACTERS = 100


def shown(value: ArgumentValue) -> str:
    """The literal as an error message shows it. A long one is cut, since it may be as long as a whole request."""
    if isinstance(value, Mapping):
        return f"a map with {len(value)} entries"
    return repr(value[:_SHOWN_CHARACTERS]) + "..." if isinstance(value, str) and len(value) > _SHOWN_CHARACTERS else repr(value)


def spark_type(arrow_type: pa.DataType) -> str:
    """The Spark SQL type, such as `ARRAY<STRUCT<name: STRING>>`; a type that Spark lacks keeps its Arrow name."""
    if arrow_type in _SIMPLE:
        return _SIMPLE[arrow_type]
    if isinstance(arrow_type, pa.TimestampType):
        return "TIMESTAMP" if arrow_type.tz else "TIMESTAMP_NTZ"
    if isinstance(arrow_type, pa.Decimal128Type):
        return f"DECIMAL({arrow_type.precision},{arrow_type.scale})"
    if isinstance(arrow_type, (pa.ListType, pa.LargeListType)):
        return f"ARRAY<{spark_type(arrow_type.value_type)}>"
    if isinstance(arrow_type, pa.MapType):
        return f"MAP<{spark_type(arrow_type.key_type)}, {spark_type(arrow_type.item_type)}>"
    if isinstance(arrow_type, pa.StructType):
        fields = ", ".join(f"{quote_identifier(field.name)}: {spark_type(field.type)}" for field in arrow_type)
        return f"STRUCT<{fields}>"
    return str(arrow_type).upper()


def column_list(schema: pa.Schema) -> str:
    """`id BIGINT NOT NULL, name STRING`: the columns as a CREATE TABLE lists them."""
    return ", ".join(f"{quote_identifier(field.name)} {spark_type(field.type)}{'' if field.nullable else ' NOT NULL'}" for field in schema)


def split_at_commas(text: str, opening: str = "(", closing: str = ")") -> list[str]:
    """Returns the parts of a list between its commas. Commas in backquotes and between `opening` and `closing` characters do not split."""
    parts, depth, is_quoted = [""], 0, False
    for character in text:
        is_quoted ^= character == "`"
        depth += 0 if is_quoted else (character in opening) - (character in closing)
        if character == "," and not depth and not is_quoted:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def literal(value: str | int | float | bool | None) -> str:
    """A value as a Spark SQL literal."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, float):
        return f"double('{value!r}')"
    return str(value)
