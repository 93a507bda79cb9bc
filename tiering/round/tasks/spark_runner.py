"""Runs a round's tasks as one Spark job; rows never pass through the driver or the JVM.

The job uses Spark's RDDs: planning a DataFrame and passing it through Arrow takes 0.1 s longer, for a few bytes a split.
"""

from __future__ import annotations

import itertools
import pickle
import secrets
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from tiering.errors import BucketStopped, Cancelled, LakewardError, RoundFailed
from tiering.lake.writing.serializers import deserialize_write_result
from tiering.model.rounds import Phase, RanOn, RoundPlace
from tiering.round.ports import RewriteOutcome, RewriteWork, SplitTask, TaskOutcome, WorkLimits, working_order
from tiering.round.progress import RoundMeter
from tiering.round.tasks.executor import EncodedOutcome, EncodedTask, executor_rewrites, executor_work
from tiering.round.tasks.progress_datagrams import TOKEN_BYTES, ProgressAddress, ProgressReceiver
from tiering.round.tasks.task_reports import outcome_state
from tiering.rpc.v1.common_pb2 import PbError
from tiering.wire.errors import error_from_pb

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

CANCEL_POLL_SECONDS = 0.2
ENDED_TASKS_TURNS = 5
"""Number of cancel polls between two counts of ended tasks: the tasks are counted once a second."""

SMALL_TASK_RECORDS = 50_000
"""Maximum number of records in splits that share a Spark task: some 20 ms of an executor's work."""


class SparkTaskRunner:
    """A `TaskRunner` over a Spark session. Several threads may run rounds: each round is a job group, and all share the executors."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._lock = threading.Lock()
        self._pools: set[int] = set()
        self._receiver: ProgressReceiver | None = None

    def run(self, round_id: str, tasks: Sequence[SplitTask], limits: WorkLimits, meter: RoundMeter) -> Sequence[TaskOutcome]:
        """Runs the tasks on Spark. Raises RoundFailed if Spark itself failed, Cancelled if the round was cancelled."""
        order = working_order(tasks)  # Spark starts tasks in order
        encoded = [EncodedTask(place, pickle.dumps(tasks[index])) for place, index in enumerate(order)]
        groups = group_splits([tasks[index].records for index in order], self._spark.sparkContext.defaultParallelism)
        parts = [[encoded[place] for place in group] for group in groups]
        outcomes = self._collected(round_id, parts, order, limits, meter, executor_work)
        ended = [(order[outcome.index], _decoded(tasks[order[outcome.index]], outcome)) for outcome in outcomes]
        for index, outcome in ended:
            state, offset = outcome_state(tasks[index].split, outcome)
            meter.move(replace(meter.position(index), state=state, current_offset=offset), index)
        return [outcome for _, outcome in ended]

    def rewrite(self, round_id: str, tasks: Sequence[RewriteWork], limits: WorkLimits, meter: RoundMeter) -> Sequence[RewriteOutcome]:
        """Runs the rewrites as `run` does, with a Spark task for each rewrite."""
        parts = [[EncodedTask(place, pickle.dumps(work))] for place, work in enumerate(tasks)]
        outcomes = self._collected(round_id, parts, range(len(tasks)), limits, meter, executor_rewrites)
        meter.end_at_least(sum(outcome.rewrite is not None for outcome in outcomes))
        return [
            RewriteOutcome(outcome.rewrite, _decoded_error(outcome.error), tasks[outcome.index].task.size_bytes)
            for outcome in outcomes
            if outcome.rewrite is not None or outcome.error is not None
        ]

    def _collected(
        self,
        round_id: str,
        parts: Sequence[Sequence[EncodedTask]],
        order: Sequence[int],
        limits: WorkLimits,
        meter: RoundMeter,
        work_of: Callable[[int, int, ProgressAddress | None], Callable[[Iterable[Sequence[EncodedTask]]], Iterable[T]]],
    ) -> list[T]:
        """Runs one Spark job with a task for each of `parts`."""
        context = self._spark.sparkContext
        context.setJobGroup(round_id, f"tiering round {round_id}", interruptOnCancel=True)
        pool = self._take_pool()
        context.setLocalProperty("spark.scheduler.pool", f"slot-{pool}")
        done = threading.Event()
        meter.place = RoundPlace(RanOn.SPARK, context.applicationId)
        threading.Thread(target=self._watch, args=(round_id, limits, meter, done), daemon=True).start()
        try:
            with self._progress_receiver().during(meter, order) as address:
                work = work_of(limits.budget_ms, _max_failures(self._spark), address)
                return context.parallelize(parts, len(parts)).mapPartitions(work).collect()
        except Exception as error:
            if limits.cancelled():
                raise Cancelled("the round was cancelled while its tasks ran") from error
            raise RoundFailed(_first_lines(error), cause_class=type(error).__name__) from error
        finally:
            done.set()
            self._give_pool_back(pool)
            meter.place = replace(meter.place, spark_job_id=_newest_job(self._spark, round_id))

    def _progress_receiver(self) -> ProgressReceiver:
        """Returns the receiver of all rounds, at the address under which Spark's executors reach this driver."""
        with self._lock:
            if self._receiver is None:
                conf = self._spark.sparkContext.getConf()
                host = conf.get("spark.driver.host", "127.0.0.1") or "127.0.0.1"
                bind_host = conf.get("spark.driver.bindAddress", host) or host
                self._receiver = ProgressReceiver(bind_host, host, partial(secrets.token_bytes, TOKEN_BYTES))
            return self._receiver

    def _take_pool(self) -> int:
        """Takes a scheduler pool for this round: pools share the executors, while jobs within a pool wait for each other."""
        with self._lock:
            pool = next(number for number in range(len(self._pools) + 1) if number not in self._pools)
            self._pools.add(pool)
        return pool

    def _give_pool_back(self, pool: int) -> None:
        with self._lock:
            self._pools.discard(pool)

    def _watch(self, round_id: str, limits: WorkLimits, meter: RoundMeter, done: threading.Event) -> None:
        """Cancels the job when the round is cancelled. Also counts ended tasks, because executors may be unable to report them."""
        for turn in itertools.count(1):
            if done.wait(CANCEL_POLL_SECONDS):
                return
            meter.report_if_due()
            if turn % ENDED_TASKS_TURNS == 0:
                with suppress(Exception):  # an error of Py4J; the next turn counts again
                    meter.end_at_least(_ended_tasks(self._spark, round_id))
            if limits.cancelled():
                with suppress(Exception):  # an error of Py4J, or the job does not exist yet; the next turn cancels again
                    self._spark.sparkContext.cancelJobGroup(round_id)


