"""Which rows of a log table to remove after another tiering service doubled some, or left a gap, and where tiering continues. Pure.

    deduplicate   keeps one of the rows with the same offset, in all live files. Tiering continues behind the highest of the marker's end,
                  the last live row, and the other service's stated end, if only offsets without rows come before it. Refused if the log
                  shows that rows are missing in between. Offsets that no log holds any more are left out, and counted.
    retier        does the same, and also removes the rows behind the first gap. Tiering continues at the gap.

The offsets of live rows below the marker decide nothing, because users may delete rows. The exception is an expired history: then only
these offsets tell whether the branch was rolled back.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tiering.errors import CannotReconcile, HistoryExpired
from tiering.lake.foreign import LogRows
from tiering.lake.maintenance import Removal
from tiering.lake.marker import TieredRange
from tiering.lake.rules.contiguous_offsets import RowOffsets
from tiering.lake.rules.hints import keeping_table_hint, new_table_hint, reconcile_call
from tiering.lake.rules.reconcile import Ranges, ReconcileInput, check_places, check_whose, newest_foreign
from tiering.model.tables import BucketKey, Offsets


@dataclass(frozen=True)
class Repair:
    """Per bucket where tiering continues, and the rows to remove; None = none. `left_out` counts offsets that neither lake nor log has."""

    ranges: Ranges
    removal: Removal | None
    left_out: int = 0


def deduplicated(situation: ReconcileInput, lake_rows: RowOffsets, stated: Offsets, log_rows: LogRows) -> Repair:
    """Returns the repair of `deduplicate`. `stated`: the other service's offsets in its newest snapshot. Raises CannotReconcile."""
    repair = _repaired(situation, lake_rows, log_rows, passes_unknown=True)
    if repair.removal is not None and repair.removal.ceilings:
        bucket, start = next(iter(repair.removal.ceilings.items()))
        raise _missing(situation, bucket, start, lake_rows)
    ranges = dict(repair.ranges)
    for bucket, offset in stated.items():
        reached = ranges.get(bucket)
        if reached is not None and offset > reached.tiered and log_rows(bucket, reached.tiered, offset) is False:
            ranges[bucket] = TieredRange(reached.start, offset)
    return Repair(ranges, repair.removal, repair.left_out)


def retiered_rows(situation: ReconcileInput, lake_rows: RowOffsets, log_rows: LogRows) -> Repair:
    """Returns the repair of `retier`. Raises CannotReconcile if the log does not have the missing rows."""
    repair = _repaired(situation, lake_rows, log_rows, passes_unknown=False)
    for bucket, start in {} if repair.removal is None else repair.removal.ceilings.items():
        begin = situation.log[bucket].log_start
        if start < begin:
            path = situation.survey.view.path
            raise CannotReconcile(
                f"bucket {bucket} of {path} lacks the offsets from {start} on, and its log begins at {begin}: the records {start} to "
                f"{begin - 1} are in neither",
                hint=new_table_hint(path),
                table_path=path,
                bucket=bucket,
            )
    return repair


def check_owners(situation: ReconcileInput, lake_rows: RowOffsets) -> None:
    """Raises CannotReconcile for rows that may be a former partition's, unless only rows that the marker counts are possible.

    Rows that are older than the log do not tell their owner. Rows of a former partition would have the same offsets as the partition's
    own rows, or offsets behind the marker's end.
    """
    path, marker = situation.survey.view.path, situation.survey.head_marker
    for bucket, place in situation.places.items():
        if not (runs := (rows := lake_rows.unknown(place)).runs(place)):
            continue
        marked = marker.buckets[bucket].tiered if marker is not None and bucket in marker.buckets else 0
        if rows.doubled(place) or runs[-1][1] > marked:
            raise CannotReconcile(
                f"bucket {bucket} of {path} has rows up to offset {runs[-1][1] - 1} that are older than its log, which begins at "
                f"{situation.log[bucket].log_start}: some of them may be those of a former partition of that name",
                hint=keeping_table_hint(path),
                table_path=path,
                bucket=bucket,
            )


def check_not_doubled(situation: ReconcileInput, lake_rows: RowOffsets) -> None:
    """Raises CannotReconcile if a log table has live rows twice, because continuing from there would keep them."""
    path = situation.survey.view.path
    for bucket, place in situation.places.items():
        if count := lake_rows.doubled(place):
            raise CannotReconcile(
                f"bucket {bucket} of {path} holds {count} rows twice",
                hint=f"{reconcile_call(path, 'deduplicate')} removes the doubled rows. Call it first.",
                table_path=path,
                bucket=bucket,
            )


