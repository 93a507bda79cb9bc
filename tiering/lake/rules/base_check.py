"""The base check: whether a round may build on a lake table (DESIGN 6 step 2), and what became of a commit request (step 7). Pure.

The round and the coordinator call the same functions, so they get the same answer. The lake is the truth. The coordinator and the
cluster keep copies (`ExpectedLake`). A copy may be behind the lake, but never ahead of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tiering.errors import (
    ClusterMismatch,
    Fenced,
    LakeTableReplaced,
    MarkerCorrupt,
    MarkerLost,
    RecordAheadOfLake,
    TableMismatch,
    UntrackedLakeTable,
)
from tiering.lake.base import LakeSnapshot, LakeView
from tiering.lake.foreign import ForeignWalk, SharedRecords
from tiering.lake.marker import DeadLetters, Marker, Superseded, TieredRange
from tiering.lake.rules.hints import (
    absent_hint,
    adopt_hint,
    continue_hint,
    is_empty,
    new_table_hint,
    newest_tiering_commit,
    reconcile_call,
    tier_call,
)
from tiering.lake.rules.history import check_history, foreign_tiering, is_foreign_tiering
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey, Offsets, SkippedRecords, TableInfo, TablePath


@dataclass(frozen=True)
class ExpectedLake:
    """The records of a lake table that are kept outside of the lake.

    `recorded` has the coordinator's copy and the cluster's copy, as far as they exist. The caller reads them **before** the lake: if a
    round commits in between, the copies are behind the lake and not ahead of it.

    `living` has the ids of the source's partitions. The caller reads it **after** the lake. Partition ids are never reused, so a partition
    that exists then has existed since any marker recorded it. None = the ids were not read, which is right unless `needs_living` is True.

    `path` is used in hints.
    """

    cluster_id: str
    table_id: int
    lake_table_uuid: str | None
    passed_head: int | None
    recorded: tuple[RecordedLakeSnapshot, ...] = ()
    living: Collection[int] | None = None
    path: TablePath | None = None
    shared: SharedRecords | None = None
    """The two copies by owner, if another service may tier the table too; `rules.shared_base` uses them. None = no other service may."""
    dead_letters: DeadLetters = field(default_factory=dict)
    """The records in `skipped` that rounds put aside."""
    superseded: Superseded = field(default_factory=dict)
    """The records in `skipped` that were dead letters, until a later change of their key won."""
    skipped: SkippedRecords = field(default_factory=dict)
    """Records that `CALL sys.skip_record` left out. A marker names those of them that the lake has passed.

    The log may have other records at these offsets by now. So code that reads the log calls `tiering.cluster.skipping` first.
    """

    @property
    def was_tiered(self) -> bool:
        """Whether a record outside of the lake shows that rounds of this table wrote to the lake table."""
        return bool(self.recorded) or self.passed_head is not None


@dataclass(frozen=True)
class Base:
    """A lake table that passed the base check. `ahead`: the lake has more than the records, so the coordinator adopts that first."""

    view: LakeView | None
    marker: Marker | None
    ahead: bool

    @property
    def ranges(self) -> Mapping[BucketKey, TieredRange]:
        """Per bucket the range that is tiered; the next round continues at its end."""
        return {} if self.view is None else self.view.ranges

    @property
    def newest(self) -> int | None:
        """The newest tiering snapshot, of Lakeward or of another tiering service."""
        if self.view is None:
            return None
        return self.view.tiered if self.view.foreign is None else self.view.foreign.newest

    @property
    def moved_back(self) -> Collection[BucketKey]:
        """Buckets that the next round replays, because another tiering service set some of their keys back."""
        return () if self.view is None or self.view.foreign is None else self.view.foreign.moved_back

    @property
    def needs_commit(self) -> bool:
        """Whether a round must commit even if it has nothing to tier, because only a commit corrects the cluster's record."""
        return self.view is not None and self.view.foreign is not None and self.view.foreign.needs_commit


