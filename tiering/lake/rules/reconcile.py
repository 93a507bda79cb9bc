"""The offsets at which tiering continues after a permanent error of the base check, or after lake and log lost their link (DESIGN 6). Pure.

    accept   The present lake is right. Each bucket continues at the highest offset that coordinator, cluster or the newest readable
             marker recorded; in a log table also behind the lake's rows, and not below the log's start. Never doubles a row. Rows that
             a user removed stay out of the lake; `records_left_out` counts them. Refused for a primary-key table if another service may
             have written unseen: keys that it doubled or set back would stay so.
    retier   Continues from what the lake holds now. A bucket without rows in the lake is left out of the ranges: planning begins it with
             its KV snapshot or at its log's start. Another bucket of a log table continues behind its rows, if they have every offset
             once, from the first one ever tiered. A bucket of a primary-key table continues at the marker that the head builds on, or at
             the log's start, because changes may be applied again. Refused if a record would be skipped or doubled, if rows of a former
             partition or table of the name may be counted or removed, and if keys that were deleted since would stay.
    adopt    Takes over what another tiering service wrote, with the offsets of its newest snapshot. Refused for the same reasons.
    deduplicate, and retier of a log table that another service tiers too: see `row_repair`.

A dropped bucket is left out. All functions raise CannotReconcile. None returns offsets outside of the log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tiering.errors import CannotReconcile, ForeignTiering, ForeignTieringUnproved, RecordAheadOfLake
from tiering.lake.base import LakeSnapshot, LakeView
from tiering.lake.foreign import ForeignWalk
from tiering.lake.log_starts import LogStarts
from tiering.lake.maintenance import ForeignOffsets, LakeSurvey
from tiering.lake.marker import TieredRange
from tiering.lake.proof.bucket_proof import BucketProof
from tiering.lake.rules.base_check import ExpectedLake
from tiering.lake.rules.clean_comparison import highest
from tiering.lake.rules.contiguous_offsets import Place, RowOffsets
from tiering.lake.rules.hints import is_empty, keeping_table_hint, reconcile_call
from tiering.lake.rules.history import is_foreign_tiering
from tiering.model.tables import BucketKey, BucketOffsets, TableType

Log = Mapping[BucketKey, BucketOffsets]
Ranges = dict[BucketKey, TieredRange]


class ReconcileAction(StrEnum):
    """The action that the user orders."""

    ADOPT = "adopt"
    ACCEPT = "accept"
    RETIER = "retier"
    DEDUPLICATE = "deduplicate"


@dataclass(frozen=True)
class ReconcileInput:
    """A lake table to reconcile, and its log. `places` are the source's buckets, as the rows of the lake name them.

    `marker_tells` is True if the lake holds all that its markers say. It is False after an `accept` left records out.
    """

    table_type: TableType
    survey: LakeSurvey
    expected: ExpectedLake
    log: Log
    places: Mapping[BucketKey, Place]
    marker_tells: bool = True
    walk: ForeignWalk | None = None
    """The commits of another tiering service, on a cluster that is shared with it."""
    replaceable: frozenset[BucketKey] = frozenset()
    """Primary-key buckets that can begin again, with the whole log or with a KV snapshot. On a cluster that is not shared, only buckets
    whose log lacks changes that the lake lacks."""
    begins: LogStarts = field(default_factory=dict)
    """The begins of the logs of a log table's partitions, which identify rows of former partitions. Only set on a shared cluster."""

    @property
    def starts(self) -> dict[BucketKey, int]:
        """Per bucket the first offset ever tiered, as far as the newest marker tells."""
        marker = self.survey.newest_marker
        return {} if marker is None else {bucket: tiered.start for bucket, tiered in marker.buckets.items()}

    @property
    def recorded(self) -> dict[BucketKey, int]:
        """Per bucket the highest recorded offset. Copies may be behind the lake, but never ahead."""
        marker = self.survey.newest_marker
        return highest([*(copy.offsets for copy in self.expected.recorded), {} if marker is None else marker.ends])


def check_own(survey: LakeSurvey, expected: ExpectedLake) -> None:
    """Raises CannotReconcile if the rows came from another table or cluster, because their offsets are of another log."""
    for marker in (survey.newest_marker, survey.head_marker):
        if marker is not None and (marker.cluster_id, marker.table_id) != (expected.cluster_id, expected.table_id):
            raise CannotReconcile(
                f"the lake table {survey.view.path} was tiered from table {marker.table_id} of cluster {marker.cluster_id}; "
                f"this is table {expected.table_id} of cluster {expected.cluster_id}",
                table_path=survey.view.path,
            )


