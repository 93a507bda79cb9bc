"""The protocols that every cluster kind of `tiering.cluster.registry` implements, divided by their users.

    TableCatalog   databases, tables, partitions, and the cluster's record of a table's lake copy
    LogOffsets     the first and the end offset of each bucket's log
    SplitSource    for tierers: the two above, KV snapshots, and readers of splits
    ClusterOwner   for the coordinator: a SplitSource that also leases KV snapshots and writes the lake record

Apache Fluss implements TableCatalog with ListDatabases, ListTables, GetTableInfo, ListPartitionInfos and GetLakeSnapshot; LogOffsets with
ListOffsets; SplitSource with GetLatestKvSnapshots, FetchLog and remote files; ClusterOwner with Acquire-, Release- and DropKvSnapshotLease,
PrepareLakeTableSnapshot and CommitLakeTableSnapshot. `tiering.cluster.capabilities` has the protocols of single kinds,
`tiering.cluster.writable` those for writing.

All objects of a driver or of the coordinator are safe to call from several threads. Every call may raise ClusterUnavailable. Only a
`SplitReader` is sent to executors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable

import pyarrow as pa

from tiering.errors import ClusterUnavailable, Fenced, UnknownTable
from tiering.model.leases import KvSnapshot, KvSnapshotLease
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.splits import TieringSplit
from tiering.model.tables import BucketKey, BucketOffsets, Offsets, Partition, TableBucket, TableInfo, TablePath


@runtime_checkable
class SplitReader(Protocol):
    """Reads one split on an executor. Can be pickled; opens nothing before `read`."""

    @property
    def split(self) -> TieringSplit:
        """The split that this object reads."""

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yields the split's rows in offset order, with the columns of `TableInfo.read_schema`.

        A log split yields every record of `[starting_offset, stopping_offset)` exactly once, and none outside of this range. For a
        primary-key table these are the changes, `-U` records included. Offsets without a record are left out: Fluss's batches without
        records use some offsets. If the iteration ends without an error, the whole range was read. A snapshot split yields every row of the
        snapshot as `+I`, with SNAPSHOT_OFFSET for offset and timestamp. Raises DataCorrupt (names file, bucket, offset range),
        LogTruncated, KvSnapshotGone, ClusterUnavailable.
        """


@runtime_checkable
class TableCatalog(Protocol):
    """Lists databases, tables and partitions."""

    @property
    def cluster_id(self) -> str:
        """The id of this cluster, which never changes. Every marker contains it."""

    def databases(self) -> Sequence[str]:
        """Returns the names of all databases, sorted."""

    def tables(self, database_name: str | None = None) -> Sequence[TableInfo]:
        """Returns all tables, or those of one database, sorted by path, as an immutable sequence. Raises UnknownDatabase."""

    def table(self, path: TablePath) -> TableInfo:
        """Returns one table. Raises UnknownTable, UnknownDatabase."""

    def partitions(self, table: TableInfo) -> Sequence[Partition]:
        """Returns the current partitions; none for a table without partition keys. Raises UnknownTable if the table id does not exist any
        more.
        """

    def lake_snapshot(self, table: TableInfo) -> RecordedLakeSnapshot | None:
        """Returns the cluster's record of the table's lake copy, which may be older than the lake; None if nothing is recorded yet."""


@runtime_checkable
class LogOffsets(Protocol):
    """Returns the first and the end offset of each bucket's log."""

    def offsets(self, table: TableInfo) -> Mapping[BucketKey, BucketOffsets]:
        """Returns the current start and end of every bucket's log. Raises UnknownTable if the table id does not exist any more."""

    def offsets_of(self, tables: Sequence[TableInfo]) -> Mapping[int, Mapping[BucketKey, BucketOffsets]]:
        """Returns the same for many tables, by table id, in as few requests as the cluster allows.

        Leaves out tables that do not exist any more, and tables whose log does not answer while others do.
        """

    def oldest_timestamps(self, table: TableInfo, offsets: Offsets) -> Mapping[BucketKey, datetime]:
        """Returns the commit time of the first record at or after each offset; leaves out buckets without such a record."""


