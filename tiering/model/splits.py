"""Splits: units of reading in a round, and how far it is with each; and the backlog, which is read for throughput, not for freshness.

The backlog is what was in the log already when reading began (FLIP-309). Per bucket it ends at the `backlog_offset`, the bucket's end
offset then, which its splits carry. Flink's proposal, and Fluss's source after it (issue 2509), report the end of it once per bucket with a
`BacklogFinishEvent`; here that is the event `BACKLOG_FINISH`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from tiering.model.tables import BucketKey, Offsets, TablePath


class SplitType(StrEnum):
    """What a split reads (docs/reference.md, `tiering_splits.split_type`)."""

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
    """The bucket's end offset when reading of it began; None = it has no backlog (left)."""

    @property
    def records(self) -> int:
        return self.stopping_offset - self.starting_offset

    @property
    def split_id(self) -> str:
        """Names it within its round, whenever that is planned again."""
        return f"log-{self.bucket}-{self.starting_offset}"


@dataclass(frozen=True)
class TieringSnapshotSplit:
    """One unit of reading: a whole KV snapshot of one primary-key bucket, which holds the table as of a log offset."""

    table_path: TablePath
    bucket: BucketKey
    partition_name: str | None
    snapshot_id: int
    log_offset_of_snapshot: int
    backlog_offset: int | None
    """As that of a log split. The snapshot may be all that there is to read up to it."""

    @property
    def split_id(self) -> str:
        """Names it within its round, whenever that is planned again."""
        return f"snapshot-{self.bucket}-{self.snapshot_id}"


TieringSplit = TieringLogSplit | TieringSnapshotSplit


class BacklogCause(StrEnum):
    """Why reading of buckets begins, or begins anew."""

    FIRST = "FIRST"
    """The table is new here, or made anew."""
    ENABLED = "ENABLED"
    """Its lake was enabled again."""
    RETIERED = "RETIERED"
    """Its lake went back, and was reconciled."""
    OUTAGE = "OUTAGE"
    """It was not tiered for long, and rows wait."""


@dataclass(frozen=True)
class BacklogStart:
    """A start that waits for the next plan. `buckets`: those that it touches, by their text; None = all that the plan reads."""

    cause: BacklogCause
    time: datetime
    buckets: tuple[str, ...] | None = None

    def touches(self, bucket: str) -> bool:
        """Whether the backlog of this bucket starts with it."""
        return self.buckets is None or bucket in self.buckets


@dataclass(frozen=True)
class AssignedBacklog:
    """What a round is told of its table's backlog.

    `offsets`: where it ends, of buckets that are read already. `begins`: reading of buckets begins with this round: of those in
    `touched`, or of all (None).
    """

    offsets: Offsets = field(default_factory=dict)
    begins: bool = False
    touched: frozenset[BucketKey] | None = None

    def offset_of(self, bucket: BucketKey, log_end: int) -> int | None:
        """The `backlog_offset` of a bucket whose log ends there now; None = it is read live."""
        if self.begins and (self.touched is None or bucket in self.touched):
            return log_end
        return self.offsets.get(bucket)


class SplitState(StrEnum):
    """States of a split of a running round (reference.md, `tiering_splits.state`), in the order in which one attempt goes through them.

    FAILED: this attempt did; another one may follow. STOPPED: its task ended early, and a later round goes on from there.
    """

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    DONE = "DONE"

    @property
    def is_final(self) -> bool:
        """Whether the attempt is over."""
        return self not in (SplitState.QUEUED, SplitState.RUNNING)


_ORDER = {state: number for number, state in enumerate(SplitState)}


@dataclass(frozen=True, slots=True)
class SplitPosition:
    """How far one attempt at a split is. Attempts are counted from 0, as Spark counts them.

    `current_offset` is the next offset of the log to be read; None = not begun, or within a KV snapshot, whose rows have no offsets.
    `records` counts what the attempt has read.
    """

    state: SplitState = SplitState.QUEUED
    attempt: int = 0
    executor: str | None = None
    current_offset: int | None = None
    records: int = 0

    def then(self, report: SplitPosition) -> SplitPosition:
        """The position after a report, which may be late or a repeat: an older attempt changes nothing, and no figure of one goes back."""
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
    """A split of a running round, and how far it is."""

    split: TieringSplit
    position: SplitPosition

    @property
    def current_offset(self) -> int | None:
        """The next offset of the log to be read; None for a KV snapshot."""
        if isinstance(self.split, TieringSnapshotSplit):
            return None
        if self.position.state is SplitState.DONE:
            return self.split.stopping_offset
        current = self.position.current_offset
        return self.split.starting_offset if current is None else current

    @property
    def fraction(self) -> float:
        """The part that is read, between 0 and 1; of a KV snapshot, which may have fewer rows than offsets, at least this part."""
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

    round_id: str
    split_id: str
    split_type: SplitType
    database_name: str
    table_name: str
    partition_name: str | None
    bucket_id: int
    snapshot_id: int | None
    starting_offset: int | None
    stopping_offset: int
    current_offset: int | None
    backlog_offset: int | None
    fraction_completed: float
    executor: str | None
    attempt: int
    state: SplitState
