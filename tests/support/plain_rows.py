"""Rows of Arrow tables as values that can be compared and sorted, whatever they hold.

Python has no dates and times outside of the years 1 to 9999, and a NaN is not equal to itself: here a date or a time is the number that
is stored, and a float its repr.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def plain_rows(table: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """One dictionary a row."""
    columns = [_plain_column(column) for column in table.columns]
    return [dict(zip(table.schema.names, values, strict=True)) for values in zip(*columns, strict=True)]


def plain_value(value: pa.Scalar[Any]) -> Any:
    """One value; lists, maps and structs as lists and dictionaries of such."""
    scalar: Any = value
    if not scalar.is_valid:
        return None
    if pa.types.is_temporal(scalar.type):
        return scalar.value
    if pa.types.is_floating(scalar.type):
        return repr(scalar.as_py())
    if pa.types.is_struct(scalar.type):
        return {name: plain_value(scalar[name]) for name in scalar}
    if pa.types.is_map(scalar.type):
        return [(plain_value(entry["key"]), plain_value(entry["value"])) for entry in scalar.values] if len(scalar.values) else []
    if pa.types.is_list(scalar.type) or pa.types.is_large_list(scalar.type):
        return [plain_value(element) for element in scalar.values]
    return scalar.as_py()


def _plain_column(column: Any) -> list[Any]:
    return [plain_value(value) for value in column]
