"""Sorts rows as Spark does: NULLs first or last as the key says, NaN above all numbers, -0.0 beside 0.0, strings by their bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sys_tables.declare.scan import Order
from tiering.coordinator.interface import AnyArray, Columns
from tiering.errors import InvalidArgument
from tiering.model.sql_types import spark_type

SortKey = tuple[AnyArray, bool]
"""Values to sort by, and whether the largest come first. NULL and NaN have been given keys of their own."""


def sorted_indices(source: Columns, schema: pa.Schema, order: Sequence[Order]) -> AnyArray:
    """Indices of all rows in that order; equal rows keep their order. Raises InvalidArgument for a column without an order."""
    keys = [key for sort in order for key in sort_keys(orderable(schema, sort.column, source), sort)]
    return indices_by(keys)


def orderable(schema: pa.Schema, name: str, source: Columns) -> AnyArray:
    """The column's values. Raises InvalidArgument for an unknown column, and for one whose values have no order."""
    if name not in schema.names:
        raise InvalidArgument(f"there is no column {name!r} to sort by; there are: {', '.join(schema.names)}")
    kind = schema.field(name).type
    if not (pa.types.is_primitive(kind) or pa.types.is_string(kind)):
        raise InvalidArgument(f"the column {name!r} is {spark_type(kind)}: its values have no order here")
    return source.column(name)


def sort_keys(values: AnyArray, order: Order) -> list[SortKey]:
    """Keys by which Arrow sorts as Spark does."""
    keys: list[SortKey] = []
    if values.null_count:
        absent: AnyArray = pc.is_null(values)
        keys.append((absent.cast(pa.int8()), order.nulls_first))
    if pa.types.is_floating(values.type):
        nan: AnyArray = pc.is_nan(values)
        keys.append((nan.cast(pa.int8()), order.descending))
        values = pc.add(pc.if_else(nan, 0.0, values), 0.0)
    elif pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    return [*keys, (values, order.descending)]


def indices_by(keys: Sequence[SortKey]) -> AnyArray:
    """Indices that sort by the first key, then by the next."""
    named: Any = [(f"{number}", "descending" if descending else "ascending") for number, (_, descending) in enumerate(keys)]
    table = pa.table([values for values, _ in keys], names=[name for name, _ in named])
    return pc.sort_indices(table, sort_keys=named).cast(pa.int64())
