"""KV snapshots of a real Fluss cluster, which takes them every two seconds of buckets that changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from support.clusters.fluss_tables import FlussTables
from support.running.processes import wait_for
from tiering.cluster.fluss.kv.snapshots import newest_kv_snapshots, open_snapshot_reader
from tiering.cluster.fluss.source import SchemaHistory
from tiering.model.leases import KvSnapshot
from tiering.model.splits import TieringSnapshotSplit
from tiering.model.tables import BucketKey, Partition, TableInfo


def newest(tables: FlussTables, table: TableInfo, partitions: Sequence[Partition] = ()) -> Mapping[BucketKey, KvSnapshot]:
    """The table's newest KV snapshots now."""
    return newest_kv_snapshots(tables.client, table, lambda: partitions)


def snapshots_up_to(
    tables: FlussTables, table: TableInfo, records: int, partitions: Sequence[Partition] = (), buckets: Collection[BucketKey] = ()
) -> Mapping[BucketKey, KvSnapshot]:
    """The newest KV snapshots once they hold so many records of the log together, and all of `buckets` have one."""

    def probe() -> Mapping[BucketKey, KvSnapshot] | None:
        snapshots = newest(tables, table, partitions)
        reached = sum(snapshot.log_offset for snapshot in snapshots.values()) >= records
        return snapshots if reached and snapshots.keys() >= set(buckets) else None

    return wait_for(f"KV snapshots of {table.path}", probe)


def snapshot_split(table: TableInfo, bucket: BucketKey, snapshot: KvSnapshot) -> TieringSnapshotSplit:
    """The split of a whole snapshot."""
    return TieringSnapshotSplit(table.path, bucket, None, snapshot.snapshot_id, snapshot.log_offset, snapshot.log_offset)


def snapshot_rows(tables: FlussTables, table: TableInfo, snapshots: Mapping[BucketKey, KvSnapshot]) -> list[dict[str, Any]]:
    """All rows of these snapshots, by id."""
    schemas = SchemaHistory(tables.client).of(table)
    batches: list[pa.RecordBatch] = []
    for bucket, snapshot in snapshots.items():
        batches += open_snapshot_reader(tables.client, table, snapshot_split(table, bucket, snapshot), schemas, {}).read()
    rows = [row for batch in batches for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: int(row["id"]))
