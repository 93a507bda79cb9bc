"""COUNT, MIN and MAX, of all rows or of groups, as Spark computes them: NULLs do not count, NaN is the greatest number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sys_tables.declare.scan import Aggregate, Function, Order, ScanRequest
from sys_tables.query.ordering import indices_by, orderable, sort_keys
from tiering.coordinator.interface import AnyArray, Columns
from tiering.errors import InvalidArgument
from tiering.model.sql_types import spark_type

Numbers = npt.NDArray[np.int64]


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
