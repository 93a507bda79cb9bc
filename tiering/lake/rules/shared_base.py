"""The base check of a lake table that another tiering service tiers too (docs/fluss-facts.md H2, DESIGN 6 step 2). Pure.

The walk begins at Lakeward's newest tiering commit, or at the head that the last check passed, whose ends the coordinator remembers. It
follows the main branch over the foreign tiering snapshots and keeps a running end per bucket (`foreign_walk`). Rows without gaps and
doubles are adopted at once. After a check, the cluster's record must name the newest tiering snapshot, with exactly the ends of the walk:

    the record does so                         nothing to do
    the newest tiering snapshot is Lakeward's,
    and the record is behind it                the coordinator notifies the cluster
    anything else: the newest is foreign,      a round commits, with an empty marker if there is nothing to tier, and the coordinator
    the record is ahead, or its snapshot or    notifies the cluster of that commit. A notification of a foreign snapshot would
    its file of offsets is gone                race with the service that made it

Only the offset bounds of files that a foreign snapshot added decide. The bounds of files that are merely live decide nothing. Rows of a
clean layout carry no offsets. So all rows that the foreign snapshots added are compared with the log at once (`clean_comparison`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tiering.errors import (
    ForeignTiering,
    ForeignTieringUnproved,
    LakeRolledBack,
    LakeUnavailable,
    PermanentTieringError,
    RecordAheadOfLake,
)
from tiering.lake.base import LakeSnapshot, LakeView
from tiering.lake.foreign import ForeignReaders, ForeignSnapshot, ForeignWalk, SharedRecords
from tiering.lake.marker import TieredRange
from tiering.lake.rules.clean_comparison import ForeignHistory, check_former, compared_ends, highest
from tiering.lake.rules.foreign_walk import RunningEnds
from tiering.lake.rules.former_rows import Partitions, in_groups
from tiering.lake.rules.hints import reconcile_call, tier_call
from tiering.lake.rules.history import check_newest_round, expired, is_foreign_tiering, rolled_back
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey, Offsets, TableType

_FIRST_SEQUENCE_NUMBER = 1
"""Sequence number of a table's first snapshot (Iceberg spec, "Sequence Numbers"). A branch that begins with it is complete."""


@dataclass(frozen=True)
class _BranchSection:
    """The part of the main branch that is walked, oldest first, and the ends with which the walk begins."""

    snapshots: tuple[LakeSnapshot, ...]
    ranges: dict[BucketKey, TieredRange]
    moved_back: frozenset[BucketKey]
    is_whole: bool = True
    """False if older snapshots are gone and the walk met none of Lakeward's."""
    begins_at: int | None = None
    """The snapshot before the first one of the walk. None = the walk begins with the table's first snapshot, or none is left."""


def walked(view: LakeView, records: SharedRecords, passed_head: int | None, table_type: TableType, readers: ForeignReaders) -> LakeView:
    """Returns `view` with the walk of another tiering service's commits; unchanged if nothing shows that any service tiered the table."""
    marked = view.tiered is not None and view.tiered in view.snapshots and view.marker is not None
    foreign = any(is_foreign_tiering(snapshot) for snapshot in view.snapshots.values())
    has_own = any(snapshot.round_id is not None for snapshot in view.snapshots.values())
    if not marked and (view.tiered is not None or has_own or not foreign):
        return view  # the base check reports what is wrong, if anything is
    try:
        section = _branch_section(view, records, passed_head, table_type)
        walk = _walk(view, records, table_type, section, readers)
    except PermanentTieringError as problem:
        return replace(view, foreign=ForeignWalk({}, problem=problem))
    return replace(view, foreign=walk)


