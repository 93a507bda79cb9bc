"""What Lakeward needs of a streaming store, cut by who needs it; every cluster kind of `tiering.cluster.registry` offers it.

    TableCatalog   databases, tables, partitions, and what the cluster remembers of a table's lake copy
    LogOffsets     how far each bucket's log reaches
    SplitSource    a tierer's view: both of them, KV snapshots, and readers of splits
    ClusterOwner   the coordinator's view: a SplitSource with leases on KV snapshots and the lake record to write

Apache Fluss answers them with ListDatabases, ListTables, GetTableInfo, ListPartitionInfos and GetLakeSnapshot; ListOffsets;
GetLatestKvSnapshots, FetchLog and remote files; Acquire-, Release- and DropKvSnapshotLease, PrepareLakeTableSnapshot and
CommitLakeTableSnapshot. What only some clusters can do is in `tiering.cluster.capabilities`, writing in `tiering.cluster.writable`.

Whatever stands on a driver or in the coordinator is safe to call from several threads, and every call may raise ClusterUnavailable;
a `SplitReader` alone goes to executors.
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
        """The split that it reads."""
        ...

    def read(self) -> Iterator[pa.RecordBatch]:
        """The split's rows in offset order, with the columns of `TableInfo.read_schema`.

        Log split: every record of `[starting_offset, stopping_offset)`, each once, and none outside; of a primary-key table the
        changes, `-U` records included. Offsets that no record has (Fluss's batches without records use some) are left out, and an
        end without an error says that the whole range was read. Snapshot split: every row of the snapshot, as `+I` with
        SNAPSHOT_OFFSET for offset and timestamp. Raises DataCorrupt (names file, bucket, offset range), LogTruncated,
        KvSnapshotGone, ClusterUnavailable.
        """
        ...


@runtime_checkable
class TableCatalog(Protocol):
    """What tables there are."""

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
        """Partitions as they are now; empty in a table without partition keys. Raises UnknownTable if the table id is gone."""
        ...

    def lake_snapshot(self, table: TableInfo) -> RecordedLakeSnapshot | None:
        """What the cluster remembers of the table's lake copy, which may be behind the lake; None = nothing yet."""
        ...


@runtime_checkable
class LogOffsets(Protocol):
    """How far each bucket's log reaches."""

    def offsets(self, table: TableInfo) -> Mapping[BucketKey, BucketOffsets]:
        """Start and end of every bucket's log now. Raises UnknownTable if the table id is gone."""
        ...

    def offsets_of(self, tables: Sequence[TableInfo]) -> Mapping[int, Mapping[BucketKey, BucketOffsets]]:
        """The same of many tables by table id, in as few questions as the cluster allows.

        Tables that are gone are left out, and so are those whose log alone does not answer.
        """
        ...

    def oldest_timestamps(self, table: TableInfo, offsets: Offsets) -> Mapping[BucketKey, datetime]:
        """Commit time of the first record at or after each offset; buckets with none are left out."""
        ...


@runtime_checkable
class SplitSource(TableCatalog, LogOffsets, Protocol):
    """A tierer's view: everything that a round is planned from and reads."""

    def kv_snapshots(self, table: TableInfo) -> Mapping[BucketKey, KvSnapshot]:
        """The newest KV snapshot of each bucket that has one; none for a log table. Raises UnknownTable."""
        ...

    def reader(self, table: TableInfo, split: TieringSplit) -> SplitReader:
        """How an executor reads `split`.

        Raises KvSnapshotGone for a snapshot that is not there any more, LogTruncated for records that retention removed, InvalidArgument
        for a bucket or a range that the table does not have.
        """
        ...

    def close(self) -> None:
        """Lets go of connections, files and locks. Readers that were handed out go on."""
        ...


@runtime_checkable
class LeaseListing(Protocol):
    """Leases on KV snapshots, to be looked at."""

    def leases(self) -> Sequence[KvSnapshotLease]:
        """All leases by id, expired ones that were not swept yet included.

        A cluster that lists no leases, such as Fluss, answers with those that were acquired through it here.
        """
        ...


@runtime_checkable
class KvSnapshotLeases(LeaseListing, Protocol):
    """Leases on KV snapshots, to be acquired, renewed and ended."""

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


@runtime_checkable
class ClusterOwner(SplitSource, KvSnapshotLeases, Protocol):
    """The coordinator's view. Only the coordinator has it, and writes the lake record under the table's lock (fluss-facts.md H1, H2)."""

    def prepare_lake_commit(self, table: TableInfo, offsets: Offsets) -> Mapping[str, str]:
        """What the cluster wants to find in the summary of a lake snapshot that holds the table up to `offsets`; often nothing.

        Called before a commit is granted. What it leaves in the cluster is of no effect until `record_lake_snapshot`, so that a
        commit which never comes does no harm, and a repeat neither. That the path still has this table's id is checked by the caller, just
        before. Raises UnknownTable.
        """
        ...

    def record_lake_snapshot(self, table: TableInfo, snapshot: RecordedLakeSnapshot) -> None:
        """Tells the cluster which lake snapshot holds the table up to which offsets.

        Harmless to repeat: an implementation reads what is recorded before it writes. Raises Fenced if an offset would go back,
        UnknownTable.
        """
        ...

    def rewind_lake_snapshot(self, table: TableInfo, snapshot: RecordedLakeSnapshot) -> None:
        """The same for a user who said that the lake is right (`reconcile_lake`): offsets may go back. Raises UnknownTable."""
        ...


@runtime_checkable
class ReadOnlyCluster(SplitSource, LeaseListing, Protocol):
    """A cluster's folder, read while nothing runs or beside a running coordinator: one moment a question, and nothing is written."""


def offsets_one_by_one(cluster: LogOffsets, tables: Sequence[TableInfo]) -> Mapping[int, Mapping[BucketKey, BucketOffsets]]:
    """`LogOffsets.offsets_of` for a cluster that answers about one table at a time, as Fluss does (ListOffsets).

    Raises ClusterUnavailable if no table's log answers.
    """
    offsets: dict[int, Mapping[BucketKey, BucketOffsets]] = {}
    last_error: ClusterUnavailable | None = None
    for table in tables:
        try:
            offsets[table.table_id] = cluster.offsets(table)
        except UnknownTable:
            continue
        except ClusterUnavailable as error:
            last_error = error
    if last_error is not None and not offsets:
        raise last_error
    return offsets
