"""Offsets without rows: a batch of a log that holds none moves offsets all the same, and no row of the lake has them. Pure.

What the log still holds the log itself tells. Of what it was cut off, the markers of a clean lake table name the empty ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from tiering.lake.foreign import LogRows
from tiering.lake.marker import Marker
from tiering.lake.proof.file_footer import Run, merged, without
from tiering.lake.rules.contiguous_offsets import RowOffsets
from tiering.lake.rules.reconcile import Situation
from tiering.model.tables import BucketKey, BucketOffsets, TableType

EmptyUpTo = Callable[[BucketKey, int, int], int]
"""How far a bucket's log has no row from an offset on, up to a second one; the first one itself if the log cannot tell."""


Skipped = Mapping[BucketKey, Collection[int]]
"""By bucket the offsets of records that `CALL sys.skip_record` left out: no row of the lake has them."""
NONE_SKIPPED: Skipped = {}


def all_skipped(*known: Marker | Skipped | None) -> Skipped:
    """What any of them names."""
    after: dict[BucketKey, set[int]] = {}
    for source in known:
        for bucket, offsets in (source.skipped if isinstance(source, Marker) else source or {}).items():
            after.setdefault(bucket, set()).update(offsets)
    return after


def skipped_records(situation: Situation) -> Skipped:
    """Those of all markers that can be read, and those that are remembered outside of the lake."""
    return all_skipped(*situation.survey.markers, situation.known.skipped)


def marked_ranges(situation: Situation) -> dict[BucketKey, tuple[Run, ...]]:
    """Per bucket the ranges without rows of all markers that can be read, and the records that were left out.

    They are ranges of one log, and hold for good.
    """
    left_out = skipped_records(situation) if situation.table_type is TableType.LOG else NONE_SKIPPED  # other rows tell no offsets
    ranges = {bucket: merged((offset, offset + 1) for offset in offsets) for bucket, offsets in left_out.items()}
    for marker in situation.survey.markers:
        for bucket, proof in marker.proofs.items():
            known = ranges.get(bucket, ())
            more = [part for run in proof.empty for part in without(*run, known)]
            ranges[bucket] = merged([*known, *more])
    return ranges


@dataclass(frozen=True)
class EmptyRanges:
    """What is known of the offsets of a log table that have no row. `marked`: see `marked_ranges`."""

    log: Mapping[BucketKey, BucketOffsets]
    marked: Mapping[BucketKey, Sequence[Run]]
    in_log: EmptyUpTo

    def reached(self, bucket: BucketKey, start: int, stop: int) -> int:
        """How far the offsets from `start` on are known to have no row; at most `stop`."""
        bounds = self.log[bucket]
        cut = min(stop, bounds.log_start)
        if start < cut:
            if left := without(start, cut, self.marked.get(bucket, ())):
                return left[0][0]
            start = cut
        end = min(stop, bounds.log_end)
        return self.in_log(bucket, start, end) if start < end else start

    def log_rows(self, log_rows: LogRows) -> LogRows:
        """The same question to the log, answered by the markers where it cannot tell."""

        def holds_rows(bucket: BucketKey, start: int, stop: int) -> bool | None:
            rows = log_rows(bucket, start, stop)
            return False if rows is None and not without(start, stop, self.marked.get(bucket, ())) else rows

        return holds_rows


def with_empty_ranges(situation: Situation, held: RowOffsets, empty: EmptyRanges) -> RowOffsets:
    """`held` of a log table with the offsets without rows before, between and behind its rows, as if these were rows, too.

    In each bucket up to the first offset that is missing; behind the last row up to what was ever recorded. A bucket without rows stays so.
    """
    whole, starts, recorded = held.copy(), situation.starts, situation.recorded
    for bucket, place in situation.places.items():
        runs = held.runs(place)
        if not runs or runs[0][0] < 0:
            continue
        reached = min(starts.get(bucket, situation.log[bucket].log_start), runs[0][0])
        end = max(recorded.get(bucket, 0), runs[-1][1])
        for start, stop in (*runs, (end, end)):
            if start > reached:
                known = empty.reached(bucket, reached, start)
                whole.add_run(place, reached, known)
                if known < start:
                    break
            reached = max(reached, stop)
    return whole


def with_marked_ranges(situation: Situation, held: RowOffsets) -> RowOffsets:
    """`held` with all ranges that markers know to be without rows, for what counts the rows that are missing."""
    whole = held.copy()
    for bucket, runs in marked_ranges(situation).items():
        if bucket in situation.places:
            for start, stop in runs:
                whole.add_run(situation.places[bucket], start, stop)
    return whole
