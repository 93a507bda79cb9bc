"""Moves the end of each bucket on over the snapshots of another tiering service, oldest first. Pure.

The commits of that service are not fenced (fluss-facts.md H2): a round that was planned long ago may commit at any time, and the begin and
end that it states may be outdated. So the offsets of the rows that it added decide.

    log table          The rows of a snapshot must begin exactly at the running end. A lower begin doubles rows (ForeignTieringOverlap).
                       A higher begin means missing rows (ForeignTieringGap), unless the log has no rows in between.
    primary-key table  Rows that begin at the running end move it on. All other rows move it back to the lower of the end and their begin.
                       Only a commit of Lakeward's raises it again: the next round replays the bucket from there. It removes every live row
                       of a key before it writes the key's last change. So the replay repairs keys that were set back or doubled.

The offsets that a snapshot states, or that the cluster recorded, move an end only over offsets without rows.

A log without before-images (`table.changelog.image` = WAL) updates keys that the other service does not delete, so they are in the lake
twice. Its rows are therefore replayed too, except those of an empty bucket. Rows of a former partition of a bucket's name (`former_rows`)
do not move the end. In a primary-key table they may set back keys of the living partition, so that partition is replayed from offset 0.
"""

from __future__ import annotations

from collections.abc import Mapping

from tiering.errors import ForeignTieringGap, ForeignTieringOverlap, ForeignTieringUnproved, PermanentTieringError
from tiering.lake.base import LakeView
from tiering.lake.foreign import AddedRows, ForeignReaders, ForeignSnapshot
from tiering.lake.log_starts import RowOwner
from tiering.lake.marker import TieredRange
from tiering.lake.rules.former_rows import Partitions
from tiering.lake.rules.hints import keeping_table_hint, new_table_hint, reconcile_call
from tiering.model.tables import BucketKey, TableType


