"""Where tiering goes on after a lake table failed the base check for good (DESIGN 6 step 2). Pure.

    accept   the lake as it is now is right. Per bucket: the highest of what coordinator, cluster and the newest readable
             marker recorded. Never doubles a row; rows that somebody took out of the lake stay out.
    retier   go on from what the lake holds now. Per bucket: behind its rows, if they have every offset from the first one ever
             tiered on, each once; a bucket without rows begins anew. Refused when a record would be skipped or doubled, and when
             rows under a partition's values may be those of a former partition.
    adopt    take over what another tiering service wrote: the offsets that it left with its newest snapshot.

A bucket that vanished from the source is left out. All raise CannotReconcile, and never give offsets outside of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from tiering.errors import CannotReconcile
from tiering.lake.base import LakeSnapshot, LakeView
from tiering.lake.base_check import KnownLake
from tiering.lake.care import ForeignOffsets, LakeSurvey
from tiering.lake.history import is_foreign_tiering
from tiering.lake.marker import Marker, TieredRange
from tiering.model import BucketKey, BucketOffsets

Log = Mapping[BucketKey, BucketOffsets]
Ranges = dict[BucketKey, TieredRange]


class ReconcileAction(StrEnum):
    """What the user says about the lake."""

    ADOPT = "adopt"
    ACCEPT = "accept"
    RETIER = "retier"


def check_own(survey: LakeSurvey, known: KnownLake) -> None:
    """Raises CannotReconcile if the rows came from another table or cluster: their offsets mean nothing here."""
    marker = survey.newest_marker
    if marker is not None and (marker.cluster_id, marker.table_id) != (known.cluster_id, known.table_id):
        raise CannotReconcile(
            f"the lake table {survey.view.path} was tiered from table {marker.table_id} of cluster {marker.cluster_id}; "
            f"this is table {known.table_id} of cluster {known.cluster_id}",
            hint="Rename or drop that lake table; the next round makes a new one.",
            table_path=survey.view.path,
        )


def accepted(survey: LakeSurvey, known: KnownLake, log: Log) -> Ranges:
    """See `accept` above."""
    if newest_foreign(survey.view) is not None:
        raise CannotReconcile(
            f"another tiering service wrote to {survey.view.path}: going on from the recorded offsets would double its rows",
            hint="Use action => 'adopt' or action => 'retier'.",
        )
    reached = recorded_offsets(survey.newest_marker, known)
    if not reached:
        raise CannotReconcile(
            f"nothing is recorded of {survey.view.path}: there are no offsets to go on from",
            hint="Use action => 'retier' to go on from what the lake holds now.",
        )
    starts = _starts(survey.newest_marker)
    return _in_log({bucket: TieredRange(min(starts.get(bucket, 0), tiered), tiered) for bucket, tiered in reached.items()}, log)


def retiered(survey: LakeSurvey, known: KnownLake, log: Log, held: Mapping[BucketKey, tuple[int, int]]) -> Ranges:
    """See `retier` above. `held`: the range of offsets that each bucket's rows fill."""
    starts, recorded = _starts(survey.newest_marker), recorded_offsets(survey.newest_marker, known)
    strange = sorted(held.keys() - log.keys(), key=BucketKey.sort_key)
    if strange:
        raise CannotReconcile(f"the lake table {survey.view.path} has rows in bucket {strange[0]}, which the source table does not have")
    _check_own_partitions(survey, held)
    ranges: Ranges = {}
    for bucket, bounds in log.items():
        first, stop = held.get(bucket, (None, None))
        start = starts.get(bucket)
        if first is None or stop is None:
            if bucket in recorded:
                begin = 0 if start is None else start
                ranges[bucket] = TieredRange(begin, begin)
            continue
        if first > (bounds.log_start if start is None else start):
            begin = bounds.log_start if start is None else start
            raise CannotReconcile(
                f"bucket {bucket} of {survey.view.path} holds offsets from {first} on, but lacks {begin} to {first - 1}",
                hint="If the rows are right as they are, use action => 'accept'.",
            )
        ranges[bucket] = TieredRange(first, stop)
    return _in_log(ranges, log)


