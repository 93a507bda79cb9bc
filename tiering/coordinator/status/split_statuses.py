"""Progress of a running round's splits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tiering.coordinator.decisions.records import RoundRecord
from tiering.model.splits import SplitProgress, SplitStatus, SplitType, TieringSnapshotSplit


def split_statuses(running: RoundRecord, splits: Iterable[SplitProgress]) -> Iterator[SplitStatus]:
    """Yields one status per split of the round. A KV snapshot has no starting offset: it replaces the log up to its stopping offset."""
    for progress in splits:
        split, position = progress.split, progress.position
        is_snapshot = isinstance(split, TieringSnapshotSplit)
        yield SplitStatus(
            round_id=running.round_id,
            split_id=split.split_id,
            split_type=SplitType.SNAPSHOT if is_snapshot else SplitType.LOG,
            database_name=running.database_name,
            table_name=running.table_name,
            partition_name=split.partition_name,
            bucket_id=split.bucket.bucket_id,
            snapshot_id=split.snapshot_id if isinstance(split, TieringSnapshotSplit) else None,
            starting_offset=None if isinstance(split, TieringSnapshotSplit) else split.starting_offset,
            stopping_offset=split.log_offset_of_snapshot if isinstance(split, TieringSnapshotSplit) else split.stopping_offset,
            current_offset=progress.current_offset,
            backlog_offset=split.backlog_offset,
            fraction_completed=progress.fraction,
            executor=position.executor,
            attempt=position.attempt,
            state=position.state,
        )