def unproved_problem(situation: ReconcileInput) -> ForeignTieringUnproved | None:
    """Returns the problem if another service's rows in a clean lake table could not be proved; None otherwise."""
    problem = None if situation.walk is None else situation.walk.problem
    return problem if isinstance(problem, ForeignTieringUnproved) else None


def check_unproved(situation: ReconcileInput, action: ReconcileAction) -> None:
    """Raises CannotReconcile if rows of another service, which carry no offsets, were not proved and `action` may not continue.

    `adopt` may continue if the log is not kept any more, because nothing shows that the rows are wrong. `retier` of a primary-key table
    may continue, because its buckets begin again.
    """
    problem = unproved_problem(situation)
    adopts = action is ReconcileAction.ADOPT and problem is not None and "log_lacks" in problem.ids
    begins_anew = action is ReconcileAction.RETIER and situation.table_type is TableType.PRIMARY_KEY
    if problem is not None and not adopts and not begins_anew:
        raise CannotReconcile(problem.message, hint=problem.hint, table_path=situation.survey.view.path)


def walked_ranges(situation: ReconcileInput) -> Ranges | None:
    """Returns the ranges of a log table of which only the cluster's record is wrong, because it is ahead; None otherwise.

    It is for rows without offsets, which were compared with the log when they were adopted."""
    walk = situation.walk
    if walk is None or not isinstance(walk.problem, RecordAheadOfLake) or not walk.ranges:
        return None
    return _in_log(situation, dict(walk.ranges))


def in_log(ranges: Mapping[BucketKey, TieredRange], log: Log) -> bool:
    """Whether the next round finds the records that follow `ranges` in the log."""
    return all(log[key].log_start <= at.tiered <= log[key].log_end for key, at in ranges.items() if key in log)


def is_same(situation: ReconcileInput, ranges: Ranges, present: Mapping[BucketKey, TieredRange]) -> bool:
    """Whether a round would begin where it begins now. A bucket without a range begins at the start of its log."""

    def begins(bucket: BucketKey, ranges: Mapping[BucketKey, TieredRange]) -> int | None:
        if bucket in ranges:
            return ranges[bucket].tiered
        bounds = situation.log[bucket]
        return bounds.log_start if situation.table_type is TableType.LOG or bounds.log_end == 0 else None

    return all(begins(bucket, ranges) == begins(bucket, present) for bucket in situation.log)


def accepted(situation: ReconcileInput, lake_rows: RowOffsets | None = None) -> Ranges:
    """Returns the ranges of `accept`. `lake_rows`: the rows of a log table that another service tiers too; it continues behind the last.

    The caller has checked that no row is doubled.
    """
    view, walk = situation.survey.view, situation.walk
    if newest_foreign(view) is not None and lake_rows is None and (walk is None or walk.problem is not None):
        raise CannotReconcile(
            f"another tiering service wrote to {view.path}: continuing from the recorded offsets would double its rows",
            table_path=view.path,
        )
    if (walk is None or walk.problem is not None) and _has_foreign_rows(view):
        _check_keys_known(situation)
    reached = dict(walk.ends) if walk is not None and walk.problem is None else situation.recorded
    for bucket, place in situation.places.items():
        if lake_rows is not None and (runs := lake_rows.runs(place)):
            reached[bucket] = max(reached.get(bucket, 0), max(stop for _, stop in runs))
    if not reached:
        raise CannotReconcile(f"no offsets of {view.path} are recorded, so tiering cannot continue from them", table_path=view.path)
    if situation.table_type is TableType.LOG:
        log = situation.log
        reached = {bucket: max(at, log[bucket].log_start) for bucket, at in reached.items() if bucket in log}
    starts = situation.starts
    return _in_log(situation, {bucket: TieredRange(min(starts.get(bucket, 0), at), at) for bucket, at in reached.items()})


def _check_keys_known(situation: ReconcileInput) -> None:
    """Raises CannotReconcile if another service may have changed keys in a way that nothing tells."""
    path = situation.survey.view.path
    if situation.table_type is TableType.PRIMARY_KEY and situation.expected.shared is not None:
        raise CannotReconcile(
            f"another tiering service may have doubled keys of {path}, or set them back, in snapshots that expired or that no round "
            "checked: the lake would keep these keys as they are",
            table_path=path,
        )


