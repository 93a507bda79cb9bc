"""Looks up the records at which a round's buckets stop: earlier records for comparison, and the cluster's traces of the records.

A bucket with one new record has nothing to compare it with. Other splits of the round, or the record before the split, show whether rows
can be written at all. If none can, the storage, a library or an option is the cause, and the statement in the error would skip a good
record.
"""

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

HINT = (
    "No row could be written in this round, so the error names no record: check the lake's storage and options. If one record is the "
    "cause, the first round that can write another row of the table names it, with the statement that skips it."
)


def unverified_tasks(tasks: Sequence[SplitTask], outcomes: Sequence[TaskOutcome]) -> list[SplitTask]:
    """Returns the tasks whose record has to be tried once more, after the other splits; none if the round fails in any case."""
    if any(outcome.error is not None for outcome in outcomes):
        return []
    places = [
        (outcome.stopped.ids["bucket"], offset_of(outcome.stopped)) for outcome in outcomes if outcome.suspected_error and outcome.stopped
    ]
    return [task for task in tasks if any(_has(task, bucket, offset or 0) for bucket, offset in places)]


def _has(task: SplitTask, bucket: str, offset: int) -> bool:
    return bucket == str(task.split.bucket) and task.split.starting_offset <= offset < task.split.stopping_offset


def are_rows_written(outcomes: Sequence[TaskOutcome]) -> bool:
    """Returns whether any row was written: as part of a split, or for comparison with a record that failed."""
    return any(outcome.has_control or (outcome.result is not None and outcome.result.records > 0) for outcome in outcomes)


def settled(outcomes: Sequence[TaskOutcome], again: Sequence[TaskOutcome]) -> list[TaskOutcome]:
    """Returns the outcomes without doubts. `again` has the second outcomes of doubtful tasks; their results are never committed.

    A record is blamed if it failed before and after another row was written. If a task of `again` does not stop at a record, the storage or
    the library has recovered in the meantime, and no record is blamed: the round fails with the original errors.
    """
    fails_again = bool(again) and all(outcome.stopped is not None and outcome.error is None for outcome in again)
    is_blamed = fails_again and (are_rows_written(outcomes) or any(outcome.has_control for outcome in again))
    hint = "" if are_rows_written((*outcomes, *again)) else HINT
    return [_settled(outcome, hint, is_blamed=is_blamed) for outcome in outcomes]


def _settled(outcome: TaskOutcome, hint: str, *, is_blamed: bool) -> TaskOutcome:
    if outcome.suspected_error is None or is_blamed:
        return replace(outcome, suspected_error=None)
    outcome.suspected_error.hint = outcome.suspected_error.hint or hint
    return replace(outcome, error=outcome.error or outcome.suspected_error, stopped=None, suspected_error=None)


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
        unverified = [replace(task, dead_letters=None) for task in unverified_tasks(tasks, outcomes)]
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

    def with_traces(self, done: CombinedOutcome, traces: Traces) -> CombinedOutcome:
        """Adds the cluster's trace of each record to the record's error, so that `sys.skip_record` cannot skip another record.

        `traces` has the traces from the round's read of the log. The work fails with SourceChanged if the log was cut since then: the error
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
        before = {place: trace for place, trace in traces.items() if place[1] >= places.get(place[0], place[1] + 1)}
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
