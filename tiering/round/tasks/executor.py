"""The function that Spark executors run: plain bytes in, outcomes out. Imports neither gRPC nor anything of the driver."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from tiering.round.ports import SplitTask, TaskOutcome
from tiering.round.tasks.progress_datagrams import ProgressAddress, ProgressSender
from tiering.round.tasks.split_work import deadline, run_split
from tiering.wire.errors import error_to_pb

OUTCOME_SCHEMA = "task long, result binary, error binary, phase string"
_FIELDS: list[pa.Field[Any]] = [
    pa.field("task", pa.int64()),
    pa.field("result", pa.binary()),
    pa.field("error", pa.binary()),
    pa.field("phase", pa.string()),
]
_ARROW_SCHEMA = pa.schema(_FIELDS)


Work = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]


def executor_work(payloads: list[bytes], budget_ms: int, max_failures: int, address: ProgressAddress | None = None) -> Work:
    """The function for `mapInArrow`: a closure over plain bytes, so that nothing of the driver is pickled with it.

    The budget is the round's, not a task's: a task that starts late has what is left of it. Wall clocks of driver and
    executor may differ; no task gets more than the whole budget for it.
    """
    end = time.time() + budget_ms / 1_000

    def run(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        left_ms = int((end - time.time()) * 1_000)
        over = deadline(max(0, min(left_ms, budget_ms)))
        for batch in batches:
            for index in batch.column(0).to_numpy():
                task: SplitTask = pickle.loads(payloads[index])
                sender = ProgressSender(address, int(index))
                outcome = _outcome_batch(int(index), task, run_split(task, over, sender.advance), max_failures)
                sender.end()
                yield outcome

    return run


def _outcome_batch(index: int, task: SplitTask, outcome: TaskOutcome, max_failures: int) -> pa.RecordBatch:
    if outcome.error is not None and outcome.error.retryable and _attempt() + 1 < max_failures:
        raise outcome.error  # Spark runs the task again, on another executor if it can
    result = None if outcome.result is None else task.factory.serialize_write_result(outcome.result)
    error = None if outcome.error is None else error_to_pb(outcome.error).SerializeToString()
    columns: list[list[Any]] = [[index], [result], [error], [outcome.phase.value]]
    return pa.record_batch(
        [pa.array(values, field.type) for values, field in zip(columns, _ARROW_SCHEMA, strict=True)], schema=_ARROW_SCHEMA
    )


def _attempt() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.attemptNumber()