def behind_rows(situation: ReconcileInput, ranges: Ranges, lake_rows: RowOffsets) -> Ranges:
    """Returns the ranges of `accept` of a log table, moved on behind the lake's rows.

    The recorded offsets may be older than the rows, if an answer was lost and the newest markers are gone. Raises CannotReconcile for
    rows that may be a former partition's."""
    moved = dict(ranges)
    for bucket, place in situation.places.items():
        log_end, at = situation.log[bucket].log_end, ranges.get(bucket)
        runs = [(start, min(stop, log_end)) for start, stop in lake_rows.runs(place) if start < log_end]  # other rows came from no log
        stop = max((stop for _, stop in runs), default=0)
        if stop <= (0 if at is None else at.tiered):
            continue
        if bucket.partition_id is not None:
            if situation.survey.head_marker is None:
                _check_own_partitions(situation.survey, {bucket: stop})
            continue  # rows behind the end of the head's marker are not this partition's
        first = max(runs[0][0], 0)  # no log has rows below 0
        moved[bucket] = TieredRange(first if at is None else min(at.start, first), stop)
    return _in_log(situation, moved)


def with_unrecorded_buckets(situation: ReconcileInput, ranges: Ranges, lake_rows: RowOffsets | None) -> Ranges:
    """Returns the ranges of `accept` of a primary-key table, with buckets of partitions that have rows but no recorded offsets.

    Without a marker nothing tells whether the rows belong to a dropped partition or to a round whose record is lost. A replay of the whole
    log is right for both. A KV snapshot would keep keys that were deleted since. `lake_rows` None = the rows could not be read.
    """
    if situation.marker_tells and situation.survey.head_marker is not None:
        return ranges
    unrecorded = [bucket for bucket in situation.log if bucket not in ranges and bucket.partition_id is not None]
    occupied = [bucket for bucket in unrecorded if lake_rows is None or situation.places[bucket] in lake_rows.places]
    return {**ranges, **{bucket: TieredRange(0, 0) for bucket in occupied if situation.log[bucket].log_start == 0}}


def retiered(situation: ReconcileInput, lake_rows: RowOffsets, whole: RowOffsets | None = None) -> Ranges:
    """Returns the ranges of `retier`. `lake_rows`: the offsets of the lake's rows. `whole`: the same for a log table, together with offsets
    that are known to have no row."""
    check_places(situation, lake_rows)
    if situation.expected.shared is None:  # on a shared cluster, primary-key buckets without recorded offsets begin again
        # `lake_rows` has only rows of living partitions. Snapshots of another service do not tell for which table they were written.
        check_whose(situation, has_rows=not is_empty(situation.survey.view))
    path = situation.survey.view.path
    if situation.table_type is TableType.PRIMARY_KEY:
        return _retiered_keys(situation, {bucket for bucket, place in situation.places.items() if place in lake_rows.places})
    by_place = (whole or lake_rows).ranges()
    by_bucket = {bucket: by_place[place] for bucket, place in situation.places.items() if place in by_place}
    _check_own_partitions(situation.survey, {bucket: lake_rows.runs(situation.places[bucket])[-1][1] for bucket in by_bucket})
    starts = situation.starts
    for bucket, (first, _) in by_bucket.items():
        begin = starts.get(bucket, situation.log[bucket].log_start)
        if first > begin:
            raise CannotReconcile(
                f"bucket {bucket} of {path} holds offsets from {first} on, but lacks {begin} to {first - 1}", table_path=path, bucket=bucket
            )
    return _in_log(situation, {bucket: TieredRange(first, stop) for bucket, (first, stop) in by_bucket.items()})


def check_whose(situation: ReconcileInput, *, has_rows: bool) -> None:
    """Raises CannotReconcile if nothing in the lake or outside shows that rounds of this table wrote the rows.

    Rows of a former table of the same name look the same, but their offsets are of another log."""
    survey = situation.survey
    is_ours = situation.expected.was_tiered or survey.newest_marker is not None or survey.head_marker is not None
    if has_rows and not is_ours:
        raise CannotReconcile(
            f"the lake table {survey.view.path} has rows, but no marker of a Lakeward round, and no records: a former table of this name, "
            "or another writer, may have written them",
            table_path=survey.view.path,
        )


