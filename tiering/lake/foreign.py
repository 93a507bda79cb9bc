"""What another tiering service did to a lake table: what its snapshots added, and where that leaves each bucket. Plain values.

The other service is Fluss's own tiering (Flink). Its commits are not fenced, so what counts is the offsets of the rows that it added, or,
in a lake table of a clean layout, whose rows have none, that they are those of the log (`tiering.lake.proof.change_sums`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tiering.errors import PermanentTieringError
from tiering.lake.log_begins import LogBegin
from tiering.lake.marker import TieredRange
from tiering.lake.proof.change_sums import ChangeSums
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey

LogRows = Callable[[BucketKey, int, int], bool | None]
"""Whether a bucket's log has rows in `[start, stop)`. None = it shows none, but begins above `start`: it cannot tell."""

LogSums = Callable[[BucketKey, int, int], ChangeSums | None]
"""The sums of a bucket's log in `[start, stop)`, read for this. None = the log does not hold all of it, or not any more."""


@dataclass(frozen=True)
class AddedRows:
    """Offsets of what one snapshot added to one bucket: `[begin, end)` from the lowest and the highest of them.

    Of a primary-key table rows of equality-delete files count, too: they hold whole old rows with the offset of their change. A `begin`
    of -1: rows of a KV snapshot are among them. `records` counts the rows of data files. `newest_ms` is the highest commit time of the
    rows, in milliseconds since 1970-01-01 UTC; None = not read, as in a table without partitions.
    """

    begin: int
    end: int
    records: int
    newest_ms: int | None = None

    def with_more(self, more: AddedRows) -> AddedRows:
        """These rows and others of the same snapshot and bucket."""
        newest = None if self.newest_ms is None or more.newest_ms is None else max(self.newest_ms, more.newest_ms)
        return AddedRows(min(self.begin, more.begin), max(self.end, more.end), self.records + more.records, newest)


@dataclass(frozen=True)
class ForeignSnapshot:
    """A tiering snapshot of the other service. `is_rewrite`: it replaced files and added no row that was not there.

    `offsets` are those that it says (`fluss-offsets`); empty if they cannot be read any more, or, with `unread` telling why, cannot be read
    now. `has_clean_rows`: it added rows that tell no offsets, so that `added` is empty; `clean_partitions` are the ids of the living
    partitions under whose names they stand. `has_dropped_rows`: it added rows of partitions that were dropped since, which no log holds
    any more.
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
        """Whether it changed what readers see."""
        return not self.is_rewrite and (bool(self.added) or self.has_clean_rows)


@dataclass(frozen=True)
class CleanRows:
    """Rows of one scope of a clean lake table: a bucket, or, with `bucket_id` None, all buckets of a partition, which share its files.

    They are those that some snapshots of the other service added together, or those that stand at the head. `complaint`: what no round
    of that service does; empty = nothing.
    """

    partition_id: int | None
    bucket_id: int | None
    sums: ChangeSums
    complaint: str = ""

    def has(self, bucket: BucketKey) -> bool:
        """Whether rows of the bucket belong to it."""
        return bucket.partition_id == self.partition_id and self.bucket_id in (None, bucket.bucket_id)


SnapshotReader = Callable[[int], ForeignSnapshot]
"""What a foreign tiering snapshot added, by its id."""
CleanRowsReader = Callable[[Sequence[int], Collection[int]], Sequence[CleanRows]]
"""What several snapshots, by their ids, oldest first, added together to a table of a clean layout; of a partitioned table to the partitions
with these ids."""
LogBeginReader = Callable[[BucketKey], LogBegin]
"""Where the log of a bucket of a living partition begins."""


def _began_before_all(bucket: BucketKey) -> LogBegin:
    """The begin of a log in a table without partitions: all rows are its own."""
    return LogBegin(0, 0)


@dataclass(frozen=True)
class ForeignReaders:
    """How lake and log are looked at for a walk of another service's commits.

    `living` returns the ids of the partitions that there are. `has_before_images`: the log has a `-U` before each `+U`; False with
    `table.changelog.image` = WAL.
    """

    snapshot: SnapshotReader
    clean_rows: CleanRowsReader
    log_rows: LogRows
    log_sums: LogSums
    living: Callable[[], Collection[int]] = tuple
    log_begin: LogBeginReader = _began_before_all
    has_before_images: bool = True


@dataclass(frozen=True)
class SharedRecords:
    """Who remembers what of a lake table that another service tiers, too.

    `own` is the coordinator's copy, of the time when it recorded `passed_head`; `own_round` the round whose marker counted then;
    `moved_back` the buckets whose end in `own` was moved back. `cluster` is the cluster's copy;
    `is_readable` False: its file of offsets is gone.
    """

    own: RecordedLakeSnapshot | None = None
    own_round: str | None = None
    moved_back: frozenset[BucketKey] = frozenset()
    cluster: RecordedLakeSnapshot | None = None
    is_readable: bool = True


@dataclass(frozen=True)
class ForeignWalk:
    """Where a lake table stands after all that the other service committed since the newest tiering commit of ours.

    `ranges`: where each bucket goes on. `moved_back`: primary-key buckets that are replayed from there, or, without a range, from a KV
    snapshot; only a commit of ours ends that.
    `newest` is the newest tiering snapshot of the branch, whoever made it, `newest_added` the newest foreign one that added rows.
    `needs_commit`: only a new snapshot of ours makes the cluster's record right. `needs_telling`: telling it our newest one does.
    `problem`: nothing may be built on the table; `ranges` are then there only if the rows are right and no more than a record is wrong.
    """

    ranges: Mapping[BucketKey, TieredRange]
    newest: int | None = None
    newest_added: int | None = None
    moved_back: frozenset[BucketKey] = frozenset()
    needs_commit: bool = False
    needs_telling: bool = False
    problem: PermanentTieringError | None = None

    @property
    def ends(self) -> dict[BucketKey, int]:
        """Per bucket the next offset to tier."""
        return {bucket: tiered.tiered for bucket, tiered in self.ranges.items()}
