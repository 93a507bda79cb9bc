"""A lake table as a value, and what the product's own rules say of it.

One table with one bucket, whose rows are offsets. Every call of `tiering.lake.rules` goes through here and is remembered: a search asks
the same thing a million times.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from faults.model.exclusive.rules import Rule

from tiering.cluster.base import check_goes_on
from tiering.errors import CannotReconcile, LakewardError
from tiering.lake.base import Committable, LakeSnapshot, LakeView, WriteResult
from tiering.lake.maintenance import LakeSurvey
from tiering.lake.marker import Marker, TieredRange
from tiering.lake.rules.base_check import Base, CommitOutcome, ExpectedLake, check_base, check_same_base, resolve_commit
from tiering.lake.rules.commit_check import check_committable
from tiering.lake.rules.contiguous_offsets import RowOffsets
from tiering.lake.rules.reconcile import ReconcileAction, ReconcileInput, accepted, behind_rows, check_own, retiered
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey, BucketOffsets, TableInfo, TablePath, TableType
from tiering.model.upkeep import UpkeepOrder
from tiering.planning.check_log import check_reachable
from tiering.planning.plan_splits import contiguous_prefix

PATH = TablePath("sales", "orders")
BUCKET = BucketKey(None, 0)
CLUSTER = "cluster-1"
WHEN = datetime(2026, 1, 1, tzinfo=UTC)
TABLE = TableInfo(1, PATH, TableType.LOG, pa.schema([pa.field("id", pa.int64())]), 1, WHEN, lake_enabled=True)

Row = tuple[int, int]
"""A row: the id of its source table, and its offset."""
Position = tuple[str, Row]
"""A data file, and a row of it."""
Split = tuple[int, int]
"""Offsets `[start, stop)`."""


class Mark(NamedTuple):
    """The marker of a snapshot: rows `[start, tiered)` are in the lake."""

    round_id: int
    table_id: int
    uuid: int
    epoch: int
    base: int | None
    start: int
    tiered: int


class DataFile(NamedTuple):
    """A file with its rows."""

    name: str
    rows: tuple[Row, ...]


class Snapshot(NamedTuple):
    """`deleted` are the positions that delete files of the snapshot name: the file, and a row of it."""

    id: int
    parent: int | None
    data: tuple[DataFile, ...]
    mark: Mark | None
    deleted: frozenset[Position] = frozenset()

    @property
    def rows(self) -> tuple[Row, ...]:
        """Rows that a reader sees."""
        return tuple(row for file in self.data for row in file.rows if (file.name, row) not in self.deleted)

    @property
    def files(self) -> frozenset[str]:
        """The names of the data files that it needs."""
        return frozenset(file.name for file in self.data)

    def without_content(self) -> Snapshot:
        """The snapshot as the history of a table tells of it."""
        return self._replace(data=(), deleted=frozenset())


class LakeTable(NamedTuple):
    """Ids of snapshots grow with every commit, and are their sequence numbers. `tag` names the newest tiering commit.

    `was_set_back`: a user made a former tiering commit the newest one again. `expired`: snapshots that former metadata still names.
    `tags`: snapshots that users named, each by a tag.
    """

    uuid: int
    head: int | None = None
    tag: int | None = None
    snapshots: tuple[Snapshot, ...] = ()
    next_id: int = 1
    was_set_back: bool = False
    expired: tuple[Snapshot, ...] = ()
    tags: frozenset[int] = frozenset()

    def snapshot(self, snapshot_id: int | None) -> Snapshot | None:
        """The snapshot of this id, if it is still there."""
        return next((snapshot for snapshot in self.snapshots if snapshot.id == snapshot_id), None)

    @property
    def rows(self) -> tuple[Row, ...]:
        """Rows that a reader of the head sees."""
        head = self.snapshot(self.head)
        return () if head is None else head.rows

    @property
    def data(self) -> tuple[DataFile, ...]:
        """The files of the head."""
        head = self.snapshot(self.head)
        return () if head is None else head.data

    @property
    def deleted(self) -> frozenset[Position]:
        """Positions that delete files of the head name."""
        head = self.snapshot(self.head)
        return frozenset() if head is None else head.deleted

    @property
    def marker(self) -> Mark | None:
        tagged = self.snapshot(self.tag)
        return None if tagged is None else tagged.mark

    @property
    def files(self) -> frozenset[str]:
        """All files that any snapshot needs."""
        return frozenset[str]().union(*(snapshot.files for snapshot in self.snapshots))

    @property
    def is_rolled_back(self) -> bool:
        """Whether the main branch goes back behind the newest tiering commit."""
        current = self.head
        while current is not None and current != self.tag and current > (self.tag or 0):
            snapshot = self.ancestor(current)
            if snapshot is None:
                return False
            current = snapshot.parent
        return current != self.tag

    def ancestor(self, snapshot_id: int | None) -> Snapshot | None:
        """The snapshot of this id, also one that expired and is still known."""
        known = (*self.snapshots, *self.expired)
        return next((snapshot for snapshot in known if snapshot.id == snapshot_id), None)

    def with_expired(self, kept: Collection[int | None], *, forgets: bool) -> LakeTable:
        """After all other snapshots expired. `forgets`: and deleted the former metadata, so that nothing tells what they were."""
        lost = tuple(snapshot.without_content() for snapshot in self.snapshots if snapshot.id not in kept)
        left = tuple(snapshot for snapshot in self.snapshots if snapshot.id in kept)
        return self._replace(snapshots=left, expired=() if forgets else (*self.expired, *lost))

    def with_snapshot(self, data: tuple[DataFile, ...], mark: Mark | None = None, deleted: frozenset[Position] = frozenset()) -> LakeTable:
        """After a commit on the head; one with a marker moves the tag."""
        added = Snapshot(self.next_id, self.head, data, mark, deleted)
        tag = self.tag if mark is None else added.id
        return self._replace(head=added.id, tag=tag, snapshots=(*self.snapshots, added), next_id=self.next_id + 1)

    def trimmed(self) -> LakeTable:
        """Returns the part of its base that a round keeps."""
        kept = tuple(
            snapshot.without_content()._replace(parent=None) for snapshot in self.snapshots if snapshot.id in (self.head, self.tag)
        )
        return LakeTable(self.uuid, self.head, self.tag, kept, self.next_id)


class Copy(NamedTuple):
    """The record of the lake in the coordinator or the cluster."""

    snapshot_id: int
    tiered: int


class Known(NamedTuple):
    """Inputs of a base check beside the lake (`ExpectedLake`)."""

    table_id: int
    uuid: int | None
    passed_head: int | None
    own: Copy | None
    cluster: Copy | None


class Checked(NamedTuple):
    """A base that passed. `ahead`: the lake has more than is recorded."""

    lake: LakeTable | None
    ahead: bool


@cache
def base_check(lake: LakeTable | None, known: Known, rules: frozenset[Rule]) -> Checked | str:
    """`check_base`; the class of its error if it raises."""
    try:
        base = check_base(_view(lake, known.table_id, rules), _known(known))
    except LakewardError as error:
        return error.error_class
    return Checked(None if lake is None else lake.trimmed(), base.ahead)


@cache
def same_base(base: LakeTable | None, again: LakeTable | None, known: Known, rules: frozenset[Rule]) -> Checked | str:
    """`check_same_base`; the class of its error if it raises."""
    view = _view(base, known.table_id, rules)
    try:
        check_same_base(Base(view, None if view is None else view.marker, False), _view(again, known.table_id, rules), _known(known))
    except LakewardError as error:
        return error.error_class
    return Checked(None if again is None else again.trimmed(), False)


@cache
def resolved(lake: LakeTable | None, round_id: int, base: LakeTable) -> CommitOutcome:
    """`resolve_commit`."""
    view = _view(base, 0, frozenset(Rule))
    return resolve_commit(_view(lake, 0, frozenset(Rule)), str(round_id), Base(view, None if view is None else view.marker, False)).outcome


@cache
def committed_splits(splits: tuple[Split, ...], begin: int, rules: frozenset[Rule]) -> tuple[tuple[Split, ...], int]:
    """Which of the splits that were written a round commits, and the offset that its marker then names: `contiguous_prefix`."""
    if Rule.PREFIX not in rules:
        return splits, max(stop for _, stop in splits)
    prefix = contiguous_prefix(_results(splits), {BUCKET: begin})
    return tuple((result.starting_offset, result.reached_offset) for result in prefix.kept), prefix.reached[BUCKET]


@cache
def refused_at_last_gate(splits: tuple[Split, ...], base: LakeTable, mark: Mark, *, is_upkeep: bool = False) -> bool:
    """Whether `check_committable` refuses what a round is about to send."""
    view = _view(base, mark.table_id, frozenset(Rule))
    assert view is not None
    try:
        order = UpkeepOrder() if is_upkeep else None
        check_committable(Committable(str(mark.round_id), _results(splits), order=order), view, _marker(mark))
    except LakewardError:
        return True
    return False


@cache
def reconciled(action: str, lake: LakeTable | None, known: Known, log: Split, rules: frozenset[Rule]) -> TieredRange | str | None:
    """Where `retier` or `accept` lets tiering go on: a range, None for a bucket that begins anew, or the class of a refusal."""
    view = _view(lake, known.table_id, rules)
    empty = LakeView(PATH, "", None, None, None, {})
    marks = [] if lake is None else [snapshot.mark for snapshot in lake.snapshots if snapshot.mark is not None]
    survey = LakeSurvey(view or empty, _marker(marks[-1]) if marks else None, None if lake is None else _head_marker(lake))
    bounds = {BUCKET: BucketOffsets(*log)}
    situation = ReconcileInput(TableType.LOG, survey, _known(known), bounds, {BUCKET: (None, 0)})
    held = RowOffsets()
    if lake is not None:
        held.add((None, 0), np.array([offset for _, offset in lake.rows], dtype=np.int64))
    try:
        check_own(survey, _known(known))
        is_retier = action == ReconcileAction.RETIER
        ranges = retiered(situation, held) if is_retier else behind_rows(situation, accepted(situation), held)
    except CannotReconcile as error:
        return error.error_class
    return ranges.get(BUCKET)


@cache
def refused_by_log(begin: int, log: Split) -> str:
    """`check_reachable`: the class of its error if a round cannot go on from `begin`."""
    try:
        check_reachable(TABLE, BUCKET, begin, BucketOffsets(*log))
    except LakewardError as error:
        return error.error_class
    return ""


@cache
def goes_on(recorded: Copy, copy: Copy) -> bool:
    """`check_goes_on`: whether the cluster may be told of `copy`."""
    before, after = (RecordedLakeSnapshot(entry.snapshot_id, {BUCKET: entry.tiered}) for entry in (recorded, copy))
    try:
        check_goes_on(TABLE, before, after, None)
    except LakewardError:
        return False
    return True


def file_of(round_id: int) -> str:
    """The name of the file that a round writes."""
    return f"lakeward-{round_id}-n-0.parquet"


def _head_marker(lake: LakeTable) -> Marker | None:
    current = lake.ancestor(lake.head)
    while current is not None:
        if current.mark is not None:
            return None if lake.snapshot(current.id) is None else _marker(current.mark)
        current = lake.ancestor(current.parent)
    return None


def _results(splits: tuple[Split, ...]) -> tuple[WriteResult, ...]:
    return tuple(WriteResult(BUCKET, start, stop, stop - start, 1, 1, b"") for start, stop in splits)


@cache
def _known(known: Known) -> ExpectedLake:
    copies = tuple(RecordedLakeSnapshot(copy.snapshot_id, {BUCKET: copy.tiered}) for copy in (known.own, known.cluster) if copy is not None)
    uuid = None if known.uuid is None else f"lake-{known.uuid}"
    return ExpectedLake(CLUSTER, known.table_id, uuid, known.passed_head, copies, path=PATH)


def _marker(mark: Mark) -> Marker:
    base = None if mark.base is None else str(mark.base)
    ranges = {BUCKET: TieredRange(mark.start, mark.tiered)}
    return Marker(CLUSTER, mark.table_id, f"lake-{mark.uuid}", str(mark.round_id), mark.epoch, base, ranges)


@cache
def _view(lake: LakeTable | None, table_id: int, rules: frozenset[Rule]) -> LakeView | None:
    """Returns the view of a format. Without the identity in the marker, every marker looks as if it belonged here."""
    if lake is None:
        return None
    mark = lake.marker
    if mark is not None and Rule.IDENTITY not in rules:
        mark = mark._replace(table_id=table_id, uuid=lake.uuid)
    marker = None if mark is None else _marker(mark)
    snapshots, expired = _described(lake.snapshots), _described(lake.expired)
    if Rule.PARENTS not in rules and lake.tag is not None:
        snapshots = {number: replace(row, parent_id=_skipped(lake, row.parent_id)) for number, row in snapshots.items()}
    return LakeView(PATH, f"lake-{lake.uuid}", lake.head, lake.tag, marker, snapshots, reference="tag lakeward-tiered", expired=expired)


def _described(snapshots: tuple[Snapshot, ...]) -> dict[int, LakeSnapshot]:
    return {
        snapshot.id: LakeSnapshot(
            snapshot.id, snapshot.parent, snapshot.id, WHEN, "append", None, None if snapshot.mark is None else str(snapshot.mark.round_id)
        )
        for snapshot in snapshots
    }


def _skipped(lake: LakeTable, parent: int | None) -> int | None:
    """The parent of a snapshot as it looks without the rule about parents: one that expired is passed by for the newest tiering commit."""
    return lake.tag if parent is not None and lake.snapshot(parent) is None else parent