def group_splits(records: Sequence[int], cores: int) -> list[range]:
    """Returns which splits share a Spark task, as ranges of places in the starting order.

    Neighbours share a task up to SMALL_TASK_RECORDS, but every core gets a task if there are enough splits. A task costs Spark some 20 ms,
    in which an executor reads and writes that many records.
    """
    limit = min(SMALL_TASK_RECORDS, -(-sum(records) // max(cores, 1)))
    groups: list[range] = []
    start = size = 0
    for place, count in enumerate(records):
        if place > start and size + count > limit:
            groups.append(range(start, place))
            start, size = place, 0
        size += count
    return [*groups, range(start, len(records))]


def _max_failures(spark: SparkSession) -> int:
    """Returns how often Spark tries a task: once in plain local mode, whatever the option says."""
    master = spark.sparkContext.master or ""
    if master.startswith("local") and not master.startswith("local-cluster"):
        return 1
    return int(spark.conf.get("spark.task.maxFailures", "4") or 4)


def _newest_job(spark: SparkSession, round_id: str) -> int | None:
    """Returns the id of the newest job of the round; None if Spark does not report it."""
    with suppress(Exception):  # an error of Py4J; the id is only informative
        return max(spark.sparkContext.statusTracker().getJobIdsForGroup(round_id), default=None)
    return None


def _ended_tasks(spark: SparkSession, round_id: str) -> int:
    """Returns how many tasks of the round's job succeeded, according to Spark's driver."""
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job_id) for job_id in tracker.getJobIdsForGroup(round_id)]
    stages = [tracker.getStageInfo(stage_id) for job in jobs if job is not None for stage_id in job.stageIds]
    return sum(stage.numCompletedTasks for stage in stages if stage is not None)


def _decoded(task: SplitTask, outcome: EncodedOutcome) -> TaskOutcome:
    result = None if outcome.result is None else deserialize_write_result(outcome.result)
    error, stopped, suspected_error = (_decoded_error(content) for content in (outcome.error, outcome.stopped, outcome.suspected_error))
    assert stopped is None or isinstance(stopped, BucketStopped)
    times = outcome.read_ms, outcome.work_ms, outcome.bytes_read
    return TaskOutcome(result, error, Phase(outcome.phase), *times, stopped, suspected_error, outcome.has_control)


def _decoded_error(content: bytes | None) -> LakewardError | None:
    return None if content is None else error_from_pb(PbError.FromString(content))


def _first_lines(error: Exception) -> str:
    """Returns the first lines of a Spark error: the rest is a Java stack trace, which is of no use in a status column."""
    return "\n".join(str(error).strip().split("\n")[:12])
