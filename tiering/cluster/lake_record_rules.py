"""The rule for changes of a cluster's lake record, the same for every cluster. Pure."""

from __future__ import annotations

from collections.abc import Collection

from tiering.errors import Fenced
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import TableInfo


def check_goes_on(table: TableInfo, recorded: RecordedLakeSnapshot, snapshot: RecordedLakeSnapshot, living: Collection[int] | None) -> None:
    """Raises Fenced, which names the bucket, if an offset would become smaller.

    `living` are the ids of the existing partitions: a marker has no entries for other partitions. None means that all partitions exist.
    """
    for bucket, offset in recorded.offsets.items():
        if living is not None and bucket.partition_id is not None and bucket.partition_id not in living:
            continue
        new = snapshot.offsets.get(bucket, 0)
        if new < offset:
            raise Fenced(
                f"the lake record of {table.path} would go back in bucket {bucket}, from offset {offset} to {new}",
                table_id=table.table_id,
                lake_snapshot_id=snapshot.lake_snapshot_id,
            )
