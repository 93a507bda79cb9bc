"""Runs a round's tasks as one Spark job: one split a task, rows never pass through the driver or JVM rows."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tiering.errors import Cancelled, LakewardError, RoundFailed
from tiering.model.rounds import Phase
from tiering.round.ports import SplitTask, TaskOutcome, WorkLimits, working_order
from tiering.round.tasks.executor import OUTCOME_SCHEMA, executor_work
from tiering.rpc.v1.common_pb2 import PbError
from tiering.wire.errors import error_from_pb

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CANCEL_POLL_SECONDS = 0.2


class SparkTaskRunner:
    """A `TaskRunner` over a Spark session. Several threads may run rounds: each is a job group, and they share the executors."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._lock = threading.Lock()
        self._pools: set[int] = set()

    def run(self, round_id: str, tasks: Sequence[SplitTask], limits: WorkLimits) -> Sequence[TaskOutcome]:
        """Raises RoundFailed for what Spark itself could not do, Cancelled if it was cancelled."""
        context = self._spark.sparkContext
        order = working_order(tasks)  # Spark starts tasks in order
        payloads = [pickle.dumps(tasks[index]) for index in order]
        work = executor_work(payloads, limits.budget_ms, _max_failures(self._spark))
        context.setJobGroup(round_id, f"tiering round {round_id}", interruptOnCancel=True)
        pool = self._take_pool()
        context.setLocalProperty("spark.scheduler.pool", f"slot-{pool}")
        done = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(round_id, limits, done), daemon=True)
        watcher.start()
        try:
            rows = self._spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(work, OUTCOME_SCHEMA).collect()
        except Exception as error:
            if limits.cancelled():
                raise Cancelled("the round was cancelled while its splits were read") from error
            raise RoundFailed(_first_lines(error), cause_class=type(error).__name__) from error
        finally:
            done.set()
            self._give_pool_back(pool)
        return [_outcome(tasks[order[row["task"]]], row) for row in rows]

    def _take_pool(self) -> int:
        """A scheduler pool for this round: pools share the executors, while jobs of one pool wait for each other."""
        with self._lock:
            pool = next(number for number in range(len(self._pools) + 1) if number not in self._pools)
            self._pools.add(pool)
        return pool

    def _give_pool_back(self, pool: int) -> None:
        with self._lock:
            self._pools.discard(pool)

    def _watch(self, round_id: str, limits: WorkLimits, done: threading.Event) -> None:
        while not done.wait(CANCEL_POLL_SECONDS):
            if limits.cancelled():
                with suppress(Exception):  # Py4J's; as with a job that is not there yet, the next turn asks again
                    self._spark.sparkContext.cancelJobGroup(round_id)


def _max_failures(spark: SparkSession) -> int:
    """Attempts Spark gives a task: one in plain local mode, whatever the option says."""
    master = spark.sparkContext.master or ""
    if master.startswith("local") and not master.startswith("local-cluster"):
        return 1
    return int(spark.conf.get("spark.task.maxFailures", "4") or 4)


def _outcome(task: SplitTask, row: Any) -> TaskOutcome:
    result = None if row["result"] is None else task.factory.deserialize_write_result(bytes(row["result"]))
    error: LakewardError | None = None if row["error"] is None else error_from_pb(PbError.FromString(bytes(row["error"])))
    return TaskOutcome(result, error, Phase(row["phase"]))


def _first_lines(error: Exception, limit: int = 12) -> str:
    """The head of a Spark error: its tail is a Java stack trace that helps nobody in a status column."""
    return "\n".join(str(error).strip().split("\n", limit)[:limit])
