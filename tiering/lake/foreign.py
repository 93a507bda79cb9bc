"""The commits of another tiering service to a lake table: what its snapshots added, and where each bucket ends. Plain values.

The other service is Fluss's own tiering (Flink). Its commits are not fenced. So the offsets of the rows that it added count, and not
what it states. In a lake table of a clean layout, rows carry no offsets: there the rows must be those of the log
(`tiering.lake.proof.change_sums`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tiering.errors import PermanentTieringError
from tiering.lake.log_starts import LogStart
from tiering.lake.marker import TieredRange
from tiering.lake.proof.change_sums import ChangeSums
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey

LogRows = Callable[[BucketKey, int, int], bool | None]
"""Whether a bucket's log has rows in `[start, stop)`. None = it shows none, but begins above `start`, so it cannot tell."""

LogSums = Callable[[BucketKey, int, int], ChangeSums | None]
"""The sums of a bucket's log in `[start, stop)`, read when called. None = the log does not hold all of the range (any more)."""


@dataclass(frozen=True)
class AddedRows:
    """The offsets of the rows that one snapshot added to one bucket: `[begin, end)`, from the lowest to behind the highest one.

    In a primary-key table, rows of equality-delete files count too: they hold whole old rows with the offset of their change. A `begin`
    of -1 means that rows of a KV snapshot are among them. `records` counts the rows of data files. `newest_ms` is the highest commit time
    of the rows, in milliseconds since 1970-01-01 UTC. None = not read, as in a table without partitions.
    """

    begin: int
    end: int
    records: int
    newest_ms: int | None = None

    def with_more(self, more: AddedRows) -> AddedRows:
        """Returns these rows together with `more` rows of the same snapshot and bucket."""
        newest = None if self.newest_ms is None or more.newest_ms is None else max(self.newest_ms, more.newest_ms)
        return AddedRows(min(self.begin, more.begin), max(self.end, more.end), self.records + more.records, newest)


@dataclass(frozen=True)
class ForeignSnapshot:
    """A tiering snapshot of the other service. `is_rewrite`: it replaced files and added no new row.

    `offsets` are those that the snapshot states (`fluss-offsets`). They are empty if the file of offsets is gone, and also if it cannot be
    read now: then `unread` says why. `has_clean_rows`: it added rows without offsets, so `added` is empty. `clean_partitions` are the ids
    of the living partitions under whose names these rows are. `has_dropped_rows`: it added rows of partitions that were dropped since;
    no log holds these rows any more.
    """

    snapshot_id: int
    added: Mapping[BucketKey, AddedRows] = field(default_factory=dict)
    offsets: Mapping[BucketKey, int] = field(default_factory=dict)
    is_rewrite: bool = False
    has_clean_rows: bool = False
    unread: str = ""
    has_dropped_rows: bool = False
    clean_partitions: frozenset[int] = frozenset()

    @property
    def adds_rows(self) -> bool:
        """Whether the snapshot changed what readers see."""
        return not self.is_rewrite and (bool(self.added) or self.has_clean_rows)


@dataclass(frozen=True)
class CleanRows:
    """The sums of rows of one scope of a clean lake table. A scope is a bucket. With `bucket_id` None it is all buckets of a partition,
    which share files.

    The rows are those that some snapshots of the other service added together, or those that are live at the head. `complaint` names
    an action that no round of that service does; empty if there is none.
    """

    partition_id: int | None
    bucket_id: int | None
    sums: ChangeSums
    complaint: str = ""

    def has(self, bucket: BucketKey) -> bool:
        """Whether rows of the bucket belong to the scope."""
        return bucket.partition_id == self.partition_id and self.bucket_id in (None, bucket.bucket_id)


SnapshotReader = Callable[[int], ForeignSnapshot]
"""Returns what the foreign tiering snapshot with this id added."""
CleanRowsReader = Callable[[Sequence[int], Collection[int]], Sequence[CleanRows]]
"""Returns what several snapshots added together to a table of a clean layout. The arguments are the snapshot ids, oldest first, and, for
a partitioned table, the ids of the partitions."""
LogStartReader = Callable[[BucketKey], LogStart]
"""Returns where the log of a bucket of a living partition begins."""


def _began_before_all(bucket: BucketKey) -> LogStart:
    """Returns the begin of a log in a table without partitions: all rows are its own."""
    return LogStart(0, 0)


@dataclass(frozen=True)
class ForeignReaders:
    """The functions that read lake and log for a walk over another service's commits.

    `living` returns the ids of the existing partitions. `has_before_images`: the log has a `-U` before each `+U`. It is False with
    `table.changelog.image` = WAL.
    """

    snapshot: SnapshotReader
    clean_rows: CleanRowsReader
    log_rows: LogRows
    log_sums: LogSums
    living: Callable[[], Collection[int]] = tuple
    log_begin: LogStartReader = _began_before_all
    has_before_images: bool = True


@dataclass(frozen=True)
class SharedRecords:
    """The records of a lake table that another service tiers too.

    `own` is the coordinator's copy from the time when it recorded `passed_head`. `own_round` is the round of the marker at that time.
    `moved_back` are the buckets whose end in `own` was moved back. `cluster` is the cluster's copy. `is_readable` is False if the
    cluster's file of offsets is gone.
    """

    own: RecordedLakeSnapshot | None = None
    own_round: str | None = None
    moved_back: frozenset[BucketKey] = frozenset()
    cluster: RecordedLakeSnapshot | None = None
    is_readable: bool = True


@dataclass(frozen=True)
class ForeignWalk:
    """The state of a lake table after all commits of the other service since Lakeward's newest tiering commit.

    `ranges`: per bucket what is tiered; the next round continues at the end. `moved_back`: primary-key buckets that the next round replays
    from there, or, without a range, from a KV snapshot. Only a commit of Lakeward's ends that.
    `newest` is the newest tiering snapshot of the branch, of either service. `newest_added` is the newest foreign one that added rows.
    `needs_commit`: only a new snapshot of Lakeward's corrects the cluster's record. `needs_notification`: the coordinator
    corrects it by notifying the cluster of Lakeward's newest snapshot.
    `problem`: no round may build on the table. `ranges` are then set only if the rows are right and merely a record is wrong.
    """

    ranges: Mapping[BucketKey, TieredRange]
    newest: int | None = None
    newest_added: int | None = None
    moved_back: frozenset[BucketKey] = frozenset()
    needs_commit: bool = False
    needs_notification: bool = False
    problem: PermanentTieringError | None = None

    @property
    def ends(self) -> dict[BucketKey, int]:
        """Per bucket the next offset to tier."""
        return {bucket: tiered.tiered for bucket, tiered in self.ranges.items()}
