"""Finds the partitions and buckets of a table that can have rows for which the conditions of a read are true. Pure.

All rows of a partition have its values in the partition columns, and the bucket keys decide the bucket of a row. This holds for rows of the
lake and of the log, and for all changes of one key. So a part that is left out here hides no row of another part.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import product
from math import prod
from typing import Any

import pyarrow as pa

from tiering.model.reading.conditions import AnyOf, Condition, Filter, Operator, columns_of
from tiering.model.sql_types import Day, Instant, Value
from tiering.model.tables import PARTITION_SEPARATOR, BucketKey, Partition, TableInfo, with_other_buckets
from tiering.union_read.pushdown.row_filter import applicable, are_applicable, conjuncts, fits, matching_rows

MAX_KEYS = 1_000
"""Most combinations of bucket key values whose buckets are computed. A read with more of them needs most buckets anyway."""

BucketsOfKeys = Callable[[pa.RecordBatch], Sequence[int] | None]
"""Returns the bucket id of each row; the columns are the bucket keys. None: the formula of the table is unknown."""


@dataclass(frozen=True)
class Pruning:
    """The partitions and buckets to read; None = all."""

    partition_ids: frozenset[int] | None = None
    bucket_ids: frozenset[int] | None = None

    def may_match(self, bucket: BucketKey) -> bool:
        """Whether the bucket can have a row for which the conditions are true."""
        is_in_partition = self.partition_ids is None or bucket.partition_id is None or bucket.partition_id in self.partition_ids
        return is_in_partition and self.may_match_bucket(bucket.bucket_id)

    def may_match_bucket(self, bucket_id: int | None) -> bool:
        """Whether a bucket with this id can have such a row in any partition; None = an unknown bucket."""
        return self.bucket_ids is None or bucket_id is None or bucket_id in self.bucket_ids


def pruning_for(
    table: TableInfo, conditions: Sequence[Condition], partitions: Sequence[Partition], buckets_of_keys: BucketsOfKeys | None = None
) -> Pruning:
    """Returns what a read with these conditions needs of the table, whose partitions are `partitions`."""
    if not conditions:
        return Pruning()
    partition_ids = matching_partitions(table, conditions, partitions) if table.partition_keys else None
    keys = None if buckets_of_keys is None or with_other_buckets(table, partitions) else _bucket_keys(table, conditions)
    if keys is None or buckets_of_keys is None:
        return Pruning(partition_ids)
    bucket_ids = buckets_of_keys(keys) if keys.num_rows else ()
    return Pruning(partition_ids, None if bucket_ids is None else frozenset(int(number) for number in bucket_ids))


def matching_partitions(table: TableInfo, conditions: Sequence[Condition], partitions: Sequence[Partition]) -> frozenset[int]:
    """Returns the ids of the partitions whose values the conditions on partition columns allow. A name that cannot be read is allowed."""
    rows = [_partition_row(table, partition.partition_name) for partition in partitions]
    matching_ids = {partition.partition_id for partition, row in zip(partitions, rows, strict=True) if row is None}
    by_row = [(partition.partition_id, row) for partition, row in zip(partitions, rows, strict=True) if row is not None]
    if by_row:
        batch = pa.concat_batches([row for _, row in by_row])  # type: ignore[attr-defined]  # missing in the stubs
        mask = matching_rows(batch, applicable(conditions, batch.schema))
        matching_ids |= {partition_id for (partition_id, _), is_match in zip(by_row, mask.to_pylist(), strict=True) if is_match}
    return frozenset(matching_ids)


def partition_matches(table: TableInfo, conditions: Sequence[Condition], name: str) -> bool | None:
    """Returns whether the conditions, which concern only partition columns, are true for the rows of a partition; None = its name cannot be
    read."""
    row = _partition_row(table, name)
    return None if row is None else bool(matching_rows(row, applicable(conditions, row.schema))[0].as_py())


def concerns_only_partitions(table: TableInfo, conditions: Sequence[Condition]) -> bool:
    """Whether the conditions are true for all rows or for no row of each partition, and `partition_matches` tells it."""
    schema = pa.schema([table.schema.field(name) for name in table.partition_keys if _is_readable(table.schema.field(name).type)])
    names = frozenset().union(*(columns_of(condition) for condition in conditions)) if conditions else frozenset()
    return names <= set(schema.names) and are_applicable(conditions, schema)


def _partition_row(table: TableInfo, name: str) -> pa.RecordBatch | None:
    """Returns the values of a partition as a row, without columns of types that this module cannot read; None = it cannot be read."""
    texts = name.split(PARTITION_SEPARATOR)
    if len(texts) != len(table.partition_keys):
        return None
    columns: list[pa.Array[Any]] = []
    fields: list[pa.Field[Any]] = []
    for key, text in zip(table.partition_keys, texts, strict=True):
        field = table.schema.field(key)
        if not _is_readable(field.type):
            continue
        value = _partition_value(text, field.type)
        if value is None:
            return None
        columns.append(pa.array([value], field.type))
        fields.append(field)
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)) if columns else None


def _is_readable(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_signed_integer(kind) or pa.types.is_date32(kind)


def _partition_value(text: str, kind: pa.DataType) -> str | int | date | None:
    """Returns the value that a partition's name has; None = not in the form of `cluster.partition_names`."""
    if pa.types.is_string(kind):
        return text
    try:
        if pa.types.is_date32(kind):
            day = date.fromisoformat(text)
            return day if day.isoformat() == text else None
        number = int(text)
    except ValueError:
        return None
    is_in_range = -(2 ** (kind.bit_width - 1)) <= number < 2 ** (kind.bit_width - 1)
    return number if is_in_range and str(number) == text else None


