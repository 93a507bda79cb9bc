"""The partition value and the path of one split's files, and the place of a bucket's files. Pure.

A partition value begins with the values of Lakeward's own fields (`layout.own_fields`). Those of the table's option follow.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, IcebergType, IntegerType

from tiering.errors import InvalidData
from tiering.lake.iceberg.schema.layout import has_bucket_in_partition, layout_of_schema
from tiering.lake.layouts import Layout
from tiering.model.tables import PARTITION_SEPARATOR, BucketKey, TableInfo

EPOCH = date(1970, 1, 1)
INT_MIN, INT_MAX = -(2**31), 2**31 - 1

PartitionItem = int | str | bytes | Decimal | None
PartitionValue = tuple[PartitionItem, ...]


def partition_to_json(values: Sequence[PartitionItem]) -> list[Any]:
    """Returns a partition value as JSON."""
    return [_to_json(value) for value in values]


def _to_json(value: PartitionItem) -> Any:
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode("ascii")}
    return {"decimal": str(value)} if isinstance(value, Decimal) else value


def partition_from_json(values: Sequence[Any]) -> PartitionValue:
    """Returns the partition value of this JSON."""
    return tuple(_from_json(value) for value in values)


def _from_json(value: Any) -> PartitionItem:
    if isinstance(value, dict):
        return base64.b64decode(value["bytes"]) if "bytes" in value else Decimal(value["decimal"])
    item: PartitionItem = value
    return item


PackedPartition = Annotated[PartitionValue, PlainValidator(partition_from_json), PlainSerializer(partition_to_json)]
"""A partition value in a payload."""


@dataclass(frozen=True)
class FilePlace:
    """The place of a bucket's files: in `partition`. If other buckets share that value, those with the id `bucket` among them."""

    partition: PartitionValue
    bucket: int | None = None


def file_place(table: TableInfo, bucket: BucketKey, partition_name: str | None, schema: Schema) -> FilePlace:
    """Returns the place of a bucket's files. Raises InvalidData, like `partition_values`."""
    shares = not has_bucket_in_partition(table, layout_of_schema(schema))
    return FilePlace(partition_values(table, bucket, partition_name, schema), bucket.bucket_id if shares else None)


def partition_values(table: TableInfo, bucket: BucketKey, partition_name: str | None, schema: Schema) -> PartitionValue:
    """Returns the values of Lakeward's own fields in the lake's partition spec: those of the partition columns as Iceberg stores them, then
    the bucket id if the spec has it.

    Raises InvalidData unless the partition's name has one value for each partition column in Fluss's form: a date as 2024-01-31, an integer
    in decimal. Another form of a value would become another partition with rows of this one.
    """
    texts = [] if partition_name is None else partition_name.split(PARTITION_SEPARATOR)
    if len(texts) != len(table.partition_keys):
        raise InvalidData(
            f"partition {partition_name!r} of {table.path} does not name a value for each of ({', '.join(table.partition_keys)})",
            table_path=table.path,
            partition_name=partition_name,
        )
    values = [_value(name, schema.find_field(name).field_type, text) for name, text in zip(table.partition_keys, texts, strict=True)]
    return (*values, bucket.bucket_id) if has_bucket_in_partition(table, layout_of_schema(schema)) else tuple(values)


def bucket_of_value(table: TableInfo, values: PartitionValue, layout: Layout) -> int | None:
    """Returns the bucket id in a partition value; None if the spec does not have it."""
    if not has_bucket_in_partition(table, layout):
        return None
    bucket_id = values[len(table.partition_keys)]
    assert isinstance(bucket_id, int)
    return bucket_id


def value_text(value: PartitionItem | date, *, is_date: bool) -> str:
    """Returns a stored partition value as a partition's name has it."""
    return (EPOCH + timedelta(days=value)).isoformat() if is_date and isinstance(value, int) else str(value)


def _value(column: str, kind: IcebergType, text: str) -> int | str:
    try:
        if isinstance(kind, DateType):
            day = date.fromisoformat(text)
            if day.isoformat() == text:
                return (day - EPOCH).days
        elif isinstance(kind, IntegerType):
            number = int(text)
            if str(number) == text and INT_MIN <= number <= INT_MAX:
                return number
        else:
            return text
    except ValueError as error:
        raise _no_value(column, kind, text) from error
    raise _no_value(column, kind, text)


def _no_value(column: str, kind: IcebergType, text: str) -> InvalidData:
    return InvalidData(f"the partition value {text!r} of column {column!r} is not a {kind}", column=column)
