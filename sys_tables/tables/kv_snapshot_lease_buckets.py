"""sys.kv_snapshot_lease_buckets: the KV snapshot of each bucket that a lease keeps alive."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import system_table
from tiering.access.requirements import DESCRIBE_EACH_TABLE
from tiering.coordinator.interface import CoordinatorView
from tiering.model.declare import INT, column
from tiering.model.tables import TableInfo


@dataclass(frozen=True)
class KvSnapshotLeaseBucketRow:
    """One leased bucket."""

    lease_id: str = column("The lease.")
    database_name: str = column("Database of the table.")
    table_name: str = column("Name of the table.")
    partition_name: str | None = column("Name of the partition; NULL in a table without partitions.")
    bucket_id: int = column("The bucket.", arrow_type=INT)
    snapshot_id: int = column("The KV snapshot that is kept.")
    log_offset: int = column("The snapshot has the bucket's state at this offset of its log.")
    available: bool | None = column("Whether the snapshot's files exist; NULL if the cluster does not know, as Fluss.")


@system_table(
    "kv_snapshot_lease_buckets", KvSnapshotLeaseBucketRow, requires=DESCRIBE_EACH_TABLE, comment="The KV snapshots that leases keep alive."
)
def rows(view: CoordinatorView, scan: ScanRequest) -> Iterator[KvSnapshotLeaseBucketRow]:
    lease_id = scan.equals("lease_id")
    leases = [lease for lease in view.leases() if lease_id in (None, lease.lease_id)]
    tables: dict[int, TableInfo] = {}
    if any(lease.snapshots for lease in leases):
        tables = {table.table_id: table for database in view.databases() for table in view.tables(database)}
    partitions: dict[int, dict[int, str]] = {}
    for lease in leases:
        for snapshot in lease.snapshots:
            table = tables.get(snapshot.table_bucket.table_id)
            if table is None:
                continue  # dropped a moment ago, together with its leases
            partition_id = snapshot.table_bucket.bucket.partition_id
            if partition_id is not None and table.table_id not in partitions:
                partitions[table.table_id] = {partition.partition_id: partition.partition_name for partition in view.partitions(table)}
            yield KvSnapshotLeaseBucketRow(
                lease_id=lease.lease_id,
                database_name=table.path.database_name,
                table_name=table.path.table_name,
                partition_name=None if partition_id is None else partitions[table.table_id].get(partition_id),
                bucket_id=snapshot.table_bucket.bucket.bucket_id,
                snapshot_id=snapshot.snapshot_id,
                log_offset=snapshot.log_offset,
                available=snapshot.available,
            )
