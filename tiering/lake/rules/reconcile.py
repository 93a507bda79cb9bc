"""Where tiering goes on after a lake table failed the base check for good, or lost touch with its log (DESIGN 6 step 2). Pure.

    accept   the lake as it is now is right. Per bucket: the highest of what coordinator, cluster and the newest readable
             marker recorded; of a log table at least the log's start, and behind the rows that stand there. Never doubles a
             row; rows that somebody took out of the lake stay out, and `records_left_out` counts them. Refused for a primary-key
             table to which another service may have written unseen: keys that it doubled or set back would stay so.
    retier   go on from what the lake holds now. A bucket of which the lake holds nothing is left out: planning begins it with its
             KV snapshot or at its log's start. Any other bucket of a log table goes on behind its rows, if they have every offset
             from the first one ever tiered on, each once; of a primary-key table where the marker says that the head builds on, or
             at the log's start, for changes may be applied again. Refused when a record would be skipped or doubled, when rows
             may be those of a former partition or table of the name, and would be counted or removed, and when keys deleted
             meanwhile would stay.
    adopt    take over what another tiering service wrote: the offsets that it left with its newest snapshot. The same refusal.
    deduplicate, and retier of a log table where another service works on the same tables: see `row_repair`.

A bucket that vanished from the source is left out. All raise CannotReconcile, and never give offsets outside of the log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tiering.errors import CannotReconcile, ForeignTiering, ForeignTieringUnproved, RecordAheadOfLake
from tiering.lake.base import LakeSnapshot, LakeView
from tiering.lake.foreign import ForeignWalk
from tiering.lake.log_begins import LogBegins
from tiering.lake.maintenance import ForeignOffsets, LakeSurvey
from tiering.lake.marker import Marker, TieredRange
from tiering.lake.proof.bucket_proof import BucketProof
from tiering.lake.rules.base_check import KnownLake
from tiering.lake.rules.contiguous_offsets import Place, RowOffsets
from tiering.lake.rules.hints import is_empty, keeping_table_hint, reconcile_call
from tiering.lake.rules.history import is_foreign_tiering
from tiering.model.tables import BucketKey, BucketOffsets, TableType

Log = Mapping[BucketKey, BucketOffsets]
Ranges = dict[BucketKey, TieredRange]


class ReconcileAction(StrEnum):
    """What the user says about the lake."""

    ADOPT = "adopt"
    ACCEPT = "accept"
    RETIER = "retier"
    DEDUPLICATE = "deduplicate"


@dataclass(frozen=True)
class Situation:
    """A lake table that is to be reconciled, and its log. `places` are the source's buckets as rows name them.

    `marker_tells`: the lake holds all that its markers say; False once an `accept` left records out.
    """

    table_type: TableType
    survey: LakeSurvey
    known: KnownLake
    log: Log
    places: Mapping[BucketKey, Place]
    marker_tells: bool = True
    walk: ForeignWalk | None = None
    """What another tiering service did, on a cluster that is shared with it."""
    replaceable: frozenset[BucketKey] = frozenset()
    """Primary-key buckets that can begin anew, with their whole log or with a KV snapshot, beside another service alone."""
    begins: LogBegins = field(default_factory=dict)
    """Where the logs of partitions of a log table begin, beside another service alone: rows of former partitions are told by it."""

    @property
    def starts(self) -> dict[BucketKey, int]:
        """Per bucket the first offset ever tiered, as far as the newest marker tells."""
        marker = self.survey.newest_marker
        return {} if marker is None else {bucket: tiered.start for bucket, tiered in marker.buckets.items()}

    @property
    def recorded(self) -> dict[BucketKey, int]:
        """See `recorded_offsets`."""
        return recorded_offsets(self.survey.newest_marker, self.known)


def check_own(survey: LakeSurvey, known: KnownLake) -> None:
    """Raises CannotReconcile if the rows came from another table or cluster: their offsets mean nothing here."""
    for marker in (survey.newest_marker, survey.head_marker):
        if marker is not None and (marker.cluster_id, marker.table_id) != (known.cluster_id, known.table_id):
            raise CannotReconcile(
                f"the lake table {survey.view.path} was tiered from table {marker.table_id} of cluster {marker.cluster_id}; "
                f"this is table {known.table_id} of cluster {known.cluster_id}",
                table_path=survey.view.path,
            )


def unproved_problem(situation: Situation) -> ForeignTieringUnproved | None:
    """What keeps rows of another service in a clean lake table from being adopted, if that is what is wrong."""
    problem = None if situation.walk is None else situation.walk.problem
    return problem if isinstance(problem, ForeignTieringUnproved) else None


def check_unproved(situation: Situation, action: ReconcileAction) -> None:
    """Passes if `action` may go on although rows of another service, which tell no offsets, were not proved.

    `adopt` may where the log is not kept any more, so that nothing says that they are wrong, and `retier` of a primary-key table, whose
    buckets begin anew. Raises CannotReconcile.
    """
    problem = unproved_problem(situation)
    adopts = action is ReconcileAction.ADOPT and problem is not None and "log_lacks" in problem.ids
    begins_anew = action is ReconcileAction.RETIER and situation.table_type is TableType.PRIMARY_KEY
    if problem is not None and not adopts and not begins_anew:
        raise CannotReconcile(problem.message, hint=problem.hint, table_path=situation.survey.view.path)


def walked_ranges(situation: Situation) -> Ranges | None:
    """Where a log table goes on of which only the cluster's record is wrong, for it is ahead; None if that is not so. For rows that tell no
    offsets, which were compared with the log when they were adopted."""
    walk = situation.walk
    if walk is None or not isinstance(walk.problem, RecordAheadOfLake) or not walk.ranges:
        return None
    return _in_log(situation, dict(walk.ranges))


def in_log(ranges: Mapping[BucketKey, TieredRange], log: Log) -> bool:
    """Whether the next round finds the records that follow `ranges` in the log."""
    return all(log[key].log_start <= at.tiered <= log[key].log_end for key, at in ranges.items() if key in log)


def is_same(situation: Situation, ranges: Ranges, present: Mapping[BucketKey, TieredRange]) -> bool:
    """Whether a round would begin where it begins now. A bucket that is left out begins at the start of its log."""

    def begins(bucket: BucketKey, ranges: Mapping[BucketKey, TieredRange]) -> int | None:
        if bucket in ranges:
            return ranges[bucket].tiered
        bounds = situation.log[bucket]
        return bounds.log_start if situation.table_type is TableType.LOG or bounds.log_end == 0 else None

    return all(begins(bucket, ranges) == begins(bucket, present) for bucket in situation.log)


def accepted(situation: Situation, held: RowOffsets | None = None) -> Ranges:
    """The ranges of `accept`, see the module. `held`: the rows of a log table that another service tiers, too: it goes on behind the last.

    That none of them is there twice was checked before.
    """
    view, walk = situation.survey.view, situation.walk
    if newest_foreign(view) is not None and held is None and (walk is None or walk.problem is not None):
        raise CannotReconcile(
            f"another tiering service wrote to {view.path}: going on from the recorded offsets would double its rows",
            table_path=view.path,
        )
    if (walk is None or walk.problem is not None) and _has_foreign_rows(view):
        _check_keys_told(situation)
    reached = dict(walk.ends) if walk is not None and walk.problem is None else situation.recorded
    for bucket, place in situation.places.items():
        if held is not None and (runs := held.runs(place)):
            reached[bucket] = max(reached.get(bucket, 0), max(stop for _, stop in runs))
    if not reached:
        raise CannotReconcile(f"nothing is recorded of {view.path}: there are no offsets to go on from", table_path=view.path)
    if situation.table_type is TableType.LOG:
        log = situation.log
        reached = {bucket: max(at, log[bucket].log_start) for bucket, at in reached.items() if bucket in log}
    starts = situation.starts
    return _in_log(situation, {bucket: TieredRange(min(starts.get(bucket, 0), at), at) for bucket, at in reached.items()})


def _check_keys_told(situation: Situation) -> None:
    """Raises CannotReconcile for keys of which nothing tells what another service did to them."""
    path = situation.survey.view.path
    if situation.table_type is TableType.PRIMARY_KEY and situation.known.shared is not None:
        raise CannotReconcile(
            f"another tiering service may have doubled keys of {path}, or set them back, in snapshots that are gone or that no round "
            "looked at: they would stay so",
            table_path=path,
        )


def behind_rows(situation: Situation, ranges: Ranges, held: RowOffsets) -> Ranges:
    """The ranges of `accept` of a log table, moved on behind the rows that stand there: what is recorded may be older, where an answer was
    lost and the markers that tell are gone.

    Raises CannotReconcile for rows that may be a former partition's.
    """
    moved = dict(ranges)
    for bucket, place in situation.places.items():
        log_end, at = situation.log[bucket].log_end, ranges.get(bucket)
        runs = [(start, min(stop, log_end)) for start, stop in held.runs(place) if start < log_end]  # others came from no log
        stop = max((stop for _, stop in runs), default=0)
        if stop <= (0 if at is None else at.tiered):
            continue
        if bucket.partition_id is not None:
            if situation.survey.head_marker is None:
                _check_own_partitions(situation.survey, {bucket: stop})
            continue  # beyond what the head's marker says nothing is this partition's
        first = max(runs[0][0], 0)  # below 0 are rows that no log has
        moved[bucket] = TieredRange(first if at is None else min(at.start, first), stop)
    return _in_log(situation, moved)


def with_unrecorded_buckets(situation: Situation, ranges: Ranges, held: RowOffsets | None) -> Ranges:
    """The ranges of `accept` of a primary-key table, with the buckets of partitions of which nothing is recorded although rows stand there.

    Without a marker nothing tells whether the rows are a dropped partition's or those of a round whose record is lost. A replay of the
    whole log is right for both; a KV snapshot would keep keys that were deleted since that round. `held` None = the rows could not be read.
    """
    if situation.marker_tells and situation.survey.head_marker is not None:
        return ranges
    unrecorded = [bucket for bucket in situation.log if bucket not in ranges and bucket.partition_id is not None]
    standing = [bucket for bucket in unrecorded if held is None or situation.places[bucket] in held.places]
    return {**ranges, **{bucket: TieredRange(0, 0) for bucket in standing if situation.log[bucket].log_start == 0}}


def retiered(situation: Situation, held: RowOffsets, whole: RowOffsets | None = None) -> Ranges:
    """The ranges of `retier`, see the module. `held`: the offsets that the lake's rows have; `whole`: the same with offsets of a log
    table that are known to be without rows."""
    check_places(situation, held)
    if situation.known.shared is None:  # beside another service, buckets of keys of which nothing is known begin anew
        # `held` has rows of living partitions alone. Snapshots of another service say only that it wrote, not for which table.
        check_whose(situation, has_rows=not is_empty(situation.survey.view))
    path = situation.survey.view.path
    if situation.table_type is TableType.PRIMARY_KEY:
        return _retiered_keys(situation, {bucket for bucket, place in situation.places.items() if place in held.places})
    by_place = (whole or held).ranges()
    by_bucket = {bucket: by_place[place] for bucket, place in situation.places.items() if place in by_place}
    _check_own_partitions(situation.survey, {bucket: held.runs(situation.places[bucket])[-1][1] for bucket in by_bucket})
    starts = situation.starts
    for bucket, (first, _) in by_bucket.items():
        begin = starts.get(bucket, situation.log[bucket].log_start)
        if first > begin:
            raise CannotReconcile(
                f"bucket {bucket} of {path} holds offsets from {first} on, but lacks {begin} to {first - 1}", table_path=path, bucket=bucket
            )
    return _in_log(situation, {bucket: TieredRange(first, stop) for bucket, (first, stop) in by_bucket.items()})


def check_whose(situation: Situation, *, has_rows: bool) -> None:
    """Raises CannotReconcile for rows of which nothing tells that this table's rounds wrote them, neither in the lake nor outside: those of
    a former table of this name look the same, and its offsets are another log's.
    """
    survey = situation.survey
    is_told = situation.known.was_tiered or survey.newest_marker is not None or survey.head_marker is not None
    if has_rows and not is_told:
        raise CannotReconcile(
            f"the lake table {survey.view.path} has rows, but no marker of a Lakeward round, and nothing is recorded of it: a former table "
            "of this name, or somebody else, may have written them",
            table_path=survey.view.path,
        )


def check_places(situation: Situation, held: RowOffsets) -> None:
    """Raises CannotReconcile for rows in a bucket that the source does not have."""
    path = situation.survey.view.path
    strange = sorted(held.places - set(situation.places.values()), key=str)
    if strange:
        partition, bucket_id = strange[0]
        where = f"bucket {bucket_id}" if partition is None else f"bucket {bucket_id} of partition {partition}"
        raise CannotReconcile(f"the lake table {path} has rows in {where}, which the source table does not have", table_path=path)


def _retiered_keys(situation: Situation, standing: Collection[BucketKey]) -> Ranges:
    """The same of a primary-key table. Changes that the lake has already may be applied again; none may be missing."""
    survey, recorded, walk = situation.survey, situation.recorded, situation.walk
    marked = None if survey.head_marker is None or not situation.marker_tells else survey.head_marker.buckets
    foreign = any(is_foreign_tiering(snapshot) for snapshot in survey.view.snapshots.values())
    is_dirty = situation.known.shared is not None and _has_foreign_rows(survey.view)
    ranges: Ranges = {}
    for bucket, bounds in situation.log.items():
        if bucket not in standing or (marked is not None and bucket not in marked and not foreign):
            continue  # nothing of it was tiered: rows in its place are a former partition's, or somebody's own
        at = None if marked is None else marked.get(bucket)
        if walk is not None and walk.problem is None:
            at = walk.ranges.get(bucket)
        begins_anew = bucket in situation.replaceable
        is_proved = bucket.partition_id is not None and _is_proved(walk, bucket)
        if not begins_anew and (unproved := unproved_problem(situation)) is not None:
            raise CannotReconcile(f"{unproved.message}; there is no KV snapshot of bucket {bucket} to begin anew with", bucket=bucket)
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
    """Whether another service may have written since the marker that the head builds on: then replaying the log in place would let it
    take the bucket for one that ends at that marker."""
    if view.head is None:
        return False
    oldest: LakeSnapshot | None = None
    for oldest in view.line():
        if is_foreign_tiering(oldest):
            return True
        if oldest.round_id is not None:
            return False
    return oldest is None or oldest.parent_id is not None


def emptied(situation: Situation, held: RowOffsets, ranges: Ranges) -> frozenset[BucketKey]:
    """Buckets of a primary-key table whose rows go, for they begin anew: rows that stand there would be taken for tiered ones.

    Rows of a bucket that no marker and no record has are a dropped partition's, and stay, unless another service may have written unseen.
    Raises CannotReconcile if rows of a dropped partition may stand among those that would go.
    """
    walk, marker = situation.walk, situation.survey.head_marker
    known = {*situation.recorded, *({} if marker is None else marker.buckets)}
    if walk is not None:
        known |= {*walk.ranges, *walk.moved_back}
    if (walk is None or walk.problem is not None) and _has_foreign_rows(situation.survey.view):
        known |= situation.replaceable
    anew = frozenset(
        bucket
        for bucket in situation.replaceable
        if bucket not in ranges and situation.places[bucket] in held.places and (bucket in known or bucket.partition_id is None)
    )
    # Where a walk passed, only buckets without rows of a dropped partition have no range (`foreign_walk`).
    proved = frozenset() if walk is None or walk.problem is not None else walk.moved_back - walk.ranges.keys()
    for bucket in sorted(anew - proved, key=BucketKey.sort_key):
        if bucket.partition_id is not None:
            raise _may_hold_former(situation, bucket)
    return anew


def _may_hold_former(situation: Situation, bucket: BucketKey) -> CannotReconcile:
    path = situation.survey.view.path
    return CannotReconcile(
        f"bucket {bucket} of {path} would begin anew with a KV snapshot, and all of its rows in the lake would be removed: some of them "
        "may be the only copy of those of a dropped partition of the same name",
        hint=keeping_table_hint(path),
        table_path=path,
        bucket=bucket,
    )


def records_left_out(situation: Situation, action: ReconcileAction, ranges: Ranges, held: RowOffsets | None) -> int | None:
    """How many records of the log, from the first one ever tiered on, the lake lacks and no round will tier.

    Of a log table those that no row of the lake has, of a primary-key table the changes that were not applied to it. None = it
    cannot be told. `held` None = the rows could not be read; offsets that are known to be without rows are among them.
    """
    if situation.table_type is TableType.PRIMARY_KEY:
        return 0 if action is ReconcileAction.RETIER else _changes_left_out(situation, action, ranges, held)
    if held is None:
        return None
    starts, recorded = situation.starts, situation.recorded
    missing = 0
    for bucket, bounds in situation.log.items():
        goes_on = ranges[bucket].tiered if bucket in ranges else bounds.log_start
        unknown = 0 if bucket in recorded else min(bounds.log_start, goes_on)
        begin = starts.get(bucket, unknown)
        standing = held.count(situation.places[bucket], begin, goes_on)
        if standing and bucket.partition_id is not None and situation.walk is None:
            if situation.survey.head_marker is None:
                return None
            standing = held.count(situation.places[bucket], begin, min(goes_on, _own_stop(situation.survey, bucket)))
        missing += max(0, goes_on - begin) - standing
    return missing


def _own_stop(survey: LakeSurvey, bucket: BucketKey) -> int:
    """Where the rows end in the lake that are a partition's own: rows name theirs by its values, and a dropped one may have come again
    under the same. So they count only as far as the marker says that the head builds on."""
    known = {} if survey.head_marker is None else survey.head_marker.buckets
    return known[bucket].tiered if bucket in known else 0


def _changes_left_out(situation: Situation, action: ReconcileAction, ranges: Ranges, held: RowOffsets | None) -> int | None:
    marker = situation.survey.head_marker if situation.marker_tells else None
    if action is ReconcileAction.ADOPT or held is None:
        return None
    missing = 0
    for bucket, tiered in ranges.items():
        if situation.places[bucket] not in held.places:
            missing += tiered.tiered  # whatever a marker says: somebody may have emptied it
        elif marker is not None and bucket in marker.buckets:
            missing += max(0, tiered.tiered - marker.buckets[bucket].tiered)
        else:
            return None
    return missing


def _check_own_partitions(survey: LakeSurvey, stops: Mapping[BucketKey, int]) -> None:
    """`stops`: where rows end. Raises CannotReconcile if those of a bucket may be a former partition's."""
    for bucket in sorted(stops, key=BucketKey.sort_key):
        stop, tiered = stops[bucket], _own_stop(survey, bucket)
        if bucket.partition_id is not None and stop > tiered:
            raise CannotReconcile(
                f"bucket {bucket} of {survey.view.path} holds offsets up to {stop - 1} in the lake, but the marker that the lake's head "
                f"builds on has only those below {tiered} of that partition: the rows may be those of a former partition of that name",
                hint="Delete the former partition's rows from the lake table first.",
                table_path=survey.view.path,
                bucket=bucket,
            )


