"""Protocols for features that only some clusters have, in addition to `tiering.cluster.base`: one small protocol for each feature.

A caller tests for a feature with `isinstance`, and tells the user clearly if the cluster does not have it. No cluster implements a method
only to refuse the call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

import pyarrow as pa

from tiering.cluster.base import SplitReader
from tiering.model.assignments import ServiceMode
from tiering.model.leases import KvSnapshot
from tiering.model.tables import BucketKey, Offsets, TableInfo, TablePath


@dataclass(frozen=True)
class SkipRequest:
    """Which record is to be skipped, with the user who asked for it and the reason."""

    path: TablePath
    partition_name: str | None
    bucket_id: int
    offset: int
    caller: str
    reason: str | None = None
    dry_run: bool = False


class SkipOutcome(StrEnum):
    """The outcome of a SkipRequest."""

    SKIPPED = "skipped"
    ALREADY_SKIPPED = "already_skipped"
    WOULD_SKIP = "would_skip"


@dataclass(frozen=True)
class SkippedRecord:
    """The record of a SkipRequest. `value` is its value as text, shortened."""

    table_id: int
    value: str
    outcome: SkipOutcome


@runtime_checkable
class RecordSkipping(Protocol):
    """A cluster that can skip records, so that a bucket can continue behind a record that cannot be applied to the table's rows."""

    def skip_record(self, request: SkipRequest) -> SkippedRecord:
        """Skips the record at which a bucket is stopped, permanently: readers get an empty change in its place.

        The skip is durable before it takes effect, and may be repeated. Raises UnknownTable, UnknownPartition, InvalidArgument (a log
        table, a bucket that is not stopped at this record), ClusterUnavailable.
        """


@dataclass(frozen=True)
class BlockingRecord:
    """The record at which a bucket is stopped. `reason` describes the problem; `record_text` shows the record's values."""

    offset: int
    reason: str
    record_text: str


@runtime_checkable
class StoppedBuckets(Protocol):
    """A cluster whose buckets can stop at a record. Readers of such a bucket get `BucketStopped`; other buckets continue."""

    def stopped_buckets(self, table_id: int) -> Mapping[BucketKey, BlockingRecord]:
        """Returns the stopped buckets of a table; usually none."""


@dataclass(frozen=True)
class DroppedPartition:
    """A dropped partition of a lake-enabled table.

    `untiered_records` counts its records that were not in the lake at that time; None if the number is unknown.
    """

    table_id: int
    partition_id: int
    partition_name: str | None
    untiered_records: int | None = None


@runtime_checkable
class DroppedPartitions(Protocol):
    """A cluster that remembers dropped partitions until their drop was reported."""

    def dropped_partitions(self) -> Sequence[DroppedPartition]:
        """Returns the dropped partitions that were not forgotten yet, sorted by id. Raises ClusterUnavailable."""

    def forget_dropped_partitions(self, partition_ids: Collection[int]) -> None:
        """Forgets these partitions; may be repeated. Raises ClusterUnavailable."""


@runtime_checkable
class HidingCatalog(Protocol):
    """A cluster that lists only tables that its user may see. So a table that is not listed is not always a dropped one."""

    def hidden_reason(self, table_id: int, path: TablePath) -> str | None:
        """Returns why a table that exists is not listed; None = it was dropped. Raises ClusterUnavailable."""


@runtime_checkable
class TableOptionSetting(Protocol):
    """A cluster in which the options of an existing table can be set."""

    def set_table_option(self, path: TablePath, name: str, value: str | None, *, dry_run: bool = False) -> TableInfo:
        """Sets one option in one transaction, or resets it to its default if `value` is None. Returns the table after the change.

        In a dry run the change is not made. Only documented options are allowed, with the same checks as for a new table. The lake format
        cannot change after the cluster has recorded a lake snapshot of the table. Before that, only the coordinator knows whether a lake
        table exists, and it refuses the change itself. The call may be repeated. Raises UnknownTable, UnknownDatabase, InvalidArgument
        (names the option), BadRequest (the lake cannot hold the table).
        """


@runtime_checkable
class KvSnapshotsOnDemand(Protocol):
    """A cluster that takes KV snapshots on request, and not only at its own interval."""

    def take_kv_snapshots(self, path: TablePath) -> Mapping[BucketKey, KvSnapshot]:
        """Takes a KV snapshot of each bucket that changed since its last one. Returns the newest snapshot of every bucket that has one.

        Raises UnknownTable, InvalidArgument (a log table), ClusterUnavailable.
        """