@runtime_checkable
class SplitSource(TableCatalog, LogOffsets, Protocol):
    """The cluster as a tierer sees it: everything from which a round is planned and which it reads."""

    def kv_snapshots(self, table: TableInfo) -> Mapping[BucketKey, KvSnapshot]:
        """Returns the newest KV snapshot of each bucket that has one; none for a log table. Raises UnknownTable."""

    def reader(self, table: TableInfo, split: TieringSplit) -> SplitReader:
        """Returns the reader that an executor uses for `split`.

        Raises KvSnapshotGone for a snapshot that does not exist any more, LogTruncated for records that retention removed, InvalidArgument
        for a bucket or a range that the table does not have.
        """

    def close(self) -> None:
        """Releases connections, files and locks. Readers that were returned before stay usable."""


@runtime_checkable
class LeaseListing(Protocol):
    """Lists the leases on KV snapshots."""

    def leases(self) -> Sequence[KvSnapshotLease]:
        """Returns all leases sorted by id, including expired leases that were not removed yet.

        For a cluster that cannot list its leases, such as Fluss, the result is the leases that were acquired through this object.
        """


@runtime_checkable
class KvSnapshotLeases(LeaseListing, Protocol):
    """Acquires, renews and ends leases on KV snapshots."""

    def acquire_lease(
        self, lease_id: str, ttl_ms: int, snapshots: Mapping[TableBucket, int], owner: str | None = None
    ) -> Collection[TableBucket]:
        """Keeps the given snapshots (bucket -> snapshot id) alive for `ttl_ms` from now. Returns the buckets whose snapshot does not exist.

        A second call with the same lease id adds snapshots to the lease and renews all of it; without snapshots it only renews. A bucket
        that was leased under this id before is now leased with the new snapshot. Raises InvalidArgument (lease id, ttl), UnknownLease (a
        lease to be renewed that does not exist any more).
        """

    def release_lease(self, lease_id: str, buckets: Collection[TableBucket]) -> Collection[TableBucket]:
        """Releases single buckets and returns those that were leased. A lease without buckets is deleted."""

    def drop_lease(self, lease_id: str) -> bool:
        """Releases all buckets of a lease. Returns False if the lease did not exist."""


@runtime_checkable
class ClusterOwner(SplitSource, KvSnapshotLeases, Protocol):
    """The cluster as the coordinator sees it.

    Only the coordinator has this object. It writes the lake record while it holds the table's lock (fluss-facts.md H1, H2).
    """

    def prepare_lake_commit(self, table: TableInfo, offsets: Offsets) -> Mapping[str, str]:
        """Returns the properties that the cluster expects in the summary of a lake snapshot that contains the table up to `offsets`; often
        none.

        The coordinator calls this before it grants a commit. What the call leaves in the cluster has no effect until
        `record_lake_snapshot`. So neither a commit that never comes nor a repeated call does harm. The caller checks just before the call
        that the path still has this table's id. Raises UnknownTable.
        """

    def record_lake_snapshot(self, table: TableInfo, snapshot: RecordedLakeSnapshot) -> None:
        """Tells the cluster up to which offsets a lake snapshot contains the table.

        The call may be repeated: an implementation reads the present record before it writes. Raises Fenced if an offset would become
        smaller, UnknownTable.
        """

    def rewind_lake_snapshot(self, table: TableInfo, snapshot: RecordedLakeSnapshot) -> None:
        """Does the same after a user declared the lake right (`reconcile_lake`): offsets may become smaller. Raises UnknownTable."""


@runtime_checkable
class ReadOnlyCluster(SplitSource, LeaseListing, Protocol):
    """A cluster that is read from its folder, while no coordinator runs or beside a running one.

    Each answer shows one moment of the folder. The object writes nothing.
    """


def offsets_one_by_one(cluster: LogOffsets, tables: Sequence[TableInfo]) -> Mapping[int, Mapping[BucketKey, BucketOffsets]]:
    """Implements `LogOffsets.offsets_of` for a cluster that answers about one table per request, as Fluss does (ListOffsets).

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
