"""Looks up the records at which a round's buckets stop: earlier records for comparison, and the cluster's traces of the records."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from tiering.cluster.base import SplitReader, SplitSource
from tiering.cluster.log_state import traces_at
from tiering.errors import BucketStopped, LakewardError, SourceChanged
from tiering.model.refused_records import offset_of
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import BucketKey, Offsets, SkippedRecords, TableInfo
from tiering.planning.check_log import Traces, check_unchanged
from tiering.round.ports import CombinedOutcome, SplitTask, TaskOutcome
from tiering.round.tasks.unverified_records import are_rows_written, unverified_tasks

RECORDS_BEFORE = 4
"""Maximum number of splits whose preceding record is read for comparison, in a round that wrote no row at all."""


@dataclass(frozen=True)
class StoppedRecords:
    """Reads the log of one round's table. `skipped`: records that `sys.skip_record` left out."""

    cluster: SplitSource
    table: TableInfo
    skipped: SkippedRecords

    def tasks_again(self, tasks: Sequence[SplitTask], outcomes: Sequence[TaskOutcome], starts: Offsets) -> list[SplitTask]:
        """Returns the tasks whose record has to be tried once more before it is blamed. `starts`: the first offset ever tiered, by bucket.

        If no row was written at all, only a few tasks are returned, each with the record before its split.
        """
        unverified = unverified_tasks(tasks, outcomes)
        return unverified if are_rows_written(outcomes) else self._with_records_before(unverified, starts)

    def _with_records_before(self, tasks: Sequence[SplitTask], starts: Offsets) -> list[SplitTask]:
        """Returns the first RECORDS_BEFORE of the tasks with the record before their split. A bucket that was never tiered has none."""
        tiered = [task for task in tasks if task.split.starting_offset > starts[task.split.bucket]]
        readers = ((task, self._record_before(task.split)) for task in tiered[:RECORDS_BEFORE])
        return [replace(task, records_before=reader) for task, reader in readers if reader is not None]

    def _record_before(self, split: TieringLogSplit) -> SplitReader | None:
        """Returns the reader of the record before a split; None if the log does not have it (any more)."""
        skipped, stop = self.skipped.get(split.bucket, ()), split.starting_offset
        while stop - 1 in skipped:
            stop -= 1
        if stop == 0:
            return None
        with suppress(LakewardError):  # the record only serves for comparison with a record that cannot be written
            return self.cluster.reader(self.table, replace(split, starting_offset=stop - 1, stopping_offset=stop))
        return None

    def with_traces(self, done: CombinedOutcome, look: Traces) -> CombinedOutcome:
        """Adds the cluster's trace of each record to the record's error, so that `sys.skip_record` cannot skip another record.

        `look` has the traces from the round's read of the log. The work fails with SourceChanged if the log was cut since then: the error
        describes the record that was read, and the trace would be of another one.
        """
        first: dict[BucketKey, BucketStopped] = {}
        for error in done.stopped:  # sorted by offset
            if offset_of(error) is not None:
                first.setdefault(BucketKey.parse(error.ids["bucket"]), error)
        places = {bucket: int(error.ids["offset"]) + 1 for bucket, error in first.items()}
        if not places:
            return done
        # The log's ends after the records, as read before: while the last record is unchanged, all records before it are unchanged.
        before = {place: trace for place, trace in look.items() if place[1] >= places.get(place[0], place[1] + 1)}
        try:
            now = traces_at(self.cluster, self.table, places, dict(before.keys()))
            check_unchanged(self.table, before, now)
        except SourceChanged as changed:
            return replace(done, error=done.error or changed)
        except LakewardError:  # a record is reported even without a trace
            return done
        for bucket, error in first.items():
            if (bucket, places[bucket]) in now:
                error.ids["trace"] = now[bucket, places[bucket]]
        return done