@runtime_checkable
class LakeCommitCleanUp(Protocol):
    """A cluster in which `ClusterOwner.prepare_lake_commit` leaves files."""

    def clean_up_lake_commits(self, table: TableInfo, newest_snapshot_id: int, snapshots: Mapping[int, str]) -> None:
        """Removes what `prepare_lake_commit` left for commits before the newest tiering snapshot.

        The caller makes sure that this snapshot is Lakeward's and is recorded in the cluster, and holds the table's lock. `snapshots` maps
        ids of lake snapshots to the paths in their summaries. The call may be repeated. The call after the next commit removes what this
        one could not. It raises no error that concerns the commit.
        """


@runtime_checkable
class ResumableReader(Protocol):
    """A reader of a log split that can continue behind a record which it cannot decode."""

    def from_offset(self, offset: int) -> SplitReader:
        """Returns a reader of the split's records from `offset` on, which is within the split. It does no I/O."""


@runtime_checkable
class CountingReader(Protocol):
    """A `SplitReader` that reports how many bytes it reads."""

    def read_counted(self, count: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
        """Yields the same batches as `SplitReader.read`. Before each batch, calls `count` with the bytes of log and snapshot files read for
        it.
        """


@runtime_checkable
class KeyBuckets(Protocol):
    """A cluster whose bucket of a row can be computed from the row's bucket keys."""

    def key_buckets(self, table: TableInfo, keys: pa.RecordBatch) -> Sequence[int] | None:
        """Returns the bucket id of each row of `keys`, whose columns are the bucket keys without nulls; None = the table's formula is
        unknown.
        """


@runtime_checkable
class DenseOffsets(Protocol):
    """A cluster whose logs have a record at each offset, so that offsets count records."""

    def has_dense_offsets(self, table: TableInfo) -> bool:
        """Returns whether this holds for the table."""


@runtime_checkable
class FormerColumns(Protocol):
    """A cluster that keeps the columns that a table had before changes."""

    def columns_at(self, table_id: int, schema_id: int) -> pa.Schema:
        """Returns the columns that the table had with this schema id. Raises UnknownTable, InvalidArgument (an unknown schema id)."""


@runtime_checkable
class ProjectingReader(Protocol):
    """A `SplitReader` that decodes and joins only some columns."""

    def read_columns(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yields the rows of `SplitReader.read` with these columns of `TableInfo.read_schema`, at least one, in this order.

        Raises the errors of `SplitReader.read`.
        """


def read_columns(reader: SplitReader, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of `reader` with these columns of `TableInfo.read_schema`, at least one, in this order."""
    if isinstance(reader, ProjectingReader):
        yield from reader.read_columns(columns)
    else:
        for batch in reader.read():
            yield batch.select(list(columns))


def uncounted(size_bytes: int) -> None:
    """Ignores the number. For `CountingReader.read_counted` where the bytes are not counted."""


@runtime_checkable
class ServiceModes(Protocol):
    """A cluster whose tables another tiering service may tier too. The coordinator's and the tierers' clusters both implement this."""

    @property
    def service_mode(self) -> ServiceMode:
        """The setting that says whether other services tier the cluster's tables."""


@runtime_checkable
class RewritableLogs(Protocol):
    """A cluster that can lose the end of a log and assign its offsets again.

    It may also show a wrong log for a moment after the log's leader moved.
    """

    def record_traces(self, table: TableInfo, offsets: Offsets) -> Mapping[BucketKey, str]:
        """Returns by bucket a text that identifies the last record below the offset among all records that this offset ever has.

        Leaves out buckets whose log does not contain that record. Raises ClusterUnavailable if a bucket cannot be read now.
        """

    def settle(self, table: TableInfo) -> None:
        """Looks up the leaders of the table's buckets again, and returns when it makes sense to read the log again."""


@runtime_checkable
class LogRetention(Protocol):
    """A cluster that removes old records from its logs by itself. In a lake-enabled table it removes records that are in the lake."""

    def ask_before_cut(self, lake_is_confirmed: Callable[[int], bool]) -> None:
        """Makes the cluster remove records of a lake-enabled table only while `lake_is_confirmed(table_id)` is true.

        The cluster's lake record tells what was tiered. It does not tell whether the lake table still contains it.
        """

    def keep_for_reads(self, first_offsets: Callable[[int], Mapping[BucketKey, int] | None]) -> None:
        """Makes the cluster keep the records from `first_offsets(table_id)` on, per bucket, because open reads need them.

        None: it is unknown what open reads need, so no record of the table is removed.
        """


def service_mode_of(cluster: object) -> ServiceMode:
    """Returns the cluster's service mode; EXCLUSIVE for a cluster that cannot have other services."""
    return cluster.service_mode if isinstance(cluster, ServiceModes) else ServiceMode.EXCLUSIVE


@runtime_checkable
class WriterHistory(Protocol):
    """A cluster that can tell what its writers have written."""

    def written_records(self, table_id: int, writer_ids: str) -> int:
        """Returns the number of records in a table's log from all writers whose id begins with `writer_ids`, which ends with '/'.

        Records of dropped partitions count, too. For a primary-key table these are changes, `-U` records included.
        """