def adopted(situation: Situation, foreign: ForeignOffsets) -> Ranges:
    """The ranges of `adopt`, see the module."""
    path, table_id = situation.survey.view.path, situation.known.table_id
    if foreign.table_id != table_id:
        raise CannotReconcile(f"the other service tiered table {foreign.table_id}; this is table {table_id}", table_path=path)
    if situation.walk is None or not isinstance(situation.walk.problem, ForeignTiering | ForeignTieringUnproved | None):
        _check_keys_told(situation)  # the hints of these two say that keys are taken over as they are
    for bucket in sorted(set() if situation.walk is None else situation.walk.moved_back, key=BucketKey.sort_key):
        raise CannotReconcile(
            f"the other service set keys of bucket {bucket} of {path} back, or doubled them, and their changes have to be replayed",
            hint=f"{reconcile_call(path, 'retier')} replaces the bucket by its KV snapshot."
            if bucket.partition_id is None
            else keeping_table_hint(path),
            table_path=path,
            bucket=bucket,
        )
    theirs = {BucketKey(partition, bucket): offset for (partition, bucket), offset in foreign.offsets.items()}
    for bucket, offset in situation.recorded.items():
        if bucket in situation.log and theirs.get(bucket, 0) < offset:
            raise CannotReconcile(
                f"the other service says it tiered bucket {bucket} up to offset {theirs.get(bucket, 0)}, but {offset} is recorded: "
                "it did not go on from there, so rows may be in the lake twice",
                table_path=path,
                bucket=bucket,
            )
    starts = situation.starts
    return _in_log(situation, {bucket: TieredRange(min(starts.get(bucket, 0), offset), offset) for bucket, offset in theirs.items()})