class CommitOutcome(StrEnum):
    """The outcome of a commit request."""

    OURS = "OURS"
    OTHER_ROUND = "OTHER_ROUND"
    NOT_FOUND = "NOT_FOUND"


@dataclass(frozen=True)
class ResolvedCommit:
    """The outcome of a commit request. `snapshot_id` is set only for OURS."""

    outcome: CommitOutcome
    snapshot_id: int | None = None


def check_base(view: LakeView | None, expected: ExpectedLake) -> Base:
    """Returns the base on which a round may build.

    Raises LakeTableReplaced, MarkerLost, UntrackedLakeTable, ForeignTiering, ForeignTieringOverlap, ForeignTieringGap, MarkerCorrupt,
    ClusterMismatch, TableMismatch, RecordAheadOfLake, LakeRolledBack or HistoryExpired. All are permanent errors. In none of these cases
    is a row skipped or doubled.
    """
    if view is None:
        _check_absent(expected)
        return Base(None, None, False)
    _check_uuid(view, expected)
    if view.tiered is None:
        if view.foreign is None:
            _check_untiered(view, expected)
        elif view.foreign.problem is not None:
            raise view.foreign.problem
        return Base(view, None, False)
    marker = _tiered_marker(view)
    _check_identity(view, marker, expected)
    if view.foreign is not None and expected.shared is not None:
        return _shared_base(view, view.tiered, marker, view.foreign, expected.shared)
    for record in expected.recorded:
        _check_not_ahead(view, view.tiered, marker, record, expected.living)
    check_history(view, view.tiered, expected.passed_head)
    ahead = not expected.recorded or any(_is_behind(record, view.tiered, marker) for record in expected.recorded)
    return Base(view, marker, ahead)


def _shared_base(view: LakeView, newest: int, marker: Marker, walk: ForeignWalk, records: SharedRecords) -> Base:
    """Returns the base of a table that another service tiers too. `walk` is what that service added."""
    own = records.own
    if walk.problem is not None:
        raise walk.problem
    if own is not None and records.own_round != marker.round_id and not _is_still_there(view, own, records.own_round):
        _check_not_ahead(view, newest, marker, own, None, is_shared=True)
    moved_back = walk.moved_back != records.moved_back
    ahead = own is None or (own.lake_snapshot_id, dict(own.offsets)) != (walk.newest, walk.ends) or moved_back
    return Base(view, marker, ahead or walk.needs_notification)


def _is_still_there(view: LakeView, own: RecordedLakeSnapshot, own_round: str | None) -> bool:
    """Whether the recorded snapshot still exists. Where the format reuses snapshot ids, the round id decides: `own_round` is that of the
    marker when the snapshot was recorded."""
    snapshot = view.snapshots.get(own.lake_snapshot_id)
    if snapshot is None or snapshot.mark is None:
        return snapshot is not None
    return any(other.round_id == own_round for other in view.snapshots.values())


def needs_living(view: LakeView | None, recorded: Iterable[RecordedLakeSnapshot]) -> bool:
    """Whether a record names a partition that the marker lacks. Only `living` tells whether it was dropped or the lake lost it."""
    if view is None or view.marker is None:
        return False
    expected = {bucket.partition_id for bucket in view.marker.buckets} | {None}
    return any(bucket.partition_id not in expected for record in recorded for bucket in record.offsets)


def check_same_base(base: Base, fresh_view: LakeView | None, expected: ExpectedLake) -> Base:
    """Repeats the whole base check after a commit failed, and returns the new base. Requires that the marker did not change.

    The results of the first check count as known: the table's uuid, the head, and the partitions that the marker lacks. Raises Fenced if
    another round or service tiered the table since.
    """
    expected = replace(expected, living=None)
    if base.view is not None:
        passed = expected.passed_head if base.view.head is None else base.view.head_identity
        expected = replace(expected, lake_table_uuid=expected.lake_table_uuid or base.view.table_uuid, passed_head=passed)
    checked = check_base(fresh_view, expected)
    before, now = (None if checked_base.view is None else checked_base.view.tiered for checked_base in (base, checked))
    if checked.marker != base.marker or before != now or _walked_on(base, checked):
        raise Fenced(
            f"another round or service tiered the table during this round: the lake's marker is that of round {_round_id(checked.marker)} "
            f"(snapshot {now}), but this round builds on round {_round_id(base.marker)} (snapshot {before})",
            table_id=expected.table_id,
            round_id=_round_id(checked.marker),
        )
    return checked


