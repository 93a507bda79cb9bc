"""Dropped partitions that are not reported yet, in the metadata. The functions use one connection; the caller controls the transaction."""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa

from tiering.cluster.capabilities import DroppedPartition
from tiering.cluster.embedded.metadata.database import among, bucket_key, buckets, dropped_partitions
from tiering.cluster.embedded.metadata.lake_record import read_lake_record
from tiering.cluster.embedded.metadata.partitions import find_partition
from tiering.cluster.embedded.metadata.table_rows import find_table
from tiering.model.tables import TablePath


def insert_dropped(connection: sa.Connection, path: TablePath, name: str) -> None:
    """Records the imminent drop of a partition of a lake-enabled table, with the number of its records that are in no recorded lake
    snapshot.

    Raises UnknownTable, UnknownDatabase, UnknownPartition.
    """
    table = find_table(connection, path).info
    partition_id = find_partition(connection, table, name)
    if not table.lake_enabled:
        return
    recorded = read_lake_record(connection, table.table_id)
    tiered = {} if recorded is None else recorded.offsets
    in_the_partition = (buckets.c.table_id == table.table_id) & (buckets.c.partition_id == partition_id)
    untiered = sum(
        max(0, row.log_end - max(row.log_start, tiered.get(bucket_key(partition_id, row.bucket_id), 0)))
        for row in connection.execute(sa.select(buckets).where(in_the_partition))
    )
    values = {"partition_id": partition_id, "table_id": table.table_id, "partition_name": name, "untiered_records": untiered}
    connection.execute(sa.insert(dropped_partitions).values(values))


def list_dropped(connection: sa.Connection) -> list[DroppedPartition]:
    """Returns the recorded drops, in the order of the partition ids."""
    rows = connection.execute(sa.select(dropped_partitions).order_by(dropped_partitions.c.partition_id))
    return [DroppedPartition(row.table_id, row.partition_id, row.partition_name, row.untiered_records) for row in rows]


def delete_dropped(connection: sa.Connection, partition_ids: Collection[int]) -> None:
    """Deletes the records of these drops."""
    connection.execute(sa.delete(dropped_partitions).where(dropped_partitions.c.partition_id.in_(among(partition_ids))))
