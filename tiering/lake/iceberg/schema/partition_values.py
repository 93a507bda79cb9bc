"""The partition value and the path of one split's files, and the place of a bucket's files. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

from pyiceberg.schema import Schema
from pyiceberg.types import DateType, IcebergType, IntegerType

from tiering.errors import InvalidData
from tiering.lake.iceberg.schema.layout import has_bucket_in_partition, layout_of_schema
from tiering.model.tables import PARTITION_SEPARATOR, BucketKey, TableInfo

EPOCH = date(1970, 1, 1)
INT_MIN, INT_MAX = -(2**31), 2**31 - 1

PartitionValue = tuple[int | str, ...]


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
    """Returns the record of the lake's partition spec: the partition columns' values as Iceberg stores them, then the bucket id if the
    spec has it.

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


def value_text(value: int | str | date, *, is_date: bool) -> str:
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
