"""Splits: units of reading in a round, and how far a running round is with each of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tiering.model.tables import BucketKey, TablePath


class SplitType(StrEnum):
    """What a split reads (SYS.md, `tiering_splits.split_type`)."""

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
    backlog_offset: int
    """The bucket's end offset when the round was planned (FLIP-309)."""

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
    backlog_offset: int

    @property
    def split_id(self) -> str:
        """Names it within its round, whenever that is planned again."""
        return f"snapshot-{self.bucket}-{self.snapshot_id}"


TieringSplit = TieringLogSplit | TieringSnapshotSplit


class SplitState(StrEnum):
    """States of a split of a running round (SYS.md, `tiering_splits.state`), in the order in which one attempt goes through them.

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
    backlog_offset: int
    fraction_completed: float
    executor: str | None
    attempt: int
    state: SplitState
