"""Sorts and aggregates rows as Spark does.

NULLs are first or last as the key says, and do not count; NaN is above all numbers, -0.0 beside 0.0; strings compare by their bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sys_tables.declare.scan import Aggregate, Function, Order, ScanRequest
from tiering.errors import InvalidArgument
from tiering.model.reading.matching import AnyArray, Columns
from tiering.model.sql_types import spark_type

Numbers = npt.NDArray[np.int64]

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


def aggregated(source: Columns, schema: pa.Schema, scan: ScanRequest) -> pa.RecordBatch:
    """A row a group, with the columns of `group_by` and then `Aggregate.name` of each; one row if nothing is grouped by.

    Raises InvalidArgument for an unknown column, and for one that cannot be grouped or compared.
    """
    groups, first = _groups(source, schema, scan.group_by)
    keys = [source.column(name).take(pa.array(first)) for name in scan.group_by]
    results = [_result(aggregate, source, schema, groups, len(first)) for aggregate in scan.aggregates]
    fields = [*(schema.field(name) for name in scan.group_by), *(_field(aggregate, schema) for aggregate in scan.aggregates)]
    columns = [array.cast(field.type) for array, field in zip([*keys, *results], fields, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _groups(source: Columns, schema: pa.Schema, names: Sequence[str]) -> tuple[Numbers, Numbers]:
    """Returns the number of each row's group, and the first row of each group. Without names there is one group, also of no rows."""
    if not names:
        return np.zeros(source.num_rows, np.int64), np.zeros(1, np.int64)
    codes = np.zeros(source.num_rows, np.int64)
    for name in names:
        values = orderable(schema, name, source)
        if pa.types.is_floating(values.type):
            raise InvalidArgument(f"the column {name!r} is {spark_type(values.type)}: rows cannot be grouped by it here")
        encoded: Any = pc.dictionary_encode(values, null_encoding="encode")
        # Numbered anew after each column, so that the product stays small.
        _, codes = np.unique(codes * (len(encoded.dictionary) + 1) + encoded.indices.to_numpy(), return_inverse=True)
    _, first, groups = np.unique(codes, return_index=True, return_inverse=True)
    return groups.astype(np.int64), first.astype(np.int64)


def _field(aggregate: Aggregate, schema: pa.Schema) -> pa.Field[Any]:
    if aggregate.function is Function.COUNT:
        return pa.field(aggregate.name, pa.int64(), nullable=False)
    return pa.field(aggregate.name, schema.field(_column(aggregate)).type)


def _result(aggregate: Aggregate, source: Columns, schema: pa.Schema, groups: Numbers, count: int) -> AnyArray:
    if aggregate.function is Function.COUNT:
        counted = groups
        if aggregate.column is not None:
            if aggregate.column not in schema.names:
                raise InvalidArgument(f"there is no column {aggregate.column!r} to count; there are: {', '.join(schema.names)}")
            is_valid: AnyArray = pc.is_valid(source.column(aggregate.column))
            counted = groups[is_valid.to_numpy(zero_copy_only=False)]
        return pa.array(np.bincount(counted, minlength=count))
    values = orderable(schema, _column(aggregate), source)
    if not len(values):
        return pa.nulls(count, values.type)
    best = Order("", descending=aggregate.function is Function.MAX, nulls_first=False)
    indices = indices_by([(pa.array(groups), False), *sort_keys(values, best)])
    starts = np.searchsorted(groups[indices.to_numpy()], np.arange(count))
    return values.take(indices.take(pa.array(starts)))


def _column(aggregate: Aggregate) -> str:
    if aggregate.column is None:
        raise InvalidArgument(f"{aggregate.function.value} takes a column")
    return aggregate.column
