"""What Lakeward needs of a streaming store. Two faces: `Cluster` on a driver or coordinator, `SplitReader` on executors.

The embedded cluster and Apache Fluss both fit it: databases and tables (ListDatabases, ListTables, GetTableInfo),
partitions (ListPartitionInfos), offsets (ListOffsets), the cluster's own record of the lake (GetLakeSnapshot,
PrepareLakeTableSnapshot + CommitLakeTableSnapshot) and bounded Arrow scans. KV snapshots and leases join with
primary-key tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable

import pyarrow as pa

from tiering.model import BucketKey, BucketOffsets, Offsets, Partition, RecordedLakeSnapshot, TableInfo, TablePath, TieringLogSplit


@runtime_checkable
class SplitReader(Protocol):
    """The executor side: reads one split. Pickles; opens nothing before `read`."""

    @property
    def split(self) -> TieringLogSplit:
        """What it reads."""
        ...

    def read(self) -> Iterator[pa.RecordBatch]:
        """The split's rows in offset order, in the table's lake schema (`TableInfo.lake_schema`).

        Every record of `[starting_offset, stopping_offset)`, each once, and none outside. Raises DataCorrupt
        (names file, bucket, offset range), LogTruncated, ClusterUnavailable.
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
        """All tables, or those of one database, sorted by path. Raises UnknownDatabase."""
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

    def oldest_timestamps(self, table: TableInfo, offsets: Offsets) -> Mapping[BucketKey, datetime]:
        """Commit time of the first record at or after each offset; buckets with none are left out."""
        ...

    def reader(self, table: TableInfo, split: TieringLogSplit) -> SplitReader:
        """How an executor reads `split`."""
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