def _bucket_keys(table: TableInfo, conditions: Sequence[Condition]) -> pa.RecordBatch | None:
    """Returns the combinations of bucket keys that rows may have for which the conditions are true; None = any."""
    if not table.bucket_keys:
        return None
    values: list[Collection[Value]] = []
    for key in table.bucket_keys:
        allowed = _allowed_values(conjuncts(conditions), key, table.schema.field(key).type)
        if allowed is None:
            return None
        values.append(sorted(allowed, key=repr))
    if prod(map(len, values)) > MAX_KEYS:
        return None
    combinations = list(product(*values))
    fields = [table.schema.field(key) for key in table.bucket_keys]
    columns = [_key_column([row[place] for row in combinations], field.type) for place, field in enumerate(fields)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _allowed_values(conditions: Iterable[Condition], column: str, kind: pa.DataType) -> frozenset[Value] | None:
    """Returns the values of a column that an equality or an IN allows; None = any."""
    allowed: frozenset[Value] | None = None
    for condition in conditions:
        values = _values_of(condition, column, kind)
        if values is not None:
            allowed = values if allowed is None else allowed & values
    return allowed


def _values_of(condition: Condition, column: str, kind: pa.DataType) -> frozenset[Value] | None:
    match condition:
        case Filter(name, Operator.EQUAL | Operator.IN, values) if name == column and values:
            present = [value for value in values if value is not None]
            if not all(_is_key(value, kind) for value in present):
                return None
            return frozenset(value for value in present if _is_in_range(value, kind))
        case AnyOf(parts) if parts:
            sets = [_values_of(part, column, kind) for part in parts]
            return None if None in sets else frozenset().union(*(values for values in sets if values is not None))
        case _:
            return None


def _is_key(value: Value, kind: pa.DataType) -> bool:
    """Whether a key of this type equals the literal only if it is this value: text, whole numbers, dates, times in microseconds."""
    is_plain = isinstance(value, (str, int, Instant, Day)) and not isinstance(value, bool)
    return (
        is_plain and fits(value, kind) and not pa.types.is_floating(kind) and (not isinstance(kind, pa.TimestampType) or kind.unit == "us")
    )


def _is_in_range(value: Value, kind: pa.DataType) -> bool:
    number = value.days if isinstance(value, Day) else value
    return not isinstance(number, int) or -(2 ** (kind.bit_width - 1)) <= number < 2 ** (kind.bit_width - 1)


def _key_column(values: Sequence[Value], kind: pa.DataType) -> pa.Array[Any]:
    plain = [_plain(value) for value in values]
    if isinstance(kind, pa.TimestampType):
        return pa.array(plain, pa.int64()).view(kind)
    return pa.array(plain, pa.int32()).view(kind) if pa.types.is_date32(kind) else pa.array(plain, kind)


def _plain(value: Value) -> Any:
    match value:
        case Instant(microseconds):
            return microseconds
        case Day(days):
            return days
        case _:
            return value
