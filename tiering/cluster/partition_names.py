"""Partitions: which columns may be partition columns, and the names of partitions. Pure.

A partition's name consists of its values joined by `$`, as in Fluss: a string unchanged, a date as 2024-01-31, an integer in decimal. Each
value obeys the name rule.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date
from typing import Any

import pyarrow as pa

from tiering.cluster.key_columns import KeyRole, check_key_columns
from tiering.errors import InvalidArgument, InvalidData, InvalidName
from tiering.model.names import check_name

MAX_PARTITION_KEYS = 4
"""Maximum number of partition columns; more would create too many small partitions."""
MAX_FOLDER_BYTES = 255
"""Maximum length of a folder name in the file systems of lakes: a partition's folder is `column=value`."""
_KEY_TYPES: Collection[pa.DataType] = (pa.string(), pa.date32(), pa.int8(), pa.int16(), pa.int32())


def check_partition_keys(schema: pa.Schema, partition_keys: Sequence[str], bucket_keys: Sequence[str]) -> None:
    """Raises InvalidArgument (unknown, repeated or nullable column, a bucket key, too many) or UnsupportedType, naming the column."""
    if len(partition_keys) > MAX_PARTITION_KEYS:
        raise InvalidArgument(f"a table may have at most {MAX_PARTITION_KEYS} partition columns; this one has {len(partition_keys)}")
    check_key_columns(schema, partition_keys, _PARTITION_COLUMN)
    for name in partition_keys:
        if name in bucket_keys:
            raise InvalidArgument(
                f"the column {name!r} cannot be a partition column and a bucket key",
                hint="It has one value in each partition, so all rows of a partition would go to one bucket.",
            )


def is_partition_type(kind: pa.DataType) -> bool:
    """Returns whether a column of that type may be a partition column."""
    return kind in _KEY_TYPES


_PARTITION_COLUMN = KeyRole(
    "partition column", "a partition column", is_partition_type, "Partition columns are strings, dates or integers of at most 32 bits."
)


def partition_values(column: str, values: pa.Array[Any]) -> list[str]:
    """Returns distinct values of a partition column in the form of partition names. Raises InvalidData naming column and value."""
    try:
        texts = [str(value) for value in values.cast(pa.string())]
    except pa.ArrowInvalid as error:
        raise InvalidData(f"partition column {column!r}: {error}", column=column) from error
    for text in texts:
        if pa.types.is_date(values.type) and not _is_calendar_date(text):
            raise InvalidData(f"partition column {column!r}: the date {text} is not between the years 1 and 9999", column=column)
        try:
            check_name(text, "partition value")
        except InvalidName as error:
            raise InvalidData(f"partition column {column!r}: {error.message}", hint=error.hint, column=column) from error
        if (length := len(f"{column}={text}".encode())) > MAX_FOLDER_BYTES:
            raise InvalidData(
                f"partition column {column!r}: the value {text[:40]!r}... would give its lake folder a name of {length} bytes; "
                f"file systems allow {MAX_FOLDER_BYTES}",
                hint=f"A value of this column may have {MAX_FOLDER_BYTES - 1 - len(column.encode())} characters.",
                column=column,
            )
    return texts


def _is_calendar_date(text: str) -> bool:
    """Returns whether readers of partition names, which support the years 1 to 9999, read the same date."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
