"""Splits, the units of reading in a round, with their progress; and the backlog, which is read for throughput instead of freshness.

The backlog is the records that the log held when reading began (FLIP-309). Per bucket it ends at the `backlog_offset`, which was the
bucket's end offset at that time; the bucket's splits carry it. Flink's proposal, and Fluss's source after it (issue 2509), report its end
once per bucket with a `BacklogFinishEvent`. Lakeward's event is `BACKLOG_FINISH`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from tiering.model.declare import INT, column
from tiering.model.tables import BucketKey, Offsets, TablePath


class SplitType(StrEnum):
    """The source that a split reads (docs/reference.md, `tiering_splits.split_type`)."""

    LOG = "LOG"
    SNAPSHOT = "SNAPSHOT"


@dataclass(frozen=True)
class TieringLogSplit:
    """One unit of reading: records `[starting_offset, stopping_offset)` of one bucket's log."""

    table_path: TablePath
    bucket: BucketKey
    partition_name: str | None
    starting_offset: int
    stopping_offset: int
    backlog_offset: int | None
    """The bucket's end offset when reading of it began; None = the bucket has no backlog, or has finished it."""

    @property
    def records(self) -> int:
        return self.stopping_offset - self.starting_offset

    @property
    def split_id(self) -> str:
        """Returns an id within the round. A repeated plan of the round gives the same id."""
        return f"log-{self.bucket}-{self.starting_offset}"


@dataclass(frozen=True)
class TieringSnapshotSplit:
    """One unit of reading: a whole KV snapshot of one primary-key bucket, which holds the table's rows as of a log offset."""

    table_path: TablePath
    bucket: BucketKey
    partition_name: str | None
    snapshot_id: int
    log_offset_of_snapshot: int
    backlog_offset: int | None
    """The bucket's end offset when reading of it began, as in a log split. The snapshot alone may reach it."""

    @property
    def split_id(self) -> str:
        """Returns an id within the round. A repeated plan of the round gives the same id."""
        return f"snapshot-{self.bucket}-{self.snapshot_id}"


TieringSplit = TieringLogSplit | TieringSnapshotSplit


class BacklogCause(StrEnum):
    """Why reading of buckets begins, or begins again."""

    FIRST = "FIRST"
    """The coordinator has not seen this table before, or the table was recreated."""
    ENABLED = "ENABLED"
    """The table's lake was enabled again."""
    RETIERED = "RETIERED"
    """The lake table was set back to an older state and then reconciled."""
    OUTAGE = "OUTAGE"
    """The table was not tiered for a long time, and rows wait."""


@dataclass(frozen=True)
class BacklogStart:
    """A start that waits for the next plan. `buckets` are the affected ones as text; None = all buckets that the plan reads."""

    cause: BacklogCause
    time: datetime
    buckets: tuple[str, ...] | None = None

    def touches(self, bucket: str) -> bool:
        """Returns whether the backlog of this bucket starts again."""
        return self.buckets is None or bucket in self.buckets


@dataclass(frozen=True)
class AssignedBacklog:
    """The backlog of a table in the assignment of a round.

    `offsets`: the end of the backlog per bucket whose reading began earlier. `begins`: reading begins with this round, for the buckets in
    `touched`; None = for all buckets.
    """

    offsets: Offsets = field(default_factory=dict)
    begins: bool = False
    touched: frozenset[BucketKey] | None = None

    def offset_of(self, bucket: BucketKey, log_end: int) -> int | None:
        """Returns the `backlog_offset` of a bucket whose log now ends at `log_end`; None = the bucket has no backlog."""
        if self.begins and (self.touched is None or bucket in self.touched):
            return log_end
        return self.offsets.get(bucket)


class SplitState(StrEnum):
    """States of a split of a running round (docs/reference.md, `tiering_splits.state`), in the order in which one attempt enters them.

    FAILED: this attempt failed; another one may follow. STOPPED: its task ended early, and a later round continues there.
    """

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    DONE = "DONE"

    @property
    def is_final(self) -> bool:
        """Returns whether the attempt is over."""
        return self not in (SplitState.QUEUED, SplitState.RUNNING)


