"""Which partition the rows that another tiering service added belong to. Pure.

Rows in a lake name their partition only by its values. The partition may have been dropped and recreated after the service read its
log. One round of that service reads one partition of each name. Its `fluss-offsets` state the end of each partition id that it read,
merged over the ends that the cluster knew. So these rules apply to the rows of one snapshot:

    The statement lacks the living id, or ends before the rows.        They belong to a former partition. They stay, and move no end.
    The statement reaches the rows, and no dropped id moved that far.  They belong to the living partition.
    Neither, for example because Fluss deleted the file.               The commit times of the rows decide (`tiering.lake.log_starts`).
    The log was cut behind the rows, so the times do not decide.       They belong to the living partition, because the cluster cuts only
                                                                       tiered records. If a dropped id moved that far, the owner is
                                                                       unknown.

Where rows count as the living partition's although the log was cut behind them, no record of the log is skipped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tiering.lake.foreign import ForeignSnapshot, LogStartReader
from tiering.lake.log_starts import RowOwner
from tiering.lake.marker import TieredRange
from tiering.model.tables import BucketKey, Offsets


@dataclass(frozen=True)
class Partitions:
    """The living partitions of a table, and the ends that were known when the walk began.

    `known_ends`: the ends at the begin of the walk, also of partitions that were dropped since. `stated`: per bucket the highest end that a
    snapshot of the walk, or the cluster's record, states. `recorded`: the cluster's records of snapshots, by snapshot id.
    """

    living: Collection[int]
    known_ends: Mapping[BucketKey, TieredRange]
    log_begin: LogStartReader
    stated: Offsets = field(default_factory=dict)
    recorded: Mapping[int, Offsets] = field(default_factory=dict)

    def owner(self, snapshot: ForeignSnapshot, bucket: BucketKey) -> RowOwner:
        """Returns the owner of the rows that a snapshot added to the bucket of a living partition."""
        if bucket.partition_id is None:
            return RowOwner.THIS
        added, statement = snapshot.added[bucket], self._statement(snapshot)
        if statement:
            end = statement.get(bucket)
            if end is None or end < added.end:
                return RowOwner.FORMER
            if not self._moved_on(statement, bucket.bucket_id, added.end):
                return RowOwner.THIS
        by_time = RowOwner.UNKNOWN if added.newest_ms is None else self.log_begin(bucket).owner(added.end, added.newest_ms)
        is_suspect = added.begin >= 0 and self._moved_on(self.stated, bucket.bucket_id, added.end)
        return RowOwner.THIS if by_time is RowOwner.UNKNOWN and not is_suspect else by_time

    def may_have_dropped_rows(self, snapshots: Iterable[ForeignSnapshot]) -> bool:
        """Whether the snapshots may have added rows of dropped partitions, which no log holds any more."""
        adding = [snapshot for snapshot in snapshots if snapshot.adds_rows]
        are_ends_stated = bool(self.stated) or not self.living
        return any(snapshot.has_dropped_rows for snapshot in adding) or not are_ends_stated or self._moved_on(self.stated)

    def former_in(self, snapshot: ForeignSnapshot) -> frozenset[int]:
        """Returns the living partitions that a snapshot of a clean layout does not state: rows under their names are former partitions'."""
        stated = {bucket.partition_id for bucket in self._statement(snapshot)}
        return frozenset(self.living).difference(stated) if stated else frozenset()

    def _statement(self, snapshot: ForeignSnapshot) -> Offsets:
        """Returns the offsets that a snapshot states; empty if they cannot be read any more."""
        return snapshot.offsets or self.recorded.get(snapshot.snapshot_id, {})

    def _moved_on(self, statement: Offsets, bucket_id: int | None = None, end: int = 0) -> bool:
        """Whether a dropped partition has rows that were not known at the begin of the walk, up to `end` at least."""
        return any(
            offset >= end and offset > (self.known_ends[bucket].tiered if bucket in self.known_ends else 0)
            for bucket, offset in statement.items()
            if bucket.partition_id is not None and bucket.partition_id not in self.living and bucket_id in (None, bucket.bucket_id)
        )


def in_groups(partitions: Partitions, snapshots: Sequence[ForeignSnapshot]) -> list[tuple[list[int], frozenset[int]]]:
    """Returns groups of snapshot ids of a clean layout whose rows are summed together, each with the partitions to which the sum applies.

    A table without partitions has one group with all snapshots and an empty set of partitions.
    """
    if not partitions.living:
        return [([snapshot.snapshot_id for snapshot in snapshots], frozenset())]
    former = {snapshot.snapshot_id: partitions.former_in(snapshot) for snapshot in snapshots}
    groups: dict[tuple[int, ...], set[int]] = {}
    for partition_id in partitions.living:
        own = tuple(snapshot_id for snapshot_id in former if partition_id not in former[snapshot_id])
        groups.setdefault(own, set()).add(partition_id)
    return [(list(own), frozenset(members)) for own, members in groups.items() if own]