def _branch_section(view: LakeView, records: SharedRecords, passed_head: int | None, table_type: TableType) -> _BranchSection:
    """Returns the snapshots since the passed head or since the newest tiering commit, whichever the branch meets first."""
    marker, tiered = view.marker, view.tiered
    remembered = records.own if marker is not None and records.own_round == marker.round_id else None
    ranges = {} if marker is None else dict(marker.buckets)
    if tiered is not None:
        check_newest_round(view, view.snapshots[tiered])
    if view.head is None:
        if tiered is not None:
            raise rolled_back(view, tiered, "its main branch has no snapshot")
        return _BranchSection((), ranges, frozenset())
    since: list[LakeSnapshot] = []
    visited: set[int] = set()
    current: int | None = view.head
    while current is not None and current not in visited:
        visited.add(current)
        if current == tiered:
            _check_passed_head(view, records, remembered, passed_head)
            return _BranchSection(tuple(reversed(since)), ranges, frozenset(), begins_at=current)
        if view.identity_of(current) == passed_head and remembered is not None:
            return _BranchSection(tuple(reversed(since)), _remembered_ranges(ranges, remembered), records.moved_back, begins_at=current)
        snapshot = view.ancestor(current)
        if snapshot is None or (is_foreign_tiering(snapshot) and current not in view.snapshots):
            break  # nothing tells what an expired snapshot of the other service added
        if tiered is not None and snapshot.sequence_number <= view.snapshots[tiered].sequence_number:
            raise rolled_back(view, tiered, f"its main branch at {view.head} goes back to the older snapshot {current}")
        since.append(snapshot)
        current = snapshot.parent_id
    if tiered is not None:
        raise expired(view, tiered, may_accept=table_type is TableType.LOG)
    whole = current is None and bool(since) and since[-1].sequence_number == _FIRST_SEQUENCE_NUMBER
    return _BranchSection(tuple(reversed(since)), ranges, frozenset(), is_whole=whole)


def _remembered_ranges(marked: dict[BucketKey, TieredRange], remembered: RecordedLakeSnapshot) -> dict[BucketKey, TieredRange]:
    starts = {bucket: tiered.start for bucket, tiered in marked.items()}
    return {bucket: TieredRange(min(starts.get(bucket, 0), end), end) for bucket, end in remembered.offsets.items()}


def _check_passed_head(view: LakeView, records: SharedRecords, remembered: RecordedLakeSnapshot | None, passed_head: int | None) -> None:
    """Raises LakeRolledBack if an earlier check passed a newer head whose ends differ from those of the newest tiering commit."""
    marker = view.marker
    if remembered is None or marker is None or view.tiered is None or passed_head in (None, view.identity_of(view.tiered)):
        return
    marked = marker.ends
    lost = {bucket for bucket, end in remembered.offsets.items() if end != marked.get(bucket, 0)}
    if lost or records.moved_back:
        raise LakeRolledBack(
            f"the lake table {view.path} was rolled back: {_former_head(view, passed_head)}, which an earlier check passed, is no longer "
            "on its main branch",
            hint=f"Set the main branch to it again, then {tier_call(view.path)}. Or keep it rolled back: "
            f"{reconcile_call(view.path, 'retier')} (missing rows are tiered again).",
            table_path=view.path,
            lake_snapshot_id=passed_head,
        )


def _former_head(view: LakeView, passed_head: int | None) -> str:
    """Returns a name for the former head. Where the format reuses snapshot ids, the id would be misleading."""
    reuses_ids = any(snapshot.mark is not None for snapshot in view.snapshots.values())
    return "the snapshot that was its head" if reuses_ids else f"the snapshot {passed_head}"


