"""Calls the product's rules about a lake table beside another service: all of `tiering.lake.rules` except the rules of statements.

A rule that is taken out is taken out here, around the product's code, where it is one of these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import NamedTuple
from unittest.mock import patch

import pyarrow as pa
from faults.model.shared.lake_table import LakeTable, Log, Mark, OffsetsFile
from faults.model.shared.rules import CoveredPart, Part, SharedRule

from tiering.errors import LakewardError, PermanentTieringError
from tiering.lake.base import FLUSS_COMMIT_USER, LakeSnapshot, LakeView
from tiering.lake.foreign import AddedRows, ForeignReaders, ForeignSnapshot, ForeignWalk, SharedRecords
from tiering.lake.marker import Marker, TieredRange
from tiering.lake.rules import shared_base
from tiering.lake.rules.base_check import Base, CommitOutcome, ExpectedLake, check_base, check_same_base, resolve_commit
from tiering.lake.rules.foreign_walk import RunningEnds
from tiering.lake.rules.shared_base import can_notify, is_exact, walked
from tiering.model.leases import KvSnapshot
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey, BucketOffsets, TableInfo, TablePath, TableType
from tiering.planning.plan_splits import plan_round

PATH = TablePath("sales", "orders")
BUCKET = BucketKey(None, 0)
CLUSTER, UUID = "cluster-1", "lake-1"
WHEN = datetime(2026, 1, 1, tzinfo=UTC)
Rules = frozenset[Part]
_NAMED_ACTION = re.compile(r"sys\.reconcile_lake\('[^']*', '(\w+)'\)")


class Own(NamedTuple):
    """A record of the lake: its newest tiering snapshot and the end. The coordinator's record has more fields."""

    snapshot_id: int
    end: int | None
    moved_back: bool = False
    round_id: int | None = None


class Known(NamedTuple):
    """The coordinator's record of the lake table."""

    own: Own | None
    passed_head: int | None


class Stand(NamedTuple):
    """A base that passed its check."""

    head: int | None
    tag: int | None
    mark: Mark | None
    start: int | None
    end: int | None
    newest: int | None
    newest_added: int | None
    moved_back: bool
    needs_commit: bool
    needs_notification: bool
    ahead: bool

    @property
    def ranges(self) -> dict[BucketKey, TieredRange]:
        return {} if self.end is None else {BUCKET: TieredRange(self.start or 0, self.end)}


class Refusal(NamedTuple):
    """An error, and the statements that its hint names."""

    error: str
    hints: tuple[str, ...] = ()
    is_permanent: bool = True

    @classmethod
    def of(cls, error: LakewardError) -> Refusal:
        return cls(error.error_class, tuple(_NAMED_ACTION.findall(error.hint or "")), isinstance(error, PermanentTieringError))


class Planned(NamedTuple):
    """The plan of a round. `from_snapshot`: the bucket begins again with its KV snapshot, which replaces all of it."""

    begin: int
    stop: int
    start: int
    from_snapshot: bool = False


Look = tuple[LakeTable, Known, tuple[Own | None, bool], frozenset[OffsetsFile], Log, Rules]
"""The lake, what is remembered of it, what the cluster's record said, the files of offsets that there are, and the log."""


@cache
def stand_of(look: Look) -> Stand | Refusal:
    """`check_base` behind `walked`."""
    lake, known, (cluster, _), _, log, rules = look
    try:
        stand = _stand(check_base(walked_view(look), expected_lake(known, look[2])), lake)
    except LakewardError as error:
        return Refusal.of(error)
    if SharedRule.AHEAD_OF_NEWEST not in rules and cluster is not None and (cluster.end or 0) > (stand.end or 0):
        return Refusal("RecordAheadOfLake", ("retier",))
    if SharedRule.LIVE_ROWS not in rules and not log.keyed and set(log.truth(stand.end or 0)) - set(lake.rows):
        return Refusal("ForeignTieringGap", ("retier",))
    return stand if SharedRule.LEAVES_RIGHT in rules else stand._replace(needs_commit=False)


