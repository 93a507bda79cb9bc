"""Describes Arrow types in Fluss's JSON (`DataTypeJsonSerde` of 0.9.1), for columns that are added to a table. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tiering.errors import UnsupportedType

_PLAIN: Mapping[pa.DataType, str] = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BYTES",
    pa.date32(): "DATE",
}
MICROSECONDS = 6
"""Number of digits of a second's fraction."""


def type_json(column: str, kind: pa.DataType) -> bytes:
    """Returns the description of a nullable column's type for AlterTable. Raises UnsupportedType, which names the column."""
    return json.dumps(_described(column, kind)).encode()


def _described(column: str, kind: pa.DataType) -> dict[str, Any]:
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if isinstance(kind, pa.Decimal128Type):
        return {"type": "DECIMAL", "precision": kind.precision, "scale": kind.scale}
    if isinstance(kind, pa.TimestampType) and kind.unit == "us":
        zone = "WITHOUT_TIME_ZONE" if kind.tz is None else "WITH_LOCAL_TIME_ZONE"
        return {"type": f"TIMESTAMP_{zone}", "precision": MICROSECONDS}
    if isinstance(kind, pa.ListType):
        return {"type": "ARRAY", "element_type": _described(column, kind.value_type)}
    if isinstance(kind, pa.MapType):
        key = {**_described(column, kind.key_type), "nullable": False}
        return {"type": "MAP", "key_type": key, "value_type": _described(column, kind.item_type)}
    if isinstance(kind, pa.StructType):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        described = [{"name": field.name, "field_type": _described(column, field.type), "field_id": -1} for field in fields]
        return {"type": "ROW", "fields": described}
    raise UnsupportedType(f"column {column!r} has type {kind}, which a Fluss table cannot hold", column=column, type=kind)
