"""Partitions in the metadata. The caller controls the transaction.

A partition is created by the first append of one of its rows; its id is never reused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import sqlalchemy as sa

from tiering.cluster.embedded.metadata.database import NO_PARTITION, buckets, partitions
from tiering.errors import InvalidArgument, UnknownPartition
from tiering.model.tables import Partition, TableInfo

MAX_TABLE_BUCKETS = 50_000
"""Maximum number of buckets in all partitions of a table, so that their offsets fit in one message."""


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