def _walk(view: LakeView, records: SharedRecords, table_type: TableType, section: _BranchSection, readers: ForeignReaders) -> ForeignWalk:
    foreign = [snapshot for snapshot in section.snapshots if is_foreign_tiering(snapshot)]
    newest = foreign[-1].snapshot_id if foreign else _newest_before(view, section)
    recorded: Offsets = records.cluster.offsets if records.cluster is not None and records.cluster.lake_snapshot_id == newest else {}
    # Where snapshot ids are reused, the record may be of a former snapshot of this id. So it proves nothing for rows without offsets.
    certain = recorded if newest is not None and view.identity_of(newest) == newest else {}
    newest_added: int | None = None
    if not section.is_whole:
        raise _history_unknown(view, foreign)
    contents_of = [readers.snapshot(snapshot.snapshot_id) for snapshot in foreign]
    stated = highest([*(contents.offsets for contents in contents_of), recorded])
    offsets_of = {} if newest is None else {newest: certain}
    partitions = Partitions(frozenset(readers.living()) if contents_of else (), section.ranges, readers.log_begin, stated, offsets_of)
    # Rows of dropped partitions can be among the rows from before the walk, and among those that the walk meets.
    may_hold_former = section.begins_at is not None or bool(section.ranges) or partitions.may_have_dropped_rows(contents_of)
    ends = RunningEnds(view, table_type, section.ranges, section.moved_back, readers, partitions, may_hold_former=may_hold_former)
    for snapshot, contents in zip(foreign, contents_of, strict=True):
        if not contents.has_clean_rows:
            ends.take(contents, certain if snapshot.snapshot_id == newest else {})
        if contents.adds_rows:
            newest_added = snapshot.identity
    # `_take_clean` checks ends against the log. So a record of an uncertain snapshot is used where no other statement is left.
    record = certain if contents_of and contents_of[-1].offsets else recorded
    stated = highest([*(contents.offsets for contents in contents_of), record])
    is_lossless = not partitions.may_have_dropped_rows(contents_of)
    clean = ForeignHistory(view, table_type, section.begins_at, ends.ranges, stated, is_lossless)
    _take_clean(clean, contents_of, ends, readers, partitions)
    beyond = ends.pass_row_less(recorded)
    # The marker tells the ends of Lakeward's own snapshot. A record of a former snapshot of the same id does not show that rows are gone.
    is_evidence = bool(certain) or newest != view.tiered
    if beyond and is_evidence and table_type is TableType.LOG:
        return ForeignWalk(dict(ends.ranges), newest, problem=_record_ahead(view, newest, beyond, ends.ranges))
    walk = ForeignWalk(dict(ends.ranges), newest, newest_added, frozenset(ends.moved_back | ends.left_out))
    return _with_notification(view, records, walk)


def _take_clean(
    clean: ForeignHistory, snapshots: Sequence[ForeignSnapshot], ends: RunningEnds, readers: ForeignReaders, partitions: Partitions
) -> None:
    """Moves the ends on behind rows that carry no offsets. Raises ForeignTieringUnproved or LakeUnavailable."""
    clean_snapshots = [contents for contents in snapshots if contents.adds_rows and contents.has_clean_rows]
    if not clean_snapshots:
        return
    unread = next((contents.unread for contents in snapshots if contents.unread), "")
    try:
        check_former(clean, partitions, clean_snapshots)
        for snapshot_ids, members in in_groups(partitions, clean_snapshots):
            compared = compared_ends(clean, readers.clean_rows(snapshot_ids, members), readers.log_sums)
            ends.ranges.update(compared.ranges)
            ends.moved_back |= compared.moved_back
    except ForeignTieringUnproved as unproved:
        if unread:  # a file of offsets could not be read, and a later attempt may prove the rows
            raise LakeUnavailable(unread, hint="The next attempt reads it again.", table_path=clean.view.path) from unproved
        raise
    ends.pass_row_less(clean.stated)


def _newest_before(view: LakeView, section: _BranchSection) -> int | None:
    """Returns the newest tiering snapshot at or before the begin of the stretch, for a stretch without foreign snapshots."""
    current = section.snapshots[0].parent_id if section.snapshots else view.head
    while current is not None and current != view.tiered:
        snapshot = view.snapshots.get(current)
        if snapshot is None or is_foreign_tiering(snapshot):
            return current if snapshot is not None else view.tiered
        current = snapshot.parent_id
    return view.tiered


def _history_unknown(view: LakeView, foreign: list[LakeSnapshot]) -> ForeignTiering:
    """Returns the error for the first check of a table whose older snapshots expired: nothing tells what those snapshots added."""
    newest = max(foreign or view.snapshots.values(), key=lambda snapshot: snapshot.sequence_number)
    return ForeignTiering(
        f"another tiering service tiered the lake table {view.path} up to snapshot {newest.snapshot_id}; older snapshots expired before "
        "Lakeward read them, so Lakeward cannot tell which rows they added",
        hint=f"For a log table {reconcile_call(view.path, 'deduplicate')} reads the rows and takes it over. For a primary-key table: "
        f"{reconcile_call(view.path, 'retier')} (from its log or KV snapshots; refused if it could remove rows of dropped partitions) or "
        f"{reconcile_call(view.path, 'adopt')} (as it is, with keys that the other service may have doubled or set back).",
        table_path=view.path,
        lake_snapshot_id=newest.snapshot_id,
    )


