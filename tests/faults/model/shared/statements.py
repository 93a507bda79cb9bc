"""The decisions of `CALL sys.reconcile_lake` beside another service, by the product's own rules.

They are made in the order of `Reconciler._decide` and of `coordinator/lake_repair/decision.py`, which read lake and log in between.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
from faults.model.shared.lake_table import LakeTable, Log
from faults.model.shared.looks import (
    BUCKET,
    PATH,
    Look,
    Refusal,
    expected_lake,
    marker_of,
    stand_of,
    view_of,
    walked_view,
)
from faults.model.shared.rules import SharedRule

from tiering.errors import CannotReconcile, LakeRolledBack, LakewardError, RecordAheadOfLake
from tiering.lake.foreign import LogRows
from tiering.lake.maintenance import ForeignOffsets, LakeSurvey, Removal
from tiering.lake.marker import Marker, TieredRange
from tiering.lake.rules.contiguous_offsets import RowOffsets
from tiering.lake.rules.reconcile import (
    Ranges,
    ReconcileAction,
    ReconcileInput,
    accepted,
    adoptable,
    adopted,
    check_own,
    emptied,
    in_log,
    is_same,
    newest_foreign,
    records_left_out,
    retiered,
)
from tiering.lake.rules.row_repair import check_not_doubled, deduplicated, retiered_rows
from tiering.model.tables import BucketOffsets, TableType

PLACE = (None, 0)


class Decision(NamedTuple):
    """Where tiering is to go on, and which rows go."""

    start: int | None
    end: int | None
    removes: bool = False
    ceiling: int | None = None
    left_out: int | None = 0


@cache
def decided(action: str, look: Look, marker_tells: bool, kv_snapshots: bool) -> Decision | Refusal | None:
    """Returns the outcome; None if nothing is wrong (any more)."""
    lake = look[0]
    situation = _situation(look, marker_tells, kv_snapshots)
    stand = stand_of(look)
    present = {} if isinstance(stand, Refusal) else stand.ranges
    passes = not isinstance(stand, Refusal) and in_log(present, situation.log)
    looks_at_rows = action in (ReconcileAction.RETIER, ReconcileAction.DEDUPLICATE)
    if passes and not (looks_at_rows and lake.marker is not None):
        return None
    try:
        ranges, removal, left_out = _decided(ReconcileAction(action), situation, look)
    except LakewardError as error:
        return Refusal.of(error)
    if passes and removal is None and is_same(situation, ranges, present):
        return None
    reached = ranges.get(BUCKET)
    start, end = (None, None) if reached is None else (reached.start, reached.tiered)
    return Decision(start, end, removal is not None, None if removal is None else removal.ceilings.get(BUCKET), left_out)


def _decided(action: ReconcileAction, situation: ReconcileInput, look: Look) -> tuple[Ranges, Removal | None, int | None]:
    lake, _, _, _, log, rules = look
    check_own(situation.survey, situation.expected)
    held = _held(lake, log)
    if action is ReconcileAction.DEDUPLICATE:
        return _deduplicated(situation, held, look)
    if not log.keyed and action is not ReconcileAction.RETIER and SharedRule.LOOKS_AGAIN in rules:
        check_not_doubled(situation, held)
    removal = None
    match action:
        case ReconcileAction.ACCEPT:
            ranges = accepted(situation, None if log.keyed else held)
        case ReconcileAction.RETIER if not log.keyed:
            repair = retiered_rows(situation, held, _log_rows(log))
            return repair.ranges, repair.removal, repair.left_out
        case ReconcileAction.RETIER:
            ranges = retiered(situation, held)
            anew = emptied(situation, held, ranges)
            removal = Removal({BUCKET: PLACE}, emptied=anew) if anew else None
        case _:
            ranges = adopted(situation, _foreign_offsets(look, adoptable(situation.survey.view).snapshot_id))
    return ranges, removal, records_left_out(situation, action, ranges, held)


def _deduplicated(situation: ReconcileInput, held: RowOffsets, look: Look) -> tuple[Ranges, Removal | None, int | None]:
    lake, _, (cluster, _), files, log, rules = look
    if log.keyed:
        raise CannotReconcile("the rounds of a primary-key table replace doubled keys themselves")
    problem = None if situation.walk is None else situation.walk.problem
    if isinstance(problem, LakeRolledBack | RecordAheadOfLake):
        raise CannotReconcile(problem.message)
    foreign = newest_foreign(view_of(lake))
    named = None if foreign is None else lake.snapshot(foreign.snapshot_id)
    stated = {BUCKET: named.file.end or 0} if named is not None and named.file is not None and named.file in files else {}
    repair = deduplicated(situation, held, stated, _log_rows(log))
    ranges = repair.ranges
    if SharedRule.LAST_ROW not in rules and cluster is not None and BUCKET in ranges:
        ranges = {BUCKET: TieredRange(ranges[BUCKET].start, cluster.end or 0)}
    return ranges, repair.removal, repair.left_out


def _situation(look: Look, marker_tells: bool, kv_snapshots: bool) -> ReconcileInput:
    lake, known, cluster, _, log, _ = look
    marks = [snapshot.mark for snapshot in lake.snapshots if snapshot.mark is not None]
    survey = LakeSurvey(view_of(lake), marker_of(marks[-1]) if marks else None, _head_marker(lake))
    walk = walked_view(look).foreign
    replaceable = frozenset((BUCKET,)) if log.start == 0 or (kv_snapshots and log.end) else frozenset()
    bounds = {BUCKET: BucketOffsets(log.start, log.end)}
    table_type = TableType.PRIMARY_KEY if log.keyed else TableType.LOG
    situation = ReconcileInput(table_type, survey, expected_lake(known, cluster), bounds, {BUCKET: PLACE}, marker_tells)
    return replace(situation, walk=walk, replaceable=replaceable)


def _held(lake: LakeTable, log: Log) -> RowOffsets:
    held = RowOffsets()
    if log.keyed and lake.rows:
        held.add_place(PLACE)
    elif not log.keyed:
        for _, offset in lake.rows:
            held.add(PLACE, np.array([offset], dtype=np.int64))
    return held


def _foreign_offsets(look: Look, snapshot_id: int) -> ForeignOffsets:
    lake, _, (cluster, _), files, _, _ = look
    if cluster is not None and cluster.snapshot_id == snapshot_id:
        return ForeignOffsets(1, {} if cluster.end is None else {PLACE: cluster.end})
    entry = lake.snapshot(snapshot_id)
    if entry is None or entry.file is None or entry.file not in files:
        raise CannotReconcile(f"the file of snapshot {snapshot_id} of {PATH} is gone")
    return ForeignOffsets(1, {} if entry.file.end is None else {PLACE: entry.file.end})


def _log_rows(log: Log) -> LogRows:
    return lambda bucket, start, stop: log.holds_rows(start, stop)


def _head_marker(lake: LakeTable) -> Marker | None:
    current = lake.snapshot(lake.head)
    while current is not None:
        if current.mark is not None:
            return marker_of(current.mark)
        current = lake.snapshot(current.parent)
    return None
