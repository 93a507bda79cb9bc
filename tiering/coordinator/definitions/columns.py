"""Columns in the JSON form of a Spark schema, as Arrow fields. Pure.

Spark's JSON is `{"type": "struct", "fields": [{"name", "type", "nullable", "metadata"}]}`, where a type is a name such as `long`, or an
object of the kind array, map or struct (Spark's `DataType.json`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tiering.errors import InvalidArgument, UnsupportedType
from tiering.model.schema.field_ids import COMMENT

_SIMPLE: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_DECIMAL = re.compile(r"decimal\(([0-9]{1,2}),\s*(-?[0-9]{1,2})\)", re.ASCII)
_DEEPEST = 40
"""Deepest nesting of a type, above the limit of a table (`column_types.MAX_DEPTH`), which has the better error."""
_HINT = (
    "Use BOOLEAN, TINYINT to BIGINT, FLOAT, DOUBLE, DECIMAL, STRING, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ, or ARRAY, MAP and STRUCT of "
    "these."
)
_REFUSED_METADATA = {
    "CURRENT_DEFAULT": "a default value",
    "GENERATION_EXPRESSION": "a generation expression",
    "identity.start": "values of an identity",
    "__COLLATIONS": "a collation",
}
"""Keys of a field's metadata in Spark for properties that no column of a source table has."""


def schema_from_json(text: str) -> pa.Schema:
    """Returns the columns with their comments. Raises InvalidArgument, UnsupportedType (names the column and its type)."""
    try:
        document = json.loads(text)
        return pa.schema([_field(field, "", _DEEPEST) for field in document["fields"]])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidArgument(f"the columns of the statement are not a schema of Spark: {error!r:.200}") from error


def field_from_json(text: str) -> pa.Field[Any]:
    """Returns the only column of a schema. Raises the errors of `schema_from_json`."""
    schema = schema_from_json(text)
    if len(schema) != 1:
        raise InvalidArgument(f"the change has {len(schema)} columns instead of one")
    return schema.field(0)


def _field(document: Mapping[str, Any], parent: str, depth: int) -> pa.Field[Any]:
    name, metadata = str(document["name"]), document.get("metadata") or {}
    path = f"{parent}.{name}" if parent else name
    for key, noun in _REFUSED_METADATA.items():
        if key in metadata:
            raise InvalidArgument(f"the column {path!r} has {noun}, which no column of a source table can have", column=path)
    comment = metadata.get("comment")
    kind = _type(document["type"], path, depth)
    return pa.field(name, kind, bool(document["nullable"]), None if comment is None else {COMMENT: str(comment)})


def _type(document: Any, path: str, depth: int) -> pa.DataType:
    if depth == 0:
        raise UnsupportedType(f"the column {path[:200]!r} is nested deeper than {_DEEPEST} times", column=path[:200])
    if isinstance(document, str):
        return _simple_type(document, path)
    match document["type"]:
        case "array":
            return pa.list_(pa.field("element", _type(document["elementType"], f"{path}.element", depth - 1)))
        case "map":
            key = _type(document["keyType"], f"{path}.key", depth - 1)
            return pa.map_(key, _type(document["valueType"], f"{path}.value", depth - 1))
        case "struct":
            return pa.struct([_field(field, path, depth - 1) for field in document["fields"]])
        case other:
            raise _unsupported(str(other), path)


def _simple_type(name: str, path: str) -> pa.DataType:
    if name in _SIMPLE:
        return _SIMPLE[name]
    if match := _DECIMAL.fullmatch(name):
        precision, scale = int(match[1]), int(match[2])
        if 0 <= scale <= precision <= 38 and precision:
            return pa.decimal128(precision, scale)
    raise _unsupported(name, path)


def _unsupported(name: str, path: str) -> UnsupportedType:
    return UnsupportedType(f"column {path!r} has type {name[:60].upper()}, which a source table cannot have", hint=_HINT, column=path)
