"""Partitions: which columns may be partition columns, the names of partitions, and the rows of each. Pure.

A partition's name consists of its values joined by `$`, as in Fluss: a string unchanged, a date as 2024-01-31, an integer in decimal. Each
value obeys the name rule.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tiering.cluster.key_columns import KeyRole, check_key_columns
from tiering.errors import InvalidArgument, InvalidData, InvalidName
from tiering.model.names import check_name
from tiering.model.tables import PARTITION_SEPARATOR, TableInfo

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


@dataclass(frozen=True)
class BucketRows:
    """Rows of one bucket, in their order. The partition is given by name only, because it may not exist yet."""

    partition_name: str | None
    bucket_id: int
    rows: pa.RecordBatch


def rows_by_bucket(table: TableInfo, batch: pa.RecordBatch, bucket_ids: npt.NDArray[Any]) -> list[BucketRows]:
    """Returns the rows of `batch` (not empty) split by partition, then by bucket. `bucket_ids`: the bucket of each row.

    Raises InvalidData for a value that cannot be part of a partition's name.
    """
    count = table.bucket_count
    groups, names = _partition_of_rows(table, batch)
    places = groups * count + bucket_ids
    occupied, sizes = np.unique(places, return_counts=True)
    if len(occupied) == 1:
        return [BucketRows(names[int(occupied[0]) // count], int(occupied[0]) % count, batch)]
    ordered = batch.take(np.argsort(places, kind="stable"))
    starts = np.cumsum(sizes) - sizes
    return [
        BucketRows(names[int(place) // count], int(place) % count, ordered.slice(int(start), int(size)))
        for place, start, size in zip(occupied, starts, sizes, strict=True)
    ]


def _partition_of_rows(table: TableInfo, batch: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], list[str | None]]:
    """Returns for each row the number of its partition among `names`, which are in the order of their values."""
    if not table.partition_keys:
        return np.zeros(batch.num_rows, dtype=np.int64), [None]
    codes = np.zeros(batch.num_rows, dtype=np.int64)
    names: list[str] = [""]
    for position, column in enumerate(table.partition_keys):
        own_codes, values = _encode(batch.column(column))
        texts = partition_values(column, values)
        combined, codes = np.unique(codes * len(texts) + own_codes, return_inverse=True)
        prefixes = [f"{name}{PARTITION_SEPARATOR}" if position else "" for name in names]
        names = [prefixes[int(pair) // len(texts)] + texts[int(pair) % len(texts)] for pair in combined]
    return codes.astype(np.int64), list(names)


def _encode(column: pa.Array[Any]) -> tuple[npt.NDArray[np.int64], pa.Array[Any]]:
    encoded = column.dictionary_encode()
    # Sorted, so that the same rows are split in the same order, independent of their order in the batch.
    order = pc.array_sort_indices(encoded.dictionary).to_numpy()
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    codes: npt.NDArray[np.int64] = rank[encoded.indices.to_numpy()]
    return codes, encoded.dictionary.take(pa.array(order))