def newest_foreign(view: LakeView) -> LakeSnapshot | None:
    """The newest snapshot of another tiering service that is newer than Lakeward's newest tiering commit."""
    tiered = None if view.tiered is None else view.snapshots.get(view.tiered)
    floor = -1 if tiered is None else tiered.sequence_number
    return _newest(snapshot for snapshot in view.snapshots.values() if is_foreign_tiering(snapshot) and snapshot.sequence_number > floor)


def adoptable(view: LakeView) -> LakeSnapshot:
    """The snapshot whose offsets `adopt` takes over: the head descends from it, and no round came after it."""
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
    """What markers prove of buckets (of a clean layout) that go on exactly where such a marker stood. Others begin a new proof."""
    kept: dict[BucketKey, BucketProof] = {}
    for marker in reversed(survey.markers):
        kept |= {bucket: proof for bucket, proof in marker.proofs.items() if marker.buckets.get(bucket) == ranges.get(bucket)}
    return {bucket: proof for bucket, proof in kept.items() if bucket in ranges}


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


def _in_log(situation: Situation, ranges: Ranges) -> Ranges:
    """`ranges` without vanished buckets. Raises CannotReconcile for an offset from which the next round could not go on."""
    log = situation.log
    kept = {bucket: ranges[bucket] for bucket in log if bucket in ranges}
    for bucket, tiered in kept.items():
        if not log[bucket].log_start <= tiered.tiered <= log[bucket].log_end:
            raise _outside(situation, bucket, tiered.tiered)
    return kept


def _outside(situation: Situation, bucket: BucketKey, offset: int) -> CannotReconcile:
    bounds, path = situation.log[bucket], situation.survey.view.path
    return CannotReconcile(
        f"bucket {bucket} of {path} would go on at offset {offset}, but its log holds only [{bounds.log_start}, {bounds.log_end})",
        table_path=path,
        bucket=bucket,
    )


def _newest(snapshots: Iterable[LakeSnapshot]) -> LakeSnapshot | None:
    return max(snapshots, key=lambda snapshot: snapshot.sequence_number, default=None)
