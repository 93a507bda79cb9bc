"""Partitions: their columns, their names, and their rows in the metadata.

A partition's name consists of its values joined by `$`, as in Fluss: a string unchanged, a date as 2024-01-31, an integer in decimal. Each
value obeys the name rule. A partition is created by the first append of one of its rows; its id is never reused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from tiering.cluster.embedded.metadata.database import NO_PARTITION, buckets, partitions
from tiering.cluster.embedded.metadata.key_columns import KeyRole, check_key_columns
from tiering.errors import InvalidArgument, InvalidData, InvalidName, UnknownPartition
from tiering.model.names import check_name
from tiering.model.tables import Partition, TableInfo

MAX_PARTITION_KEYS = 4
"""Maximum number of partition columns; more would create too many small partitions."""
MAX_TABLE_BUCKETS = 50_000
"""Maximum number of buckets in all partitions of a table, so that their offsets fit in one message."""
VALUE_SEPARATOR = "$"
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


def list_partitions(connection: sa.Connection, table_id: int, after: int = NO_PARTITION, limit: int = -1) -> list[Partition]:
    """Returns partitions with an id above `after`, in the order of their ids."""
    query = (
        sa.select(partitions.c.partition_id, partitions.c.partition_name)
        .where(partitions.c.table_id == table_id, partitions.c.partition_id > after)
        .order_by(partitions.c.partition_id)
        .limit(limit)
    )
    return [Partition(row.partition_id, row.partition_name) for row in connection.execute(query)]


def living_partition_ids(connection: sa.Connection, table_id: int) -> set[int]:
    """Returns the ids of the table's partitions."""
    return set(connection.scalars(sa.select(partitions.c.partition_id).where(partitions.c.table_id == table_id)))


def ensure_partitions(connection: sa.Connection, table: TableInfo, names: Collection[str]) -> Mapping[str, int]:
    """Creates the missing ones of the named partitions, with all buckets, and returns the ids by name. Raises InvalidArgument (too
    many).
    """
    existing = {partition.partition_name: partition.partition_id for partition in list_partitions(connection, table.table_id)}
    missing = sorted(set(names) - existing.keys())
    if not missing:
        return existing
    count = (len(existing) + len(missing)) * table.bucket_count
    if count > MAX_TABLE_BUCKETS:
        raise InvalidArgument(
            f"the append would give {table.path} {len(existing) + len(missing)} partitions of {table.bucket_count} buckets each; "
            f"a table may have {MAX_TABLE_BUCKETS} buckets in all",
            hint="Choose a coarser partition column, or fewer buckets.",
        )
    connection.execute(sa.insert(partitions), [{"table_id": table.table_id, "partition_name": name} for name in missing])
    ids = {partition.partition_name: partition.partition_id for partition in list_partitions(connection, table.table_id)}
    insert_buckets(connection, table.table_id, [ids[name] for name in missing], table.bucket_count)
    return ids


def insert_buckets(connection: sa.Connection, table_id: int, partition_ids: Sequence[int], bucket_count: int) -> None:
    """Inserts the empty buckets of new partitions, or of a new table without partitions (`NO_PARTITION`)."""
    fresh = {"table_id": table_id, "log_start": 0, "log_end": 0, "size_bytes": 0, "last_commit_us": 0}
    rows = [{**fresh, "partition_id": partition, "bucket_id": bucket} for partition in partition_ids for bucket in range(bucket_count)]
    connection.execute(sa.insert(buckets), rows)


def find_partition(connection: sa.Connection, table: TableInfo, name: str) -> int:
    """Returns the id of a partition. Raises UnknownPartition."""
    query = sa.select(partitions.c.partition_id).where(partitions.c.table_id == table.table_id, partitions.c.partition_name == name)
    partition_id = connection.scalar(query)
    if partition_id is None:
        raise UnknownPartition(f"the table {table.path} has no partition {name[:250]!r}", table_path=table.path)
    return int(partition_id)
