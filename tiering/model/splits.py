"""Splits: units of reading in a round."""

from __future__ import annotations

from dataclasses import dataclass

from tiering.model.tables import BucketKey, TablePath


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


@dataclass(frozen=True)
class TieringSnapshotSplit:
    """One unit of reading: a whole KV snapshot of one primary-key bucket, which holds the table as of a log offset."""

    table_path: TablePath
    bucket: BucketKey
    partition_name: str | None
    snapshot_id: int
    log_offset_of_snapshot: int
    backlog_offset: int


TieringSplit = TieringLogSplit | TieringSnapshotSplit