def check_places(situation: ReconcileInput, lake_rows: RowOffsets) -> None:
    """Raises CannotReconcile for rows in a bucket that the source does not have."""
    path = situation.survey.view.path
    unknown_places = sorted(lake_rows.places - set(situation.places.values()), key=str)
    if unknown_places:
        partition, bucket_id = unknown_places[0]
        where = f"bucket {bucket_id}" if partition is None else f"bucket {bucket_id} of partition {partition}"
        raise CannotReconcile(f"the lake table {path} has rows in {where}, which the source table does not have", table_path=path)


def _retiered_keys(situation: ReconcileInput, occupied: Collection[BucketKey]) -> Ranges:
    """Returns the ranges of `retier` of a primary-key table. Changes that the lake has may be applied again, but none may be missing."""
    survey, recorded, walk = situation.survey, situation.recorded, situation.walk
    marked = None if survey.head_marker is None or not situation.marker_tells else survey.head_marker.buckets
    foreign = any(is_foreign_tiering(snapshot) for snapshot in survey.view.snapshots.values())
    is_dirty = situation.expected.shared is not None and _has_foreign_rows(survey.view)
    ranges: Ranges = {}
    for bucket, bounds in situation.log.items():
        if bucket not in occupied or (marked is not None and bucket not in marked and not foreign):
            continue  # it was never tiered: its rows are a former partition's, or a user's
        at = None if marked is None else marked.get(bucket)
        if walk is not None and walk.problem is None:
            at = walk.ranges.get(bucket)
        begins_anew = bucket in situation.replaceable
        is_proved = bucket.partition_id is not None and _is_proved(walk, bucket)
        if not begins_anew and (unproved := unproved_problem(situation)) is not None:
            raise CannotReconcile(f"{unproved.message}; bucket {bucket} has no KV snapshot to begin again with", bucket=bucket)
        if begins_anew and ((is_dirty and not is_proved) or at is None or at.tiered < bounds.log_start):
            continue
        if max(recorded.get(bucket, 0), 0 if at is None else at.tiered) > bounds.log_end:
            raise _outside(situation, bucket, max(recorded.get(bucket, 0), 0 if at is None else at.tiered))
        if at is not None and at.tiered >= bounds.log_start:
            ranges[bucket] = at
        elif bounds.log_start == 0:
            ranges[bucket] = TieredRange(0, 0)
        else:
            raise CannotReconcile(
                f"the rows of bucket {bucket} of {survey.view.path} do not tell how far it is tiered, and its log begins at "
                f"{bounds.log_start}: keys that were deleted before would stay in the lake",
                table_path=survey.view.path,
                bucket=bucket,
            )
    return ranges


def _is_proved(walk: ForeignWalk | None, bucket: BucketKey) -> bool:
    """Whether a round would build on the end to which another service tiered the bucket."""
    return walk is not None and walk.problem is None and bucket in walk.ranges and bucket not in walk.moved_back


def _has_foreign_rows(view: LakeView) -> bool:
    """Whether another service may have written since the marker that the head builds on. If the log were then replayed in place, the
    service would believe that the bucket ends at that marker."""
    if view.head is None:
        return False
    oldest: LakeSnapshot | None = None
    for oldest in view.line():
        if is_foreign_tiering(oldest):
            return True
        if oldest.round_id is not None:
            return False
    return oldest is None or oldest.parent_id is not None


def emptied(situation: ReconcileInput, lake_rows: RowOffsets, ranges: Ranges) -> frozenset[BucketKey]:
    """Returns buckets of a primary-key table that begin again, so that their rows must be removed: they would count as tiered ones.

    Rows of a bucket that no marker and no record names belong to a dropped partition and stay, unless another service may have written
    unseen. Raises CannotReconcile if rows of a dropped partition may be among those to remove."""
    walk, marker = situation.walk, situation.survey.head_marker
    tracked = {*situation.recorded, *({} if marker is None else marker.buckets)}
    if walk is not None:
        tracked |= {*walk.ranges, *walk.moved_back}
    if (walk is None or walk.problem is not None) and _has_foreign_rows(situation.survey.view):
        tracked |= situation.replaceable
    restarting = frozenset(
        bucket
        for bucket in situation.replaceable
        if bucket not in ranges and situation.places[bucket] in lake_rows.places and (bucket in tracked or bucket.partition_id is None)
    )
    # Where a walk passed, only buckets without rows of a dropped partition have no range (`foreign_walk`).
    proved = frozenset() if walk is None or walk.problem is not None else walk.moved_back - walk.ranges.keys()
    if situation.expected.shared is None and marker is not None and marker.archives is not None:
        archives = marker.archives
        proved = frozenset(bucket for bucket in restarting if bucket.partition_id not in archives)
    for bucket in sorted(restarting - proved, key=BucketKey.sort_key):
        if bucket.partition_id is not None:
            raise _may_hold_former(situation, bucket)
    return restarting