@cache
def same_stand(before: Stand, look: Look) -> Stand | Refusal:
    """`check_same_base`."""
    try:
        return _stand(check_same_base(base_of(before), walked_view(look), expected_lake(look[1], look[2])), look[0])
    except LakewardError as error:
        return Refusal.of(error)


@cache
def outcome_of(lake: LakeTable, round_id: int, before: Stand) -> CommitOutcome:
    """`resolve_commit`."""
    return resolve_commit(view_of(lake), str(round_id), base_of(before)).outcome


@cache
def telling_of(stand: Stand, lake: LakeTable, cluster: Own | None) -> tuple[bool, bool]:
    """`is_exact` and `can_notify`: whether the cluster has it already, and whether it may be told."""
    walk, record = walk_of(stand), _recorded(cluster)
    return is_exact(walk, record), can_notify(view_of(lake), record, walk)


@cache
def planned(ranges: tuple[int, int] | None, log: Log, kv_snapshots: bool) -> Planned | Refusal:
    """`plan_round`."""
    table = TABLES[log.keyed]
    tiered = {} if ranges is None else {BUCKET: TieredRange(*ranges)}
    snapshots = {BUCKET: KvSnapshot(1, log.end)} if log.keyed and kv_snapshots and log.end else {}
    try:
        plan = plan_round(table, tiered, {BUCKET: BucketOffsets(log.start, log.end)}, (), snapshots)
    except LakewardError as error:
        return Refusal.of(error)
    return Planned(plan.bases[BUCKET], plan.stops[BUCKET], plan.starts[BUCKET], bool(plan.snapshots))


@cache
def walked_view(look: Look) -> LakeView:
    """`walked`, or what stands in its place where rules are taken out."""
    lake, known, (cluster, is_readable), files, log, rules = look
    if SharedRule.REMEMBERED not in rules and known.own is not None and lake.marker is not None:
        known = known._replace(own=known.own._replace(end=lake.marker.tiered, moved_back=False))
    records = shared_records(known, (cluster, is_readable))
    contents = {snapshot.id: snapshot for snapshot in lake.snapshots}

    def snapshot(snapshot_id: int) -> ForeignSnapshot:
        entry = contents[snapshot_id]
        added = {} if entry.added is None else {BUCKET: AddedRows(*entry.added)}
        end = entry.file.end if entry.file in files and entry.file is not None else None
        return ForeignSnapshot(snapshot_id, added, {} if end is None else {BUCKET: end}, entry.is_rewrite)

    readers = ForeignReaders(snapshot, lambda ids: (), lambda bucket, start, stop: log.holds_rows(start, stop), lambda *_: None)
    table_type = TableType.PRIMARY_KEY if log.keyed else TableType.LOG
    check_passed_head = _no_check if CoveredPart.PASSED_HEAD not in rules else shared_base._check_passed_head
    with patch.multiple(shared_base, RunningEnds=_running_ends(rules), _check_passed_head=check_passed_head):
        return walked(view_of(lake), records, known.passed_head, table_type, readers)


def _no_check(*_: object) -> None:
    """In the place of a check that is taken out."""


def _running_ends(rules: Rules) -> type[RunningEnds]:
    """The product's, or one that lacks a rule."""

    class LenientEnds(RunningEnds):
        def take(self, snapshot: ForeignSnapshot, stated: Mapping[BucketKey, int]) -> None:
            says = {**stated, **snapshot.offsets}.get(BUCKET)
            if SharedRule.ROWS_DECIDE not in rules and says is not None:
                self.ranges[BUCKET] = TieredRange(self.ranges.get(BUCKET, TieredRange(0, 0)).start, says)
                return
            super().take(snapshot, stated)

        def _take_rows(self, snapshot_id: int, bucket: BucketKey, added: AddedRows) -> None:
            reached = self.ranges.get(bucket, TieredRange(0, 0)).tiered
            begin = added.begin
            if SharedRule.RUNNING_END not in rules:
                begin = max(begin, reached)
            if SharedRule.GAP not in rules:
                begin = min(begin, reached)
            if begin < added.end:
                super()._take_rows(snapshot_id, bucket, AddedRows(begin, added.end, min(added.records, added.end - begin)))

        def _take_changes(self, bucket: BucketKey, added: AddedRows, stated: int | None) -> None:
            if SharedRule.STAYS_BACK not in rules:
                self.moved_back.discard(bucket)
            super()._take_changes(bucket, added, stated)

    lenient = {SharedRule.ROWS_DECIDE, SharedRule.RUNNING_END, SharedRule.GAP, SharedRule.STAYS_BACK}
    return RunningEnds if lenient <= rules else LenientEnds


