"""The cluster's record of the lake: a copy of the lake table's marker. It may be behind the lake; a write that would move it back is
refused.
"""

from __future__ import annotations

import sqlalchemy as sa

from tiering.cluster.embedded.metadata.database import lake_snapshots
from tiering.cluster.embedded.metadata.partitions import living_partition_ids
from tiering.cluster.embedded.metadata.table_rows import table_exists
from tiering.cluster.lake_record_rules import check_goes_on
from tiering.errors import UnknownTable
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey, TableInfo


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