def _may_hold_former(situation: ReconcileInput, bucket: BucketKey) -> CannotReconcile:
    path = situation.survey.view.path
    return CannotReconcile(
        f"bucket {bucket} of {path} would begin again with a KV snapshot, which would remove all of its rows in the lake: some of them "
        "may be the only copy of those of a dropped partition of the same name",
        hint=keeping_table_hint(path),
        table_path=path,
        bucket=bucket,
    )


def records_left_out(situation: ReconcileInput, action: ReconcileAction, ranges: Ranges, lake_rows: RowOffsets | None) -> int | None:
    """Returns how many records of the log the lake lacks and no round will tier, from the first one ever tiered. None = unknown.

    For a log table it counts the records without a row in the lake, for a primary-key table the changes that were not applied.
    `lake_rows` includes offsets that are known to have no row. `lake_rows` None = the rows could not be read."""
    if situation.table_type is TableType.PRIMARY_KEY:
        return 0 if action is ReconcileAction.RETIER else _changes_left_out(situation, action, ranges, lake_rows)
    if lake_rows is None:
        return None
    starts, recorded = situation.starts, situation.recorded
    missing = 0
    for bucket, bounds in situation.log.items():
        end = ranges[bucket].tiered if bucket in ranges else bounds.log_start
        unknown = 0 if bucket in recorded else min(bounds.log_start, end)
        begin = starts.get(bucket, unknown)
        present = lake_rows.count(situation.places[bucket], begin, end)
        if present and bucket.partition_id is not None and situation.walk is None:
            if situation.survey.head_marker is None:
                return None
            present = lake_rows.count(situation.places[bucket], begin, min(end, _own_stop(situation.survey, bucket)))
        missing += max(0, end - begin) - present
    return missing


def _own_stop(survey: LakeSurvey, bucket: BucketKey) -> int:
    """Returns the end of a partition's own rows in the lake. Rows name their partition only by its values, and a dropped partition may have
    been recreated under the same values. So rows count only up to the end in the marker that the head builds on."""
    marked = {} if survey.head_marker is None else survey.head_marker.buckets
    return marked[bucket].tiered if bucket in marked else 0


def _changes_left_out(situation: ReconcileInput, action: ReconcileAction, ranges: Ranges, lake_rows: RowOffsets | None) -> int | None:
    marker = situation.survey.head_marker if situation.marker_tells else None
    if action is ReconcileAction.ADOPT or lake_rows is None:
        return None
    missing = 0
    for bucket, tiered in ranges.items():
        if situation.places[bucket] not in lake_rows.places:
            missing += tiered.tiered  # whatever a marker says: a user may have emptied it
        elif marker is not None and bucket in marker.buckets:
            missing += max(0, tiered.tiered - marker.buckets[bucket].tiered)
        else:
            return None
    return missing


def _check_own_partitions(survey: LakeSurvey, stops: Mapping[BucketKey, int]) -> None:
    """Raises CannotReconcile if rows of a bucket may be a former partition's. `stops`: per bucket the end of its rows."""
    for bucket in sorted(stops, key=BucketKey.sort_key):
        stop, tiered = stops[bucket], _own_stop(survey, bucket)
        if bucket.partition_id is not None and stop > tiered:
            raise CannotReconcile(
                f"bucket {bucket} of {survey.view.path} holds offsets up to {stop - 1} in the lake, but the marker that the lake's head "
                f"builds on has only those below {tiered} of that partition: the rows may be those of a former partition of the same name",
                hint="Delete the former partition's rows from the lake table first.",
                table_path=survey.view.path,
                bucket=bucket,
            )