def _walked_on(base: Base, checked: Base) -> bool:
    """Whether another service added rows or moved an end since `base`. The round then writes its files again, even for equal ends."""
    walks = [None if entry.view is None else entry.view.foreign for entry in (base, checked)]
    added = [None if walk is None else walk.newest_added for walk in walks]
    return added[0] != added[1] or dict(base.ranges) != dict(checked.ranges)


def resolve_commit(view: LakeView | None, round_id: str, base: Base) -> ResolvedCommit:
    """Returns what became of this round's commit request, according to a fresh view.

    OURS: a snapshot carries this round's id. OTHER_ROUND: the newest tiering commit is not that of the base, so another round tiered.
    NOT_FOUND: only foreign commits came, or none. A late request may still arrive, and its compare-and-set is then checked by the lake.
    """
    if view is None:
        return ResolvedCommit(CommitOutcome.NOT_FOUND)
    own_snapshots = [snapshot for snapshot in view.snapshots.values() if snapshot.round_id == round_id]
    if own_snapshots:
        return ResolvedCommit(CommitOutcome.OURS, max(own_snapshots, key=lambda snapshot: snapshot.sequence_number).snapshot_id)
    same_table = base.view is None or base.view.table_uuid == view.table_uuid
    if same_table and view.marker is not None and _round_id(view.marker) != _round_id(base.marker):
        return ResolvedCommit(CommitOutcome.OTHER_ROUND)
    return ResolvedCommit(CommitOutcome.NOT_FOUND)


def reaches(ranges: Mapping[BucketKey, TieredRange], targets: Offsets, log_starts: Offsets, living: Collection[int] = ()) -> bool:
    """Whether every record below `targets` is in the lake.

    An empty bucket that was never tiered counts as reached. So does a bucket of a partition that is not in `living`: the partition was
    dropped, so nothing of it is left to tier, and markers drop its entries.
    """
    return all(
        (ranges[bucket].tiered if bucket in ranges else log_starts.get(bucket, 0)) >= target
        for bucket, target in targets.items()
        if bucket.partition_id is None or bucket.partition_id in living
    )


def tiered_offsets(marker: Marker | None) -> dict[BucketKey, int]:
    """Per bucket the next offset to tier; empty without a marker."""
    return {} if marker is None else marker.ends


def _round_id(marker: Marker | None) -> str | None:
    return None if marker is None else marker.round_id


def _check_absent(expected: ExpectedLake) -> None:
    if expected.lake_table_uuid is not None:
        raise LakeTableReplaced(
            f"the lake table of {expected.path or f'table {expected.table_id}'} is gone; its uuid was {expected.lake_table_uuid}",
            hint=absent_hint(expected.path),
            table_id=expected.table_id,
            lake_table_uuid=expected.lake_table_uuid,
        )
    if expected.recorded:
        raise MarkerLost(
            f"there is no lake table, but {expected.path or f'table {expected.table_id}'} is recorded as tiered up to lake snapshot "
            f"{expected.recorded[0].lake_snapshot_id}",
            hint="Is this the right lake catalog? If so, put the lake table back into it, then "
            f"{tier_call(expected.path)}. Or let Lakeward create a new lake table and fill it with what KV snapshots and the log "
            f"still hold: {reconcile_call(expected.path, 'retier')}.",
            table_id=expected.table_id,
            lake_snapshot_id=expected.recorded[0].lake_snapshot_id,
        )


