"""Runs a round's tasks as one Spark job: one split a task, rows never pass through the driver or JVM rows."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tiering.errors import Cancelled, LakewardError, RoundFailed
from tiering.model import Phase
from tiering.redact import redact
from tiering.round.base import SplitTask, TaskOutcome, WorkLimits
from tiering.round.task import deadline, run_split
from tiering.rpc.v1.common_pb2 import PbError
from tiering.rpc_errors import from_pb, to_pb

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OUTCOME_SCHEMA = "task long, result binary, error binary, phase string"
_FIELDS: list[pa.Field[Any]] = [
    pa.field("task", pa.int64()),
    pa.field("result", pa.binary()),
    pa.field("error", pa.binary()),
    pa.field("phase", pa.string()),
]
_ARROW_SCHEMA = pa.schema(_FIELDS)
CANCEL_POLL_SECONDS = 0.2


class SparkTaskRunner:
    """A `TaskRunner` over a Spark session. Several threads may run rounds; each is a job group of its own."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def run(self, round_id: str, tasks: Sequence[SplitTask], limits: WorkLimits) -> Sequence[TaskOutcome]:
        """Raises RoundFailed for what Spark itself could not do, Cancelled if it was cancelled."""
        context = self._spark.sparkContext
        payloads = [pickle.dumps(task) for task in tasks]
        work = _work(payloads, limits.budget_ms, _max_failures(self._spark))
        context.setJobGroup(round_id, f"tiering round {round_id}", interruptOnCancel=True)
        done = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(round_id, limits, done), daemon=True)
        watcher.start()
        try:
            rows = self._spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(work, OUTCOME_SCHEMA).collect()
        except Exception as error:
            if limits.cancelled():
                raise Cancelled("the round was cancelled while its splits were read") from error
            raise RoundFailed(redact(_first_lines(error)), cause_class=type(error).__name__) from error
        finally:
            done.set()
        by_task = {row["task"]: row for row in rows}
        return [_outcome(task, by_task[index]) for index, task in enumerate(tasks)]

    def _watch(self, round_id: str, limits: WorkLimits, done: threading.Event) -> None:
        while not done.wait(CANCEL_POLL_SECONDS):
            if limits.cancelled():
                self._spark.sparkContext.cancelJobGroup(round_id)
                return


def _work(payloads: list[bytes], budget_ms: int, max_failures: int) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """What an executor does: a closure over plain bytes, so that nothing of the driver travels along."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        over = deadline(budget_ms)
        for batch in batches:
            for index in batch.column(0).to_numpy():
                task: SplitTask = pickle.loads(payloads[index])
                yield _outcome_batch(int(index), task, run_split(task, over), max_failures)

    return run


def _outcome_batch(index: int, task: SplitTask, outcome: TaskOutcome, max_failures: int) -> pa.RecordBatch:
    if outcome.error is not None and outcome.error.retryable and _attempt() + 1 < max_failures:
        raise outcome.error  # Spark runs the task again, on another executor if it can
    result = None if outcome.result is None else task.factory.serialize_write_result(outcome.result)
    error = None if outcome.error is None else to_pb(outcome.error).SerializeToString()
    columns: list[list[Any]] = [[index], [result], [error], [outcome.phase.value]]
    return pa.record_batch(
        [pa.array(values, field.type) for values, field in zip(columns, _ARROW_SCHEMA, strict=True)], schema=_ARROW_SCHEMA
    )


def _attempt() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.attemptNumber()


def _max_failures(spark: SparkSession) -> int:
    """Attempts Spark gives a task: one in plain local mode, whatever the option says."""
    master = spark.sparkContext.master or ""
    if master.startswith("local") and not master.startswith("local-cluster"):
        return 1
    return int(spark.conf.get("spark.task.maxFailures", "4") or 4)


def _outcome(task: SplitTask, row: Any) -> TaskOutcome:
    result = None if row["result"] is None else task.factory.deserialize_write_result(bytes(row["result"]))
    error: LakewardError | None = None if row["error"] is None else from_pb(PbError.FromString(bytes(row["error"])))
    return TaskOutcome(result, error, Phase(row["phase"]))


def _first_lines(error: Exception, limit: int = 12) -> str:
    """The head of a Spark error: its tail is a Java stack trace that helps nobody in a status column."""
    return "\n".join(str(error).strip().splitlines()[:limit])