@cache
def view_of(lake: LakeTable) -> LakeView:
    """Returns the view of a format."""
    snapshots = {
        entry.id: LakeSnapshot(
            entry.id,
            entry.parent,
            entry.id,
            WHEN,
            "append",
            None if entry.author == "user" else FLUSS_COMMIT_USER,
            None if entry.mark is None else str(entry.mark.round_id),
        )
        for entry in lake.snapshots
    }
    marker = None if lake.marker is None else marker_of(lake.marker)
    return LakeView(PATH, UUID, lake.head, lake.tag, marker, snapshots, reference="tag lakeward-tiered")


def marker_of(mark: Mark) -> Marker:
    """Returns the marker of the codec."""
    ranges = {} if mark.tiered is None else {BUCKET: TieredRange(mark.start or 0, mark.tiered)}
    return Marker(CLUSTER, 1, UUID, str(mark.round_id), mark.round_id, None if mark.base is None else str(mark.base), ranges)


def expected_lake(known: Known, cluster: tuple[Own | None, bool]) -> ExpectedLake:
    """Returns the records outside of the lake."""
    recorded = tuple(copy for copy in (_recorded(known.own), _recorded(cluster[0])) if copy is not None)
    shared = shared_records(known, cluster)
    return ExpectedLake(CLUSTER, 1, None if known.own is None else UUID, known.passed_head, recorded, path=PATH, shared=shared)


def shared_records(known: Known, cluster: tuple[Own | None, bool]) -> SharedRecords:
    """Returns the records of coordinator and cluster."""
    own = known.own
    moved_back = frozenset((BUCKET,)) if own is not None and own.moved_back else frozenset()
    round_id = None if own is None or own.round_id is None else str(own.round_id)
    return SharedRecords(_recorded(own), round_id, moved_back, _recorded(cluster[0]), cluster[1])


def walk_of(stand: Stand) -> ForeignWalk:
    """The walk that a base passed with."""
    moved_back = frozenset((BUCKET,)) if stand.moved_back else frozenset()
    return ForeignWalk(stand.ranges, stand.newest, stand.newest_added, moved_back, stand.needs_commit, stand.needs_notification)


@cache
def base_of(stand: Stand) -> Base:
    """The base as the product has it, as far as it is looked at again."""
    marker = None if stand.mark is None else marker_of(stand.mark)
    return Base(LakeView(PATH, UUID, stand.head, stand.tag, marker, {}, foreign=walk_of(stand)), marker, stand.ahead)


def _stand(base: Base, lake: LakeTable) -> Stand:
    assert base.view is not None
    walk, reached = base.view.foreign, base.ranges.get(BUCKET)
    start, end = (None, None) if reached is None else (reached.start, reached.tiered)
    return Stand(
        base.view.head,
        base.view.tiered,
        lake.marker,
        start,
        end,
        base.newest,
        None if walk is None else walk.newest_added,
        bool(base.moved_back),
        base.needs_commit,
        walk is not None and walk.needs_notification,
        base.ahead,
    )


def _recorded(copy: Own | None) -> RecordedLakeSnapshot | None:
    return None if copy is None else RecordedLakeSnapshot(copy.snapshot_id, {} if copy.end is None else {BUCKET: copy.end})


def _table(table_type: TableType) -> TableInfo:
    return TableInfo(1, PATH, table_type, pa.schema([pa.field("id", pa.int64(), nullable=False)]), 1, WHEN, lake_enabled=True)


TABLES = {False: _table(TableType.LOG), True: _table(TableType.PRIMARY_KEY)}
