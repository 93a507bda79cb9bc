"""What Lakeward needs of a streaming store. Two faces: `Cluster` on a driver or coordinator, `SplitReader` on executors.

The embedded cluster and Apache Fluss both fit it: databases and tables (ListDatabases, ListTables, GetTableInfo),
partitions (ListPartitionInfos), offsets (ListOffsets), the cluster's own record of the lake (GetLakeSnapshot,
PrepareLakeTableSnapshot + CommitLakeTableSnapshot), bounded Arrow scans, KV snapshots (GetLatestKvSnapshots) and
leases on them (Acquire-, Release-, DropKvSnapshotLease).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable

import pyarrow as pa

from tiering.errors import ClusterUnavailable, UnknownTable
from tiering.model.leases import KvSnapshot, KvSnapshotLease
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.splits import TieringSplit
from tiering.model.tables import BucketKey, BucketOffsets, Offsets, Partition, TableBucket, TableInfo, TablePath


@runtime_checkable
class SplitReader(Protocol):
    """The executor side: reads one split. Pickles; opens nothing before `read`."""

    @property
    def split(self) -> TieringSplit:
        """What it reads."""
        ...

    def read(self) -> Iterator[pa.RecordBatch]:
        """The split's rows in offset order, with the columns of `TableInfo.read_schema`.

        Log split: every record of `[starting_offset, stopping_offset)`, each once, and none outside; of a primary-key table the
        changes, `-U` records included. Snapshot split: every row of the snapshot, as `+I` with SNAPSHOT_OFFSET for offset and
        timestamp. Raises DataCorrupt (names file, bucket, offset range), LogTruncated, KvSnapshotGone, ClusterUnavailable.
        """
        ...


@runtime_checkable
class Cluster(Protocol):
    """The driver side. Safe to call from several threads; every call may raise ClusterUnavailable."""

    @property
    def cluster_id(self) -> str:
        """Names this cluster for ever; in every marker."""
        ...

    def databases(self) -> Sequence[str]:
        """Names of all databases, sorted."""
        ...

    def tables(self, database_name: str | None = None) -> Sequence[TableInfo]:
        """All tables, or those of one database, sorted by path; an answer does not change any more. Raises UnknownDatabase."""
        ...

    def table(self, path: TablePath) -> TableInfo:
        """One table. Raises UnknownTable, UnknownDatabase."""
        ...

    def partitions(self, table: TableInfo) -> Sequence[Partition]:
        """Partitions as they are now; empty in a table without partition keys."""
        ...

    def offsets(self, table: TableInfo) -> Mapping[BucketKey, BucketOffsets]:
        """Start and end of every bucket's log now. Raises UnknownTable if the table id is gone."""
        ...

    def offsets_of(self, tables: Sequence[TableInfo]) -> Mapping[int, Mapping[BucketKey, BucketOffsets]]:
        """The same of many tables by table id, in as few questions as the cluster allows.

        Left out are tables that are gone, and those whose log alone does not answer.
        """
        ...

    def oldest_timestamps(self, table: TableInfo, offsets: Offsets) -> Mapping[BucketKey, datetime]:
        """Commit time of the first record at or after each offset; buckets with none are left out."""
        ...

    def reader(self, table: TableInfo, split: TieringSplit) -> SplitReader:
        """How an executor reads `split`. Raises KvSnapshotGone for a snapshot that is not there any more."""
        ...

    def kv_snapshots(self, table: TableInfo) -> Mapping[BucketKey, KvSnapshot]:
        """The newest KV snapshot of each bucket that has one; none for a log table. Raises UnknownTable."""
        ...

    def acquire_lease(
        self, lease_id: str, ttl_ms: int, snapshots: Mapping[TableBucket, int], owner: str | None = None
    ) -> Collection[TableBucket]:
        """Keeps the named snapshots (bucket -> snapshot id) alive for `ttl_ms` from now; the buckets whose snapshot is not there.

        The same lease id again adds to the lease and renews all of it; no snapshots: only renews. A bucket leased before under
        this id moves to the new snapshot. Raises InvalidArgument (lease id, ttl), UnknownLease (renewed, but it is gone).
        """
        ...

    def release_lease(self, lease_id: str, buckets: Collection[TableBucket]) -> Collection[TableBucket]:
        """Lets go of single buckets; those of them that were leased. A lease without buckets is gone."""
        ...

    def drop_lease(self, lease_id: str) -> bool:
        """Lets go of all of a lease; False if there was none."""
        ...

    def leases(self) -> Sequence[KvSnapshotLease]:
        """All leases the cluster knows, expired ones that were not swept yet included, by id."""
        ...

    def lake_snapshot(self, table: TableInfo) -> RecordedLakeSnapshot | None:
        """What the cluster remembers of the lake; None = nothing yet."""
        ...

    def record_lake_snapshot(self, table: TableInfo, snapshot: RecordedLakeSnapshot) -> None:
        """Tells the cluster. Only the coordinator calls this, under the table's lock (FLUSS.md H1, H2).

        Harmless to repeat: an implementation reads what is recorded before it writes.
        """
        ...

    def rewind_lake_snapshot(self, table: TableInfo, snapshot: RecordedLakeSnapshot) -> None:
        """The same for a user who said that the lake is right (`reconcile_lake`): offsets may go back."""
        ...


class TableOffsets(Protocol):
    """What is asked of one table at a time."""

    def offsets(self, table: TableInfo) -> Mapping[BucketKey, BucketOffsets]:
        """As `Cluster.offsets`."""
        ...


def offsets_one_by_one(cluster: TableOffsets, tables: Sequence[TableInfo]) -> Mapping[int, Mapping[BucketKey, BucketOffsets]]:
    """`Cluster.offsets_of` for a cluster that answers about one table at a time, as Fluss does (ListOffsets).

    Raises ClusterUnavailable if no table's log answers.
    """
    found: dict[int, Mapping[BucketKey, BucketOffsets]] = {}
    silent: ClusterUnavailable | None = None
    for table in tables:
        try:
            found[table.table_id] = cluster.offsets(table)
        except UnknownTable:
            continue
        except ClusterUnavailable as error:
            silent = error
    if silent is not None and not found:
        raise silent
    return found