def _repaired(situation: ReconcileInput, lake_rows: RowOffsets, log_rows: LogRows, *, passes_unknown: bool) -> Repair:
    check_places(situation, lake_rows)
    if newest_foreign(situation.survey.view) is None:  # its snapshots are walked
        check_whose(situation, has_rows=bool(lake_rows.places))
    marker, starts = situation.survey.head_marker, situation.starts  # a head that was rolled back has its own marker
    marked = {} if marker is None else marker.buckets
    newest_marked = {} if situation.survey.newest_marker is None else situation.survey.newest_marker.buckets
    problem = None if situation.walk is None else situation.walk.problem
    ranges: Ranges = {}
    ceilings: dict[BucketKey, int] = {}
    removed = left_out = 0
    for bucket, place in situation.places.items():
        runs = lake_rows.runs(place)
        if not runs and bucket not in marked:
            continue
        if runs and runs[0][0] < 0:
            path = situation.survey.view.path
            raise CannotReconcile(
                f"bucket {bucket} of {path} has rows with the offset {runs[0][0]}: they did not come from the log",
                hint=f"{reconcile_call(path, 'retier')}.",
                table_path=path,
                bucket=bucket,
            )
        start = starts[bucket] if bucket in starts else _begin_of_unmarked(bucket, runs[0][0], log_rows) if runs else marked[bucket].start
        begin = start if bucket not in marked or isinstance(problem, HistoryExpired) else marked[bucket].tiered
        newest = newest_marked[bucket].tiered if bucket in newest_marked else 0
        newest = situation.log[bucket].log_end if passes_unknown else newest
        end, is_hole, unknown = _reached(bucket, runs, begin, newest, log_rows)
        left_out += unknown
        if bucket in marked and end < marked[bucket].tiered and not is_hole:
            end, is_hole = (end, True) if log_rows(bucket, end, marked[bucket].tiered) is not False else (marked[bucket].tiered, False)
        removed += lake_rows.doubled(place)
        if is_hole:
            ceilings[bucket] = end
            removed += lake_rows.count(place, end, runs[-1][1]) if runs else 0
        ranges[bucket] = TieredRange(min(start, end), end)
    removal = Removal(dict(situation.places), ceilings, rows=removed, begins=situation.begins) if removed or ceilings else None
    return Repair(ranges, removal, left_out)


def _begin_of_unmarked(bucket: BucketKey, begin: int, log_rows: LogRows) -> int:
    """Returns the begin of a bucket that no marker names and whose rows begin at `begin`: 0, or `begin` if the log was cut below it."""
    return begin if log_rows(bucket, 0, begin) is None else 0


def _reached(bucket: BucketKey, runs: list[tuple[int, int]], begin: int, marked: int, log_rows: LogRows) -> tuple[int, bool, int]:
    """Returns how far rows reach from `begin` on, whether rows follow behind a gap, and the number of offsets that may lack rows.

    Offsets without rows are no gap. Offsets below `marked` that no log holds any more are no gap either, but are counted.
    """
    reached, unknown = begin, 0
    for start, stop in runs:
        if stop <= reached:
            continue
        rows = log_rows(bucket, reached, start) if start > reached else False
        if rows or (rows is None and start > marked):
            return reached, True, unknown
        unknown += start - reached if rows is None else 0
        reached = stop
    return reached, False, unknown


def _missing(situation: ReconcileInput, bucket: BucketKey, start: int, lake_rows: RowOffsets) -> CannotReconcile:
    path = situation.survey.view.path
    behind = [run for run in lake_rows.runs(situation.places[bucket]) if run[0] > start]
    stop = f" to {behind[0][0] - 1}" if behind else ""
    return CannotReconcile(
        f"bucket {bucket} of {path} lacks the offsets {start}{stop}: rows are missing, not only doubled",
        hint=f"{reconcile_call(path, 'retier')} continues at offset {start}.",
        table_path=path,
        bucket=bucket,
    )


def rows_to_remove(offsets: npt.NDArray[np.int64], may_go: npt.NDArray[np.bool_], ceiling: int | None) -> npt.NDArray[np.bool_]:
    """Returns a mask of the rows that `may_go` and whose offset occurred before among these, or is at or above the ceiling."""
    rows = np.flatnonzero(may_go)
    rows = rows[np.argsort(offsets[rows], kind="stable")]
    in_order = offsets[rows]
    is_removed = np.zeros(len(rows), dtype=bool)
    is_removed[1:] = in_order[1:] == in_order[:-1]
    if ceiling is not None:
        is_removed |= in_order >= ceiling
    mask = np.zeros(len(offsets), dtype=bool)
    mask[rows[is_removed]] = True
    return mask
