"""Offsets without rows: a log batch without records still moves offsets, and no row of the lake has them. Pure.

The log tells which of its own offsets have no row. For offsets that were cut off the log, the markers of a clean lake table tell.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass

from tiering.lake.foreign import LogRows
from tiering.lake.marker import LeftOut, Marker
from tiering.lake.proof.file_footer import Run, merged, without
from tiering.lake.rules.contiguous_offsets import RowOffsets
from tiering.lake.rules.reconcile import Ranges, ReconcileInput
from tiering.model.tables import BucketKey, BucketOffsets, SkippedRecords, TableType

EmptyUpTo = Callable[[BucketKey, int, int], int]
"""Returns how far a bucket's log has no row, from a first offset up to a second one; the first offset itself if the log cannot tell."""


Skipped = Mapping[BucketKey, Collection[int]]
"""By bucket the offsets of records that `CALL sys.skip_record` left out. No row of the lake has them."""


def all_skipped(*sources: Marker | Skipped | None) -> Skipped:
    """Returns the skipped records of all sources together."""
    offsets_by_bucket: dict[BucketKey, set[int]] = {}
    for source in sources:
        for bucket, offsets in (source.skipped if isinstance(source, Marker) else source or {}).items():
            offsets_by_bucket.setdefault(bucket, set()).update(offsets)
    return offsets_by_bucket


def skipped_records(situation: ReconcileInput) -> Skipped:
    """Returns the skipped records of all readable markers and of the records outside of the lake."""
    return all_skipped(*situation.survey.markers, situation.expected.skipped)


def marked_ranges(situation: ReconcileInput) -> dict[BucketKey, tuple[Run, ...]]:
    """Returns per bucket the ranges without rows, from all readable markers, and the skipped records.

    These ranges belong to one log, so they never change.
    """
    left_out: Skipped = {}
    if situation.table_type is TableType.LOG:  # rows of primary-key tables do not tell offsets
        left_out = skipped_records(situation)
    ranges = {bucket: merged((offset, offset + 1) for offset in offsets) for bucket, offsets in left_out.items()}
    for marker in situation.survey.markers:
        empty = [(bucket, run) for bucket, proof in marker.proofs.items() for run in proof.empty]
        for bucket, run in (*empty, *((bucket, run) for bucket, runs in marker.left_out.items() for run in runs)):
            marked = ranges.get(bucket, ())
            ranges[bucket] = merged([*marked, *without(*run, marked)])
    return ranges


def left_out(situation: ReconcileInput, ranges: Ranges, lake_rows: RowOffsets | None) -> LeftOut:
    """Returns the records of a log table that `accept` with `ranges` leaves out because the log no longer has them.

    `lake_rows` None = the rows do not tell their offsets.
    """
    gaps: dict[BucketKey, tuple[Run, ...]] = {}
    for bucket, at in ranges.items():
        runs = () if lake_rows is None else lake_rows.runs(situation.places[bucket])
        reached = max(situation.recorded.get(bucket, 0), *(stop for _, stop in runs if stop <= at.tiered), 0)
        if situation.table_type is TableType.LOG and reached < at.tiered == situation.log[bucket].log_start:
            gaps[bucket] = ((reached, at.tiered),)
    return gaps


@dataclass(frozen=True)
class EmptyRanges:
    """The offsets of a log table that are known to have no row. `marked` is the result of `marked_ranges`."""

    log: Mapping[BucketKey, BucketOffsets]
    marked: Mapping[BucketKey, Sequence[Run]]
    in_log: EmptyUpTo

    def reached(self, bucket: BucketKey, start: int, stop: int) -> int:
        """Returns how far the offsets from `start` on are known to have no row; at most `stop`."""
        bounds = self.log[bucket]
        cut = min(stop, bounds.log_start)
        if start < cut:
            if remaining := without(start, cut, self.marked.get(bucket, ())):
                return remaining[0][0]
            start = cut
        end = min(stop, bounds.log_end)
        return self.in_log(bucket, start, end) if start < end else start

    def log_rows(self, log_rows: LogRows) -> LogRows:
        """Returns `log_rows` extended: where the log cannot tell, the markers answer."""

        def holds_rows(bucket: BucketKey, start: int, stop: int) -> bool | None:
            rows = log_rows(bucket, start, stop)
            return False if rows is None and not without(start, stop, self.marked.get(bucket, ())) else rows

        return holds_rows


def with_empty_ranges(situation: ReconcileInput, lake_rows: RowOffsets, empty: EmptyRanges) -> RowOffsets:
    """Returns `lake_rows` of a log table with the offsets without rows added as if they had rows.

    The added offsets are before, between and behind the bucket's rows, up to the first offset that is missing. Behind the last row they
    end at the highest recorded offset. A bucket without rows stays empty.
    """
    whole, starts, recorded = deepcopy(lake_rows), situation.starts, situation.recorded
    for bucket, place in situation.places.items():
        runs = lake_rows.runs(place)
        if not runs or runs[0][0] < 0:
            continue
        reached = min(starts.get(bucket, situation.log[bucket].log_start), runs[0][0])
        end = max(recorded.get(bucket, 0), runs[-1][1])
        for start, stop in (*runs, (end, end)):
            if start > reached:
                empty_end = empty.reached(bucket, reached, start)
                whole.add_run(place, reached, empty_end)
                if empty_end < start:
                    break
            reached = max(reached, stop)
    return whole


def with_marked_ranges(situation: ReconcileInput, lake_rows: RowOffsets) -> RowOffsets:
    """Returns `lake_rows` with all ranges that markers know to be without rows, for counting the missing rows.

    A dead letter without a row in one marker has a row since its replay.
    """
    whole = deepcopy(lake_rows)
    for bucket, runs in marked_ranges(situation).items():
        if bucket in situation.places:
            place = situation.places[bucket]
            for start, stop in (part for run in runs for part in without(*run, lake_rows.runs(place))):
                whole.add_run(place, start, stop)
    return whole


def skipped_below_head(situation: ReconcileInput, head: Marker | None) -> SkippedRecords:
    """Returns the records that the lake table at its head lacks because they are skipped, from its markers and the records outside.

    `head`: the marker that tells what the head has. A rollback may have set the head before the replay of a dead letter, whose offset the
    newest marker does not skip any more, or behind it. Below the end of `head`, that marker decides about dead letters.
    """
    expected, newest = situation.expected, situation.survey.view.marker
    skipped = {bucket: dict(records) for bucket, records in expected.skipped.items()}
    letters = [expected.dead_letters]
    if newest is not None:
        letters.append(newest.dead_letters)
        for bucket, records in newest.skipped.items():
            skipped[bucket] = {**skipped.get(bucket, {}), **records}
    if head is None:
        return skipped
    for bucket, reached in head.buckets.items():
        replayed = {offset for marked in letters for offset in marked.get(bucket, ()) if offset < reached.tiered}
        others = {offset: trace for offset, trace in skipped.get(bucket, {}).items() if offset not in replayed}
        skipped[bucket] = {**others, **head.skipped.get(bucket, {})}
    return skipped
