"""Decides whether a record that failed is the cause, if no other record of its bucket was written for comparison. Pure.

A bucket with one new record has nothing to compare it with. Other splits of the round, or the record before the split, show whether rows
can be written at all. If none can, the storage, a library or an option is the cause, and the statement in the error would skip a good
record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tiering.model.refused_records import offset_of
from tiering.round.ports import SplitTask, TaskOutcome

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