def _check_own_partitions(survey: LakeSurvey, held: Mapping[BucketKey, tuple[int, int]]) -> None:
    """Rows name their partition by its values, and a dropped partition may have come again under the same ones.

    So rows count as a partition's only as far as the marker that the head builds on says that it was tiered.
    """
    known = {} if survey.head_marker is None else survey.head_marker.buckets
    for bucket in sorted(held, key=BucketKey.sort_key):
        _, stop = held[bucket]
        tiered = known[bucket].tiered if bucket in known else 0
        if bucket.partition_id is not None and stop > tiered:
            raise CannotReconcile(
                f"bucket {bucket} of {survey.view.path} holds offsets up to {stop - 1} in the lake, but the marker that the lake's head "
                f"builds on has only those below {tiered} of that partition: the rows may be those of a former partition of that name",
                hint="Delete the former partition's rows from the lake table first; or, if the rows are right as they are, "
                "use action => 'accept'.",
                table_path=survey.view.path,
                bucket=bucket,
            )


def adopted(survey: LakeSurvey, known: KnownLake, log: Log, foreign: ForeignOffsets) -> Ranges:
    """See `adopt` above."""
    if foreign.table_id != known.table_id:
        raise CannotReconcile(f"the other service tiered table {foreign.table_id}; this is table {known.table_id}")
    theirs = {BucketKey(partition, bucket): offset for (partition, bucket), offset in foreign.offsets.items()}
    for bucket, offset in recorded_offsets(survey.newest_marker, known).items():
        if bucket in log and theirs.get(bucket, 0) < offset:
            raise CannotReconcile(
                f"the other service says it tiered bucket {bucket} up to offset {theirs.get(bucket, 0)}, but {offset} is recorded: "
                "it did not go on from there, so rows may be in the lake twice",
                hint="Use action => 'retier', which looks at the rows themselves.",
            )
    starts = _starts(survey.newest_marker)
    return _in_log({bucket: TieredRange(min(starts.get(bucket, 0), offset), offset) for bucket, offset in theirs.items()}, log)


def newest_foreign(view: LakeView) -> LakeSnapshot | None:
    """The newest snapshot of another tiering service above the tag."""
    tagged = None if view.tag is None else view.snapshots.get(view.tag)
    floor = -1 if tagged is None else tagged.sequence_number
    return _newest(one for one in view.snapshots.values() if is_foreign_tiering(one) and one.sequence_number > floor)


def adoptable(view: LakeView) -> LakeSnapshot:
    """The snapshot whose offsets `adopt` takes over: the head descends from it, and no round came after it."""
    found = newest_foreign(view)
    if found is None:
        raise CannotReconcile(
            f"no other tiering service wrote to {view.path} since it was tiered last", hint="Use action => 'accept' or 'retier'."
        )
    rounds = _newest(one for one in view.snapshots.values() if one.round_id is not None)
    if rounds is not None and rounds.sequence_number > found.sequence_number:
        raise CannotReconcile(f"round {rounds.round_id} came after the other service's snapshot {found.snapshot_id} of {view.path}")
    current = view.head
    while current is not None and current != found.snapshot_id:
        step = view.snapshots.get(current)
        current = None if step is None else step.parent_id
    if current is None:
        raise CannotReconcile(
            f"the head of {view.path} does not descend from the other service's newest snapshot {found.snapshot_id}",
            hint="Use action => 'retier', which looks at the rows themselves.",
        )
    return found


def recorded_offsets(marker: Marker | None, known: KnownLake) -> dict[BucketKey, int]:
    """Per bucket the highest that any copy has: copies may be behind, never ahead."""
    reached: dict[BucketKey, int] = {}
    copies = [copy.offsets for copy in known.recorded]
    if marker is not None:
        copies.append({bucket: tiered.tiered for bucket, tiered in marker.buckets.items()})
    for copy in copies:
        for bucket, offset in copy.items():
            reached[bucket] = max(offset, reached.get(bucket, 0))
    return reached


def _starts(marker: Marker | None) -> dict[BucketKey, int]:
    return {} if marker is None else {bucket: tiered.start for bucket, tiered in marker.buckets.items()}


def _in_log(ranges: Ranges, log: Log) -> Ranges:
    """Without vanished buckets; every offset has to be one that the next round can go on from."""
    kept = {bucket: ranges[bucket] for bucket in log if bucket in ranges}
    for bucket, tiered in kept.items():
        bounds = log[bucket]
        if not bounds.log_start <= tiered.tiered <= bounds.log_end:
            raise CannotReconcile(
                f"bucket {bucket} would go on at offset {tiered.tiered}, but its log holds only [{bounds.log_start}, {bounds.log_end})",
                hint="Records that the log does not hold cannot be tiered.",
            )
    return kept


def _newest(snapshots: Iterable[LakeSnapshot]) -> LakeSnapshot | None:
    return max(snapshots, key=lambda one: one.sequence_number, default=None)
