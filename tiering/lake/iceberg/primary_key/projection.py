"""Converts columns of a data file to the lake's present schema (Iceberg spec, "Column Projection"). Pure.

Fields are found by their ids, or by their names in a file without ids. A field that the file lacks is null. pyiceberg's own projection is
not used, because it turns a NULL list or map of structs into an empty one, and a rewritten bucket would keep that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pyarrow as pa
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from tiering.lake.iceberg.schema.types import FIELD_ID_KEY, arrow_field, arrow_type


def projected(column: pa.Array[Any], stored: pa.Field[Any], field: NestedField) -> pa.Array[Any]:
    """Returns `column`, which the file has as `stored`, in the type of the lake's `field`. Raises ArrowInvalid for unfitting values."""
    requested = arrow_field(field)
    if stored.type.equals(requested.type, check_metadata=True):
        return column
    return _of_type(column, stored.type, field.field_type)


def nulls(count: int, kind: pa.DataType) -> pa.Array[Any]:
    """Returns `count` nulls: the values of a field that a file lacks."""
    absent: pa.Array[Any] = cast(Any, pa).nulls(count, kind)
    return absent


def find_field(fields: Sequence[pa.Field[Any]], requested: NestedField) -> int | None:
    """Returns the position of `requested` among a file's fields of one level; None if the file lacks it."""
    ids = [_id_of(field) for field in fields]
    if all(field_id is None for field_id in ids):
        names = [field.name for field in fields]
        return names.index(requested.name) if requested.name in names else None
    return ids.index(requested.field_id) if requested.field_id in ids else None


def _id_of(field: pa.Field[Any]) -> int | None:
    text = (field.metadata or {}).get(FIELD_ID_KEY)
    return None if text is None else int(text)


def _of_type(column: pa.Array[Any], stored: pa.DataType, kind: IcebergType) -> pa.Array[Any]:
    if isinstance(kind, StructType) and pa.types.is_struct(stored):
        return _struct(cast(Any, column), stored, kind)
    if isinstance(kind, ListType) and (pa.types.is_list(stored) or pa.types.is_large_list(stored)):
        return _list(cast(Any, column), cast(Any, stored), kind)
    if isinstance(kind, MapType) and pa.types.is_map(stored):
        return _map(cast(Any, column), cast(Any, stored), kind)
    requested = arrow_type(kind)
    # Nanoseconds, as old Spark writes times, are cut to the lake's microseconds.
    return column if column.type == requested else column.cast(requested, safe=not pa.types.is_timestamp(stored))


def _struct(column: pa.StructArray, stored: pa.StructType, kind: StructType) -> pa.Array[Any]:
    fields = [stored.field(index) for index in range(stored.num_fields)]
    children: list[pa.Array[Any]] = []
    for field in kind.fields:
        place = find_field(fields, field)
        child = nulls(len(column), arrow_type(field.field_type)) if place is None else column.field(place)
        children.append(child if place is None else projected(child, fields[place], field))
    types = [arrow_field(field) for field in kind.fields]
    assembled: pa.Array[Any] = cast(Any, pa.StructArray).from_arrays(children, fields=types, mask=column.is_null())
    return assembled


def _list(column: Any, stored: Any, kind: ListType) -> pa.Array[Any]:
    whole: Any = _from_its_start(column if pa.types.is_list(stored) else column.cast(pa.list_(stored.value_field)))
    values = projected(whole.values, stored.value_field, kind.element_field)
    assembled: pa.Array[Any] = cast(Any, pa.ListArray).from_arrays(whole.offsets, values, type=arrow_type(kind), mask=whole.is_null())
    return assembled


def _map(column: Any, stored: Any, kind: MapType) -> pa.Array[Any]:
    whole: Any = _from_its_start(column)
    keys = projected(whole.keys, stored.key_field, kind.key_field)
    items = projected(whole.items, stored.item_field, kind.value_field)
    assembled: pa.Array[Any] = cast(Any, pa.MapArray).from_arrays(whole.offsets, keys, items, type=arrow_type(kind), mask=whole.is_null())
    return assembled


def _from_its_start(column: pa.Array[Any]) -> pa.Array[Any]:
    """Returns a copy if `column` is a part of a longer array. Arrow cannot make a list from a part's offsets together with its nulls."""
    return pa.concat_arrays([column]) if column.offset else column