def _record_ahead(
    view: LakeView, newest: int | None, beyond: dict[BucketKey, int], ranges: dict[BucketKey, TieredRange]
) -> RecordAheadOfLake:
    bucket = min(beyond, key=BucketKey.sort_key)
    end = ranges[bucket].tiered if bucket in ranges else 0
    return RecordAheadOfLake(
        f"the cluster records that snapshot {newest} of the lake table {view.path} holds bucket {bucket} up to offset "
        f"{beyond[bucket]}, but the rows of the lake end at {end}",
        hint=f"Was the lake table rolled back? Restore its newest state, then {tier_call(view.path)}. Or tier the missing rows: "
        f"{reconcile_call(view.path, 'retier')}.",
        table_path=view.path,
        bucket=bucket,
        lake_snapshot_id=newest,
    )


def _with_notification(view: LakeView, records: SharedRecords, walk: ForeignWalk) -> ForeignWalk:
    """Returns `walk` with what corrects the cluster's record: nothing, a notification (`needs_notification`), or a commit."""
    newest = None if walk.newest is None else view.snapshots.get(walk.newest)
    floor = -1 if newest is None else newest.sequence_number
    # The other service's own check also counts snapshots that left the branch. Only a newer snapshot of Lakeward's takes their place.
    overtaken = any(
        (snapshot.round_id is not None or is_foreign_tiering(snapshot)) and snapshot.sequence_number > floor
        for snapshot in view.snapshots.values()
    )
    new_buckets = view.marker is None or any(bucket not in view.marker.buckets for bucket in walk.ranges)
    if overtaken or new_buckets or not records.is_readable:
        return replace(walk, needs_commit=True)
    if is_exact(walk, records.cluster):
        return walk
    if can_notify(view, records.cluster, walk):
        return replace(walk, needs_notification=True)
    return replace(walk, needs_commit=True)


def is_exact(walk: ForeignWalk, record: RecordedLakeSnapshot | None) -> bool:
    """Whether the record names the newest tiering snapshot with exactly the ends of the walk. Dropped partitions do not count."""
    if record is None or record.lake_snapshot_id != walk.newest:
        return False
    ends = walk.ends
    has_extra = any(offset > 0 for bucket, offset in record.offsets.items() if bucket not in ends and bucket.partition_id is None)
    return not has_extra and all(record.offsets.get(bucket, 0) == end for bucket, end in ends.items())


def can_notify(view: LakeView, record: RecordedLakeSnapshot | None, walk: ForeignWalk) -> bool:
    """Whether a notification of the newest tiering snapshot corrects the cluster's record: it is Lakeward's and newer than the record's."""
    as_marked = view.marker is not None and walk.ranges == view.marker.buckets and not walk.moved_back
    return walk.newest == view.tiered and as_marked and _is_older(view, record, walk)


def _is_older(view: LakeView, record: RecordedLakeSnapshot | None, walk: ForeignWalk) -> bool:
    """Whether the record is of an older snapshot than the newest tiering one.

    A snapshot that is gone counts as older if the record is nowhere ahead. Partitions without an end do not count: they were dropped,
    and only a new record removes their offsets.
    """
    if record is None:
        return True
    named, newest = view.snapshots.get(record.lake_snapshot_id), view.snapshots.get(walk.newest or -1)
    if newest is None:
        return False
    if record.lake_snapshot_id == walk.newest:  # where ids are reused: a former snapshot of this id
        return newest.mark is not None
    if named is not None:
        return named.sequence_number < newest.sequence_number
    ends = walk.ends
    return all(offset <= ends.get(bucket, 0) for bucket, offset in record.offsets.items() if bucket in ends or bucket.partition_id is None)