def adopted(situation: ReconcileInput, foreign: ForeignOffsets) -> Ranges:
    """Returns the ranges of `adopt`."""
    path, table_id = situation.survey.view.path, situation.expected.table_id
    if foreign.table_id != table_id:
        raise CannotReconcile(f"the other service tiered table {foreign.table_id}; this is table {table_id}", table_path=path)
    if situation.walk is None or not isinstance(situation.walk.problem, ForeignTiering | ForeignTieringUnproved | None):
        _check_keys_known(situation)  # the hints of these two classes say that keys are kept as they are
    for bucket in sorted(set() if situation.walk is None else situation.walk.moved_back, key=BucketKey.sort_key):
        raise CannotReconcile(
            f"the other service set keys of bucket {bucket} of {path} back, or doubled them, and their changes have to be replayed",
            hint=f"{reconcile_call(path, 'retier')} replaces the bucket by its KV snapshot."
            if bucket.partition_id is None
            else keeping_table_hint(path),
            table_path=path,
            bucket=bucket,
        )
    foreign_ends = {BucketKey(partition, bucket): offset for (partition, bucket), offset in foreign.offsets.items()}
    for bucket, offset in situation.recorded.items():
        if bucket in situation.log and foreign_ends.get(bucket, 0) < offset:
            raise CannotReconcile(
                f"the other service says it tiered bucket {bucket} up to offset {foreign_ends.get(bucket, 0)}, but {offset} is recorded: "
                "it did not continue from there, so rows may be in the lake twice",
                table_path=path,
                bucket=bucket,
            )
    starts = situation.starts
    return _in_log(situation, {bucket: TieredRange(min(starts.get(bucket, 0), offset), offset) for bucket, offset in foreign_ends.items()})


def newest_foreign(view: LakeView) -> LakeSnapshot | None:
    """Returns the newest snapshot of another tiering service that is newer than Lakeward's newest tiering commit; None if none is."""
    tiered = None if view.tiered is None else view.snapshots.get(view.tiered)
    floor = -1 if tiered is None else tiered.sequence_number
    return _newest(snapshot for snapshot in view.snapshots.values() if is_foreign_tiering(snapshot) and snapshot.sequence_number > floor)


def adoptable(view: LakeView) -> LakeSnapshot:
    """Returns the snapshot whose offsets `adopt` takes over. The head must descend from it, and no round's snapshot may be newer."""
    foreign = newest_foreign(view)
    if foreign is None:
        raise CannotReconcile(f"no other tiering service wrote to {view.path} since it was tiered last", table_path=view.path)
    rounds = _newest(snapshot for snapshot in view.snapshots.values() if snapshot.round_id is not None)
    if rounds is not None and rounds.sequence_number > foreign.sequence_number:
        raise CannotReconcile(f"round {rounds.round_id} came after the other service's snapshot {foreign.snapshot_id} of {view.path}")
    if all(snapshot.snapshot_id != foreign.snapshot_id for snapshot in view.line()):
        raise CannotReconcile(
            f"the head of {view.path} does not descend from the other service's newest snapshot {foreign.snapshot_id}", table_path=view.path
        )
    return foreign


def kept_proofs(survey: LakeSurvey, ranges: Ranges) -> dict[BucketKey, BucketProof]:
    """Returns the markers' proofs of clean buckets that continue exactly at the end in such a marker. Other buckets begin a new proof."""
    kept: dict[BucketKey, BucketProof] = {}
    for marker in reversed(survey.markers):
        kept |= {bucket: proof for bucket, proof in marker.proofs.items() if marker.buckets.get(bucket) == ranges.get(bucket)}
    return {bucket: proof for bucket, proof in kept.items() if bucket in ranges}


def _in_log(situation: ReconcileInput, ranges: Ranges) -> Ranges:
    """Returns `ranges` without dropped buckets. Raises CannotReconcile for an offset from which the next round cannot continue."""
    log = situation.log
    kept = {bucket: ranges[bucket] for bucket in log if bucket in ranges}
    for bucket, tiered in kept.items():
        if not log[bucket].log_start <= tiered.tiered <= log[bucket].log_end:
            raise _outside(situation, bucket, tiered.tiered)
    return kept


def _outside(situation: ReconcileInput, bucket: BucketKey, offset: int) -> CannotReconcile:
    bounds, path = situation.log[bucket], situation.survey.view.path
    return CannotReconcile(
        f"bucket {bucket} of {path} would continue at offset {offset}, but its log holds only [{bounds.log_start}, {bounds.log_end})",
        table_path=path,
        bucket=bucket,
    )


def _newest(snapshots: Iterable[LakeSnapshot]) -> LakeSnapshot | None:
    return max(snapshots, key=lambda snapshot: snapshot.sequence_number, default=None)
