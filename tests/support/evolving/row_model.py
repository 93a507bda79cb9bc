"""The model of a table whose columns change: its rows in plain Python, and how they follow a change of the columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tiering.model.schema.field_ids import children, identity

Row = Mapping[str, Any]


def converted_model(rows: list[dict[str, Any]], former: pa.Schema, present: pa.Schema) -> list[dict[str, Any]]:
    """Returns rows of former columns with the present ones."""
    before, after = pa.struct(list(former)), pa.struct(list(present))
    return [_converted(row, before, after) for row in rows]


def complete_row(row: Row, schema: pa.Schema) -> dict[str, Any]:
    """The row with all fields of the schema, and no others."""
    complete: dict[str, Any] = pa.RecordBatch.from_pylist([row], schema=schema).to_pylist()[0]
    return complete


def plain_text(row: Row) -> str:
    """Returns a text that is equal for equal rows, whatever the order of their fields."""
    return repr(_sorted(row))


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return [(name, _sorted(value[name])) for name in sorted(value)]
    return [_sorted(item) for item in value] if isinstance(value, list | tuple) else value


def _converted(value: Any, former: pa.DataType, present: pa.DataType) -> Any:
    """A value with other columns: the model's own rule."""
    if value is None:
        return None
    if isinstance(present, pa.StructType):
        before = {identity(field): field for field in children(former)}
        return {
            field.name: _converted(value.get(before[identity(field)].name), before[identity(field)].type, field.type)
            if identity(field) in before
            else None
            for field in children(present)
        }
    if isinstance(present, pa.MapType):
        return [(key, _converted(item, former.item_type, present.item_type)) for key, item in value]
    if isinstance(present, pa.ListType):
        return [_converted(item, former.value_type, present.value_type) for item in value]
    return value