_ORDER = {state: number for number, state in enumerate(SplitState)}


@dataclass(frozen=True, slots=True)
class SplitPosition:
    """The progress of one attempt at a split. Attempts count from 0, as in Spark.

    `current_offset` is the next offset of the log to read. It is None if the attempt has not begun, or reads a KV snapshot, whose rows have
    no offsets. `records` counts the records that the attempt has read.
    """

    state: SplitState = SplitState.QUEUED
    attempt: int = 0
    executor: str | None = None
    current_offset: int | None = None
    records: int = 0

    def then(self, report: SplitPosition) -> SplitPosition:
        """Returns the position after a report, which may be late or repeated. An older attempt changes nothing, and no number decreases."""
        if report.attempt != self.attempt:
            return report if report.attempt > self.attempt else self
        offsets = [offset for offset in (self.current_offset, report.current_offset) if offset is not None]
        return SplitPosition(
            max(self.state, report.state, key=_ORDER.__getitem__),
            self.attempt,
            report.executor or self.executor,
            max(offsets, default=None),
            max(self.records, report.records),
        )


@dataclass(frozen=True, slots=True)
class SplitProgress:
    """A split of a running round, with its progress."""

    split: TieringSplit
    position: SplitPosition

    @property
    def current_offset(self) -> int | None:
        """Returns the next offset of the log to read; None for a KV snapshot."""
        if isinstance(self.split, TieringSnapshotSplit):
            return None
        if self.position.state is SplitState.DONE:
            return self.split.stopping_offset
        current = self.position.current_offset
        return self.split.starting_offset if current is None else current

    @property
    def fraction(self) -> float:
        """Returns the part that was read, between 0 and 1.

        For a KV snapshot it is a lower bound, because it may have fewer rows than offsets.
        """
        if self.position.state is SplitState.DONE:
            return 1.0
        if isinstance(self.split, TieringSnapshotSplit):
            done, total = self.position.records, self.split.log_offset_of_snapshot
        else:
            done, total = (self.current_offset or 0) - self.split.starting_offset, self.split.records
        return min(max(done / total, 0.0), 1.0) if total > 0 else 0.0


@dataclass(frozen=True)
class SplitStatus:
    """A split of a running round, as `sys.tiering_splits` shows it."""

    round_id: str = column("The running round.")
    split_id: str = column("Identifies the split within its round.")
    split_type: SplitType = column("LOG: a range of a bucket's log; SNAPSHOT: a whole KV snapshot of a primary-key bucket.")
    database_name: str = column("Database of the table.")
    table_name: str = column("Name of the table.")
    partition_name: str | None = column("Name of the partition; NULL in a table without partitions.")
    bucket_id: int = column("The bucket.", arrow_type=INT)
    snapshot_id: int | None = column("The KV snapshot that is read; NULL for a range of the log.")
    starting_offset: int | None = column("First offset to read; NULL for a KV snapshot.")
    stopping_offset: int = column("End of the range, exclusive. A KV snapshot has the bucket's state at this offset.")
    current_offset: int | None = column("The next offset to read, as last reported; NULL for a KV snapshot, whose rows have none.")
    backlog_offset: int | None = column("End of the bucket's log when reading of the bucket began; NULL if it has no backlog (left).")
    fraction_completed: float = column("The completed part, between 0 and 1; for a KV snapshot a lower bound.")
    executor: str | None = column("The executor that reads it, as id@host, with Spark's id; NULL before it is read.")
    attempt: int = column("Number of the attempt, from 0: Spark retries a failed task.", arrow_type=INT)
    state: SplitState = column("QUEUED, RUNNING, DONE; STOPPED: ended early, and a later round continues; FAILED: this attempt failed.")
