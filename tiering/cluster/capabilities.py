"""What only some clusters can do beside `tiering.cluster.base`: one small protocol a capability.

Whoever needs one asks with `isinstance` and tells the user plainly when the cluster cannot do it; no cluster implements a method
only to refuse it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

import pyarrow as pa

from tiering.model.assignments import ServiceMode
from tiering.model.leases import KvSnapshot
from tiering.model.tables import BucketKey, Offsets, TableInfo, TablePath


@dataclass(frozen=True)
class SkipRequest:
    """Which record is to be skipped, who says so and why."""

    path: TablePath
    partition_name: str | None
    bucket_id: int
    offset: int
    caller: str
    reason: str | None = None
    dry_run: bool = False


class SkipOutcome(StrEnum):
    """What became of a SkipRequest."""

    SKIPPED = "skipped"
    ALREADY_SKIPPED = "already_skipped"
    WOULD_SKIP = "would_skip"


@dataclass(frozen=True)
class SkippedRecord:
    """The record of a SkipRequest, with its value as text, cut."""

    table_id: int
    value: str
    outcome: SkipOutcome


@runtime_checkable
class RecordSkipping(Protocol):
    """A cluster that can leave records out: the way on for a bucket whose rows cannot take a record of its log."""

    def skip_record(self, request: SkipRequest) -> SkippedRecord:
        """Leaves out the record at which a bucket stands, for good: readers get a change of nothing in its place.

        Durable before it takes effect, and harmless to repeat. Raises UnknownTable, UnknownPartition, InvalidArgument (a log
        table, a bucket that does not stand there), ClusterUnavailable.
        """
        ...


@dataclass(frozen=True)
class StandingRecord:
    """A record at which a bucket stands. `reason`: what is the matter with it, in words; `record_text`: its values."""

    offset: int
    reason: str
    record_text: str


@runtime_checkable
class StandingBuckets(Protocol):
    """A cluster whose buckets may stand at a record; readers get `BucketStopped` for it, other buckets go on."""

    def standing_buckets(self, table_id: int) -> Mapping[BucketKey, StandingRecord]:
        """The buckets of a table that stand; mostly none."""
        ...


@dataclass(frozen=True)
class DroppedPartition:
    """A partition of a lake-enabled table that was dropped. `untiered_records`: its records that the lake lacked then; None = not known."""

    table_id: int
    partition_id: int
    partition_name: str | None
    untiered_records: int | None = None


@runtime_checkable
class DroppedPartitions(Protocol):
    """A cluster that remembers which partitions were dropped until their drop was reported."""

    def dropped_partitions(self) -> Sequence[DroppedPartition]:
        """Returns the partitions whose drop nobody has forgotten, in the order of their ids. Raises ClusterUnavailable."""
        ...

    def forget_dropped_partitions(self, partition_ids: Collection[int]) -> None:
        """Forgets these; harmless to repeat. Raises ClusterUnavailable."""
        ...


@runtime_checkable
class TableOptionSetting(Protocol):
    """A cluster whose table options can be set after the table was made."""

    def set_table_option(self, path: TablePath, name: str, value: str | None, *, dry_run: bool = False) -> TableInfo:
        """Sets one option, or takes it back to its default with None, in one transaction; the table as it is then, or would be.

        Only documented options, checked as when a table is made. The lake format is refused once the cluster has recorded a lake
        snapshot of the table; whether a lake table exists before that is known to the coordinator alone, which refuses by itself.
        Harmless to repeat.
        Raises UnknownTable, UnknownDatabase, InvalidArgument (names the option), BadRequest (the lake cannot hold the table).
        """
        ...


@runtime_checkable
class KvSnapshotsOnDemand(Protocol):
    """A cluster that takes KV snapshots when it is asked to, and not only by its own interval."""

    def take_kv_snapshots(self, path: TablePath) -> Mapping[BucketKey, KvSnapshot]:
        """Takes a KV snapshot of each bucket that changed since its last one; the newest of every bucket that has one.

        Raises UnknownTable, InvalidArgument (a log table), ClusterUnavailable.
        """
        ...


@runtime_checkable
class LakeCommitCleanUp(Protocol):
    """A cluster in which `ClusterOwner.prepare_lake_commit` leaves something behind."""

    def clean_up_lake_commits(self, table: TableInfo, newest_snapshot_id: int, snapshots: Mapping[int, str]) -> None:
        """Removes what was left for commits that came before the newest tiering snapshot, which is ours and which the cluster has.

        `snapshots` has the paths that snapshots of the lake name in their summary. Harmless to repeat; what cannot be removed is
        tried again after the next commit. Call it under the table's lock. Raises nothing that the commit would have to hear of.
        """
        ...


@runtime_checkable
class CountingReader(Protocol):
    """A `SplitReader` that tells how many bytes it reads."""

    def read_counted(self, count: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
        """As `SplitReader.read`; before a batch is yielded, `count` gets the bytes of log and snapshot files that were read for it."""
        ...


def uncounted(size_bytes: int) -> None:
    """For `CountingReader.read_counted` where nobody wants to know."""


@runtime_checkable
class ServiceModes(Protocol):
    """A cluster whose tables another tiering service may tier, too. Both views of it have this, the coordinator's and a tierer's."""

    @property
    def service_mode(self) -> ServiceMode:
        """What this deployment was told of other services."""
        ...


@runtime_checkable
class RewritableLogs(Protocol):
    """A cluster that may lose the end of a log and use its offsets again, and knows a log for a moment wrongly when its leader moved."""

    def record_traces(self, table: TableInfo, offsets: Offsets) -> Mapping[BucketKey, str]:
        """By bucket, a text that tells the last record below the offset from any other that ever stands there.

        Buckets whose log does not hold that record are left out. Raises ClusterUnavailable for one that cannot be read now.
        """
        ...

    def settle(self, table: TableInfo) -> None:
        """Returns when another look at the table's log is worth it: leaders are looked up anew."""
        ...


@runtime_checkable
class LogRetention(Protocol):
    """A cluster that removes old records from its logs by itself, of a lake-enabled table those that the lake has."""

    def ask_before_cut(self, lake_is_confirmed: Callable[[int], bool]) -> None:
        """From now on, records of a lake-enabled table are removed only while `lake_is_confirmed(table_id)` is true.

        The cluster's own record of the lake says what was tiered, and not whether the lake table still has it.
        """
        ...


def service_mode_of(cluster: object) -> ServiceMode:
    """EXCLUSIVE for a cluster that has no other services."""
    return cluster.service_mode if isinstance(cluster, ServiceModes) else ServiceMode.EXCLUSIVE