class RunningEnds:
    """The running end of every bucket.

    `take` raises ForeignTieringUnproved for rows of an unknown partition. For a log table it also raises ForeignTieringOverlap and
    ForeignTieringGap.
    """

    def __init__(
        self,
        view: LakeView,
        table_type: TableType,
        ranges: Mapping[BucketKey, TieredRange],
        moved_back: frozenset[BucketKey],
        readers: ForeignReaders,
        partitions: Partitions,
        *,
        may_hold_former: bool = False,
    ) -> None:
        self._view = view
        self._partitions = partitions
        self._has_before_images = readers.has_before_images
        self._is_log = table_type is TableType.LOG
        self.ranges = dict(ranges)
        self.moved_back = set(moved_back)
        self.left_out = {bucket for bucket in moved_back if bucket not in ranges}
        """Buckets whose rows tell no end. They begin again with a KV snapshot, which replaces these rows."""
        self._may_hold_former = may_hold_former
        self._former: set[BucketKey] = set()
        """Buckets for which the walk met rows of a former partition of the same name."""
        self._log_rows = readers.log_rows

    def take(self, snapshot: ForeignSnapshot, stated: Mapping[BucketKey, int]) -> None:
        """Moves the ends on behind `snapshot`. `stated`: the end of rows from a KV snapshot, which carry no offsets."""
        if not snapshot.is_rewrite:
            for bucket in sorted(snapshot.added, key=BucketKey.sort_key):
                if self._is_of_former(snapshot, bucket):
                    self._pass_former(bucket)
                elif self._is_log:
                    self._take_rows(snapshot.snapshot_id, bucket, snapshot.added[bucket])
                else:
                    self._take_changes(bucket, snapshot.added[bucket], {**stated, **snapshot.offsets}.get(bucket))
        self.pass_row_less(snapshot.offsets)

    def pass_row_less(self, offsets: Mapping[BucketKey, int]) -> dict[BucketKey, int]:
        """Moves ends on over offsets without rows. Returns the stated offsets that stay ahead because the lake lacks rows of the log."""
        beyond: dict[BucketKey, int] = {}
        for bucket in sorted(offsets, key=BucketKey.sort_key):
            tiered = self.ranges.get(bucket, TieredRange(0, 0))
            if bucket in self.moved_back or bucket in self.left_out or offsets[bucket] <= tiered.tiered:
                continue
            rows = self._log_rows(bucket, tiered.tiered, offsets[bucket])
            if rows is False:
                self.ranges[bucket] = TieredRange(tiered.start, offsets[bucket])
            elif rows:
                beyond[bucket] = offsets[bucket]
        return beyond

    def _is_of_former(self, snapshot: ForeignSnapshot, bucket: BucketKey) -> bool:
        """Whether a former partition wrote the snapshot's rows in the bucket. Raises ForeignTieringUnproved if that is unknown."""
        owner = self._partitions.owner(snapshot, bucket)
        if owner is RowOwner.UNKNOWN:
            raise self._unknown_partition(snapshot.snapshot_id, bucket, snapshot.added[bucket])
        return owner is RowOwner.FORMER

    def _pass_former(self, bucket: BucketKey) -> None:
        if self._is_log:
            return
        self._former.add(bucket)
        if bucket in self.left_out:
            raise self._only_copy(bucket)
        if bucket in self.ranges:
            self._replay(bucket)

    def _replay(self, bucket: BucketKey) -> None:
        self.moved_back.add(bucket)
        self.ranges[bucket] = TieredRange(0, 0)

    def _begin_anew(self, bucket: BucketKey) -> None:
        """Lets the bucket begin again.

        A partition's bucket replays its whole log, because that removes no row of a former partition. If the log was cut, or the table has
        no partitions, the bucket begins with a KV snapshot, which replaces all rows. Raises ForeignTieringUnproved if that could remove
        the only copy of a former partition's rows.
        """
        if bucket.partition_id is None:
            self.left_out.add(bucket)
        elif self._partitions.log_begin(bucket).offset == 0:
            self._replay(bucket)
        elif self._may_hold_former or bucket in self._former:
            raise self._only_copy(bucket)
        else:
            self.left_out.add(bucket)

    def _take_rows(self, snapshot_id: int, bucket: BucketKey, added: AddedRows) -> None:
        reached = self.ranges.get(bucket)
        if reached is None:
            reached = self._first(bucket, added)
        if added.begin < reached.tiered:
            raise self._overlap(snapshot_id, bucket, added.begin, min(added.end, reached.tiered))
        if added.begin > reached.tiered and self._log_rows(bucket, reached.tiered, added.begin) is not False:
            raise self._gap(snapshot_id, bucket, reached.tiered, added.begin)
        if added.records > added.end - added.begin:
            raise self._overlap(snapshot_id, bucket, added.begin, added.end)
        self.ranges[bucket] = TieredRange(reached.start, max(added.end, reached.tiered))

    def _first(self, bucket: BucketKey, added: AddedRows) -> TieredRange:
        """Returns the begin of a bucket that was never tiered: offset 0, or the first row if the log was cut below it."""
        began = added.begin if self._log_rows(bucket, 0, added.begin) is None else 0
        return TieredRange(began, began)

    def _take_changes(self, bucket: BucketKey, added: AddedRows, stated: int | None) -> None:
        if bucket in self.left_out:
            return
        reached = self.ranges.get(bucket)
        if reached is None:
            if added.begin < 0:
                self._take_kv_snapshot(bucket, added, stated)
                return
            if added.begin > 0 and self._log_rows(bucket, 0, added.begin) is None:
                self._begin_anew(bucket)  # no log has the changes before `added`; only a KV snapshot has them
                return
            reached = TieredRange(0, 0)
        fits = added.begin == reached.tiered or (
            added.begin > reached.tiered and self._log_rows(bucket, reached.tiered, added.begin) is False
        )
        is_deleted = self._has_before_images or reached.tiered == 0  # the bucket was empty, or the deletes name all replaced rows
        if fits and is_deleted and bucket not in self.moved_back:
            self.ranges[bucket] = TieredRange(reached.start, max(added.end, reached.tiered))
            return
        back = max(0, min(reached.tiered, added.begin))
        self.moved_back.add(bucket)
        self.ranges[bucket] = TieredRange(min(reached.start, back), back)

    def _take_kv_snapshot(self, bucket: BucketKey, added: AddedRows, stated: int | None) -> None:
        """Takes the rows of a KV snapshot in an empty bucket. Without a stated offset the bucket begins again with our own snapshot."""
        if stated is None or stated < added.end:
            self._begin_anew(bucket)
        else:
            self.ranges[bucket] = TieredRange(stated, stated)

    def _unknown_partition(self, snapshot_id: int, bucket: BucketKey, added: AddedRows) -> ForeignTieringUnproved:
        path, offsets = self._view.path, f"[{max(added.begin, 0)}, {added.end})"
        return ForeignTieringUnproved(
            f"another tiering service committed rows with the offsets {offsets} to bucket {bucket} of {path} in snapshot {snapshot_id}, "
            "and nothing tells whether this partition or a former one of its name wrote them: the snapshot's file of offsets is gone or "
            "names both, and the log does not begin before these offsets any more",
            hint=f"{reconcile_call(path, 'adopt')} continues at the offsets that the cluster records of each partition id, and keeps "
            f"all rows. Or: {keeping_table_hint(path)}",
            table_path=path,
            bucket=bucket,
            log_lacks=f"{offsets} of bucket {bucket}",
        )

    def _only_copy(self, bucket: BucketKey) -> ForeignTieringUnproved:
        path = self._view.path
        return ForeignTieringUnproved(
            f"another tiering service committed rows to bucket {bucket} of {path} that do not tell how far it is tiered, and the bucket's "
            "log was cut: it would begin again with a KV snapshot, which would remove all of its rows in the lake. Some of them may be "
            "the only copy of those of a former partition of the same name",
            hint=keeping_table_hint(path),
            table_path=path,
            bucket=bucket,
        )

    def _overlap(self, snapshot_id: int, bucket: BucketKey, start: int, stop: int) -> PermanentTieringError:
        path = self._view.path
        return ForeignTieringOverlap(
            f"another tiering service committed rows to {path} that it held already: bucket {bucket} has the offsets [{start}, {stop}) "
            f"twice since snapshot {snapshot_id}",
            hint=f"{reconcile_call(path, 'deduplicate')} keeps one row of each offset. The other service planned its round before the rows "
            "were committed, and committed afterwards; the cluster does not fence it.",
            table_path=path,
            bucket=bucket,
            lake_snapshot_id=snapshot_id,
        )

    def _gap(self, snapshot_id: int, bucket: BucketKey, start: int, stop: int) -> PermanentTieringError:
        path = self._view.path
        return ForeignTieringGap(
            f"another tiering service committed rows to {path} behind a gap: bucket {bucket} continues at offset {stop} in "
            f"snapshot {snapshot_id}, but the offsets [{start}, {stop}) are missing",
            hint=f"Was the lake table rolled back? {reconcile_call(path, 'retier')} removes the rows behind the gap and continues at its "
            f"begin, if the log still has the missing rows. Or: {new_table_hint(path)}",
            table_path=path,
            bucket=bucket,
            lake_snapshot_id=snapshot_id,
        )