def _check_uuid(view: LakeView, expected: ExpectedLake) -> None:
    if expected.lake_table_uuid is not None and expected.lake_table_uuid != view.table_uuid:
        alternative = f"Or keep this lake table: {continue_hint(view)}"
        if not (is_empty(view) or view.marker or expected.was_tiered):
            alternative = f"Or: {new_table_hint(view.path)}"  # nothing tells where the rows came from
        raise LakeTableReplaced(
            f"the lake table {view.path} was replaced: its uuid is {view.table_uuid}, this table was tiered to {expected.lake_table_uuid}",
            hint=f"Put the former lake table back in its place, then {tier_call(view.path)}. {alternative}",
            table_path=view.path,
            lake_table_uuid=view.table_uuid,
        )


def _check_untiered(view: LakeView, expected: ExpectedLake) -> None:
    """Raises a permanent error for a table without a tiering commit that has any snapshot or was tiered before."""
    reference = view.reference or "marker"
    foreign = [snapshot for snapshot in view.snapshots.values() if is_foreign_tiering(snapshot)]
    if foreign:
        raise foreign_tiering(view, max(foreign, key=lambda snapshot: snapshot.sequence_number))
    rounds = [snapshot for snapshot in view.snapshots.values() if snapshot.round_id is not None]
    if rounds:
        newest = max(rounds, key=lambda snapshot: snapshot.sequence_number)
        raise MarkerLost(
            f"the lake table {view.path} has no {reference} any more, but round {newest.round_id} wrote its snapshot {newest.snapshot_id}",
            hint=_reference_hint(view, f"snapshot {newest.snapshot_id} again, the newest of a Lakeward round"),
            table_path=view.path,
            lake_snapshot_id=newest.snapshot_id,
        )
    if expected.was_tiered:
        raise MarkerLost(
            f"the lake table {view.path} has neither the {reference} nor a snapshot of a Lakeward round, but was tiered before",
            hint=f"Restore the lake table's former state, then {tier_call(view.path)}. Or keep it as it is: {continue_hint(view)}",
            table_path=view.path,
        )
    if view.snapshots:
        raise UntrackedLakeTable(
            f"the lake table {view.path} has {len(view.snapshots)} snapshots, but none of them was tiered by Lakeward",
            hint=f"{adopt_hint(view.path)} Otherwise: {new_table_hint(view.path)}",
            table_path=view.path,
        )


def _tiered_marker(view: LakeView) -> Marker:
    if view.tiered not in view.snapshots or view.marker is None:
        raise MarkerCorrupt(
            f"the lake table {view.path} has no marker in its newest tiering commit: {newest_tiering_commit(view)}",
            hint=_reference_hint(view, "the newest snapshot that a Lakeward round wrote"),
            table_path=view.path,
            lake_snapshot_id=view.tiered,
        )
    return view.marker


def _reference_hint(view: LakeView, snapshot: str) -> str:
    """Returns the advice to set the format's reference on `snapshot`, if the format has one, or to keep the lake table as it is."""
    if view.reference is None:
        return f"Keep it as it is: {continue_hint(view)}"
    return f"Set the {view.reference} on {snapshot}, then {tier_call(view.path)}. Or keep it as it is: {continue_hint(view)}"


def _check_identity(view: LakeView, marker: Marker, expected: ExpectedLake) -> None:
    if marker.cluster_id != expected.cluster_id:
        raise ClusterMismatch(
            f"the lake table {view.path} was tiered from cluster {marker.cluster_id}; this is cluster {expected.cluster_id}",
            hint=f"Two clusters must not share a lake. Configure another lake for this cluster. Or: {new_table_hint(view.path)}",
            table_path=view.path,
            cluster_id=marker.cluster_id,
        )
    if marker.table_id != expected.table_id:
        raise TableMismatch(
            f"the lake table {view.path} was tiered from another table of the same name: its table id is {marker.table_id}, "
            f"the source table's id is {expected.table_id}",
            hint=f"Was the source table dropped and recreated? {new_table_hint(view.path)} A copy of its rows can be adopted: see "
            "docs/adopt.md.",
            table_path=view.path,
            table_id=marker.table_id,
        )
    if marker.lake_table_uuid != view.table_uuid:
        raise LakeTableReplaced(
            f"the marker in the lake table {view.path} was written for the lake table {marker.lake_table_uuid}; "
            f"this one is {view.table_uuid}",
            hint=f"Is it a copy? Put the original back in its place, then {tier_call(view.path)}. Or keep it as it is: "
            + continue_hint(view),
            table_path=view.path,
            lake_table_uuid=view.table_uuid,
        )


