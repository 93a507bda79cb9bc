"""One split's work, on an executor or inline: scan -> lake writer -> write result."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from tiering import crash_points
from tiering.effects import RandomIds
from tiering.errors import LakeUnavailable, LakewardError, RoundFailed
from tiering.model import Phase
from tiering.redact import redact
from tiering.round.base import SplitTask, TaskOutcome


def run_split(task: SplitTask, stop: Callable[[], bool]) -> TaskOutcome:
    """Reads the split to its end, or until `stop` says so between two batches.

    The first split of a bucket reads at least one batch whatever `stop` says: every round makes some progress.

    The result's reached offset is that of the last record written plus one, so an early stop leaves a prefix.
    Never raises: the error and its phase are in the outcome, and the files of a failed split are deleted.
    """
    split = task.split
    phase = Phase.WRITE
    writer = None
    try:
        writer = task.factory.create_writer(replace(task.context, attempt_nonce=RandomIds().new_id()))
        reached = split.starting_offset
        batches = task.reader.read()
        while reached < split.stopping_offset and not (stop() and (task.rank or reached > split.starting_offset)):
            phase = Phase.READ
            batch = next(batches, None)
            if batch is None:
                raise RoundFailed(
                    f"the log of bucket {split.bucket} of {split.table_path} ended at offset {reached}, before {split.stopping_offset}",
                    cause_class="IncompleteRead",
                )
            phase = Phase.WRITE
            writer.write(batch)
            reached += batch.num_rows
            crash_points.reach(crash_points.IN_SPLIT)
        return TaskOutcome(writer.complete(split.starting_offset, reached))
    except Exception as error:  # an executor's failure has to reach the driver as data
        if writer is not None:
            writer.abort()
        return TaskOutcome(None, as_lakeward_error(error), phase)


def as_lakeward_error(error: Exception) -> LakewardError:
    """`error` itself if it is of our tree, else wrapped with its class name kept."""
    if isinstance(error, LakewardError):
        return error
    text = redact(f"{type(error).__name__}: {error}")
    if isinstance(error, OSError):
        return LakeUnavailable(text, hint="Check the storage: is it there, writable and not full?")
    return RoundFailed(text, cause_class=type(error).__name__)


def deadline(budget_ms: int) -> Callable[[], bool]:
    """A stop signal that fires `budget_ms` from now."""
    end = time.monotonic() + budget_ms / 1_000
    return lambda: time.monotonic() >= end
