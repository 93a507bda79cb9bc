"""Converts types in Spark SQL's syntax to Arrow types, for commands with a type as argument."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.expressions import DType

from tiering.errors import InvalidArgument

_SIMPLE: dict[DType, pa.DataType] = {
    DType.BOOLEAN: pa.bool_(),
    DType.TINYINT: pa.int8(),
    DType.SMALLINT: pa.int16(),
    DType.INT: pa.int32(),
    DType.BIGINT: pa.int64(),
    DType.FLOAT: pa.float32(),
    DType.DOUBLE: pa.float64(),
    DType.TEXT: pa.string(),
    DType.BINARY: pa.binary(),
    DType.VARBINARY: pa.binary(),
    DType.DATE: pa.date32(),
    DType.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    DType.TIMESTAMPTZ: pa.timestamp("us", tz="UTC"),
    DType.TIMESTAMPLTZ: pa.timestamp("us", tz="UTC"),
    DType.TIMESTAMPNTZ: pa.timestamp("us"),
}
_REFUSED = {
    DType.CHAR: "its length would not be checked; use STRING",
    DType.VARCHAR: "its length would not be checked; use STRING",
    DType.VARIANT: "lake tables of this version cannot hold it",
    DType.INTERVAL: "lake tables cannot hold it; use BIGINT, with the unit in the column's name",
}
_KNOWN_TYPES = (
    "Types are BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p,s), STRING, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ,"
    " ARRAY<type>, MAP<type, type>, STRUCT<name: type>."
)
MAX_LENGTH = 4_000
"""Longest text of a type, in characters. No real column has a longer type."""
MAX_DECIMAL_DIGITS = 38


def arrow_type(text: str) -> pa.DataType:
    """Returns the Arrow type of a type in Spark SQL's syntax, such as `ARRAY<DECIMAL(10,2)>`.

    Raises InvalidArgument with the unsupported part and the reason.
    """
    if len(text) > MAX_LENGTH:
        raise InvalidArgument(f"the type has {len(text)} characters; the limit is {MAX_LENGTH}")
    try:
        parsed = sqlglot.parse_one(text, into=exp.DataType, dialect="spark")
    except (SqlglotError, RecursionError):
        parsed = None
    if not isinstance(parsed, exp.DataType):
        raise InvalidArgument(f"{text[:100]!r} is not a type of Spark SQL", hint=_KNOWN_TYPES)
    return _converted(parsed, text)


def arrow_schema(text: str) -> pa.Schema:
    """Returns the columns of a text such as `id BIGINT, city STRING`. Raises the errors of `arrow_type`."""
    try:
        struct = arrow_type(f"STRUCT<{text}>")
    except InvalidArgument as error:
        raise InvalidArgument(
            f"--schema {text[:100]!r}: {error.message}", hint=f"Write --schema 'id BIGINT, city STRING'. {error.hint}"
        ) from error
    return pa.schema([struct.field(index) for index in range(struct.num_fields)])


def _converted(parsed: exp.DataType, text: str) -> pa.DataType:
    kind, parts = parsed.this, parsed.expressions
    if kind in _SIMPLE and not parts:
        return _SIMPLE[kind]
    match kind, len(parts):
        case DType.DECIMAL, 0 | 1 | 2:
            return _decimal(parsed)
        case DType.ARRAY, 1:
            return pa.list_(_nested(parts[0], text))
        case DType.MAP, 2:
            return pa.map_(_nested(parts[0], text), _nested(parts[1], text))
        case DType.STRUCT, count if count > 0:
            return pa.struct([_field(part, text) for part in parts])
    reason = _REFUSED.get(DType.INTERVAL if isinstance(kind, exp.Interval) else kind)
    raise InvalidArgument(f"the type {text[:100]!r} is not supported{f': {reason}' if reason else ''}", hint=_KNOWN_TYPES)


def _decimal(parsed: exp.DataType) -> pa.DataType:
    """Returns the Arrow type of a DECIMAL. Spark's default is DECIMAL(10,0)."""
    numbers = [int(part.name) for part in parsed.expressions if part.name.isdigit()]
    precision, scale = (*numbers, *(10, 0)[len(numbers) :])
    if len(numbers) != len(parsed.expressions) or not 0 < precision <= MAX_DECIMAL_DIGITS or scale > precision:
        raise InvalidArgument(
            f"the type {parsed.sql(dialect='spark')} is not supported",
            hint=f"DECIMAL(p,s) has p digits, from 1 to {MAX_DECIMAL_DIGITS}, and s of them after the point.",
        )
    return pa.decimal128(precision, scale)


def _nested(part: exp.Expression, text: str) -> pa.DataType:
    if not isinstance(part, exp.DataType):
        raise InvalidArgument(f"{part.sql(dialect='spark')!r} is not a type of Spark SQL", hint=_KNOWN_TYPES)
    return _converted(part, text)


def _field(part: exp.Expression, text: str) -> pa.Field[Any]:
    if not isinstance(part, exp.ColumnDef) or not isinstance(part.args.get("kind"), exp.DataType):
        raise InvalidArgument(f"{part.sql(dialect='spark')!r} is not a field of a STRUCT", hint="Write STRUCT<name: type, ...>.")
    if part.args.get("constraints"):
        raise InvalidArgument(f"the field {part.name!r} has more than a name and a type", hint="Write STRUCT<name: type, ...>.")
    return pa.field(part.name, _converted(part.args["kind"], text))
