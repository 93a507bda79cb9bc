"""Rows of Arrow tables as values that can be compared and sorted, whatever they hold.

Python has no dates and times outside of the years 1 to 9999, and a NaN is not equal to itself: here a date or a time is the number that
is stored, and a float its repr.
"""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa


def plain_rows(table: pa.Table | pa.RecordBatch, *, empty_for_null: bool = False) -> list[dict[str, Any]]:
    """One dictionary a row. `empty_for_null`: a list or a map that is NULL as an empty one, for pyiceberg reads those of structs so."""
    columns = [[plain_value(value, empty_for_null=empty_for_null) for value in cast(Any, column)] for column in table.columns]
    return [dict(zip(table.schema.names, values, strict=True)) for values in zip(*columns, strict=True)]


def plain_value(value: pa.Scalar[Any], *, empty_for_null: bool = False) -> Any:
    """One value; lists, maps and structs as lists and dictionaries of such."""
    scalar: Any = value

    def inner(part: Any) -> Any:
        return plain_value(part, empty_for_null=empty_for_null)

    is_list = pa.types.is_list(scalar.type) or pa.types.is_large_list(scalar.type)
    if not scalar.is_valid:
        return [] if empty_for_null and (is_list or pa.types.is_map(scalar.type)) else None
    if pa.types.is_temporal(scalar.type):
        return scalar.value
    if pa.types.is_floating(scalar.type):
        return repr(scalar.as_py())
    if pa.types.is_struct(scalar.type):
        return {name: inner(scalar[name]) for name in scalar}
    if pa.types.is_map(scalar.type):
        return sorted(((inner(entry["key"]), inner(entry["value"])) for entry in scalar.values or ()), key=repr)
    return [inner(element) for element in scalar.values] if is_list else scalar.as_py()
