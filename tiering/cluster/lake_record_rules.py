"""What a cluster's record of a table's lake copy may become. Pure; the same for every cluster."""

from __future__ import annotations

from collections.abc import Collection

from tiering.errors import Fenced
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import TableInfo


def check_goes_on(table: TableInfo, recorded: RecordedLakeSnapshot, snapshot: RecordedLakeSnapshot, living: Collection[int] | None) -> None:
    """Raises Fenced, which names the bucket, if an offset would go back.

    `living` are the ids of the partitions that there are: a marker drops the entries of others. None = all that are named.
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