def _check_not_ahead(
    view: LakeView,
    newest: int,
    marker: Marker,
    record: RecordedLakeSnapshot,
    living: Collection[int] | None,
    *,
    is_shared: bool = False,
) -> None:
    """Raises an error if a record has more than the newest marker.

    ForeignTiering: another tiering service committed since, and no other service may tier the table. RecordAheadOfLake otherwise.
    """
    tiered = marker.ends
    partitions = {bucket.partition_id for bucket in marker.buckets}
    for bucket in sorted(record.offsets, key=BucketKey.sort_key):
        offset = record.offsets[bucket]
        # A marker drops the entries of a dropped partition. A record that is behind the marker may still have them.
        is_dropped = living is None or bucket.partition_id not in living
        vanished = bucket.partition_id is not None and bucket.partition_id not in partitions and is_dropped
        if offset > tiered.get(bucket, 0) and not vanished:
            foreign = _newer_foreign(view, newest)
            if foreign is not None and not is_shared:
                raise foreign_tiering(view, foreign)
            surplus = f"bucket {bucket} up to offset {offset}, and the lake up to {tiered.get(bucket, 0)}"
            raise _ahead(view, marker, record, surplus, foreign)
    recorded = view.snapshots.get(record.lake_snapshot_id)
    if recorded is not None and recorded.sequence_number > view.snapshots[newest].sequence_number:
        raise _ahead(view, marker, record, f"the newer lake snapshot {record.lake_snapshot_id}")


def _newer_foreign(view: LakeView, newest: int) -> LakeSnapshot | None:
    """Returns the newest snapshot of another tiering service that is newer than Lakeward's newest tiering commit; None if there is none."""
    floor = view.snapshots[newest].sequence_number
    newer = [snapshot for snapshot in view.snapshots.values() if is_foreign_tiering(snapshot) and snapshot.sequence_number > floor]
    return max(newer, key=lambda snapshot: snapshot.sequence_number, default=None)


def _ahead(
    view: LakeView, marker: Marker, record: RecordedLakeSnapshot, surplus: str, foreign: LakeSnapshot | None = None
) -> RecordAheadOfLake:
    """Returns the error for a record that is ahead of the lake.

    `foreign` is a newer snapshot of the other service that tiers the table. Its commit can replace Lakeward's (docs/fluss-shared.md).
    """
    moved = "" if view.reference is None else f", or was its {view.reference} moved back"
    replaced = "" if foreign is None else f", or did snapshot {foreign.snapshot_id} of the other service replace one of Lakeward's"
    return RecordAheadOfLake(
        f"the lake table {view.path} is at round {marker.round_id} (snapshot {view.tiered}); recorded as tiered: {surplus}",
        hint=f"Was the lake rolled back or restored from a backup{moved}{replaced}? Restore its newest state, then "
        f"{tier_call(view.path)}. Or tier the missing rows again: {reconcile_call(view.path, 'retier')}.",
        table_path=view.path,
        lake_snapshot_id=record.lake_snapshot_id,
    )


def _is_behind(record: RecordedLakeSnapshot, newest: int, marker: Marker) -> bool:
    return record.lake_snapshot_id != newest or any(end > record.offsets.get(bucket, 0) for bucket, end in marker.ends.items())


def is_of_another(table: TableInfo, view: LakeView) -> bool:
    """Returns whether the base check refuses this lake table, which belongs to another source table: then nothing in it is changed."""
    return bool(view.snapshots) if view.marker is None else view.marker.table_id != table.table_id
