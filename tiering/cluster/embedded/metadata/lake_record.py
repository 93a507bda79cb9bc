"""The cluster's record of the lake, a copy of the lake table's marker, and the dropped partitions that are not reported yet.

The record may be behind the lake; a write that would move it back is refused. The caller controls the transaction.
"""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa

from tiering.cluster.base import check_goes_on
from tiering.cluster.capabilities import DroppedPartition
from tiering.cluster.embedded.metadata.database import among, bucket_key, buckets, dropped_partitions, lake_snapshots
from tiering.cluster.embedded.metadata.partitions import find_partition, living_partition_ids
from tiering.cluster.embedded.metadata.table_rows import find_table, table_exists
from tiering.errors import UnknownTable
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey, TableInfo, TablePath


def read_lake_record(connection: sa.Connection, table_id: int) -> RecordedLakeSnapshot | None:
    """Returns the record of a table; None if nothing was recorded yet."""
    row = connection.execute(sa.select(lake_snapshots).where(lake_snapshots.c.table_id == table_id)).first()
    if row is None:
        return None
    return RecordedLakeSnapshot(row.lake_snapshot_id, {BucketKey.parse(bucket): offset for bucket, offset in row.offsets.items()})


def write_lake_record(connection: sa.Connection, table: TableInfo, snapshot: RecordedLakeSnapshot, *, may_go_back: bool = False) -> None:
    """Writes the record; idempotent.

    Raises Fenced if the offset of an existing bucket would move back, UnknownTable if the table was dropped.
    """
    if not table_exists(connection, table.table_id):
        raise UnknownTable(f"the table {table.path} with id {table.table_id} does not exist", table_id=table.table_id)
    recorded = read_lake_record(connection, table.table_id)
    if recorded == snapshot:
        return
    if recorded is not None and not may_go_back:
        check_goes_on(table, recorded, snapshot, living_partition_ids(connection, table.table_id))
    values = {
        "lake_snapshot_id": snapshot.lake_snapshot_id,
        "offsets": {str(bucket): offset for bucket, offset in snapshot.offsets.items()},
    }
    if recorded is None:
        connection.execute(sa.insert(lake_snapshots).values(table_id=table.table_id, **values))
    else:
        connection.execute(sa.update(lake_snapshots).where(lake_snapshots.c.table_id == table.table_id).values(values))


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
