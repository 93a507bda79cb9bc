"""The function that Spark executors run. It takes and returns plain bytes, and imports neither gRPC nor any module of the driver."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from tiering.clock import SystemClock
from tiering.lake.base import FileRewrite
from tiering.lake.writing.serializers import serialize_write_result
from tiering.round.ports import SplitTask, TaskOutcome
from tiering.round.tasks.progress_datagrams import ProgressAddress, send_report
from tiering.round.tasks.rewrite_work import run_rewrite
from tiering.round.tasks.split_work import deadline, run_split
from tiering.round.tasks.task_reports import TaskReports, executor_name, outcome_state
from tiering.wire.errors import error_to_pb


@dataclass(frozen=True)
class EncodedTask:
    """The work of one split as sent to an executor: its place in the round's order of tasks, and the pickled `SplitTask`."""

    index: int
    content: bytes


@dataclass(frozen=True)
class EncodedOutcome:
    """The outcome of a split as returned by an executor: a serialized write result, or PbErrors and the phase in which the error
    happened.
    """

    index: int
    result: bytes | None
    error: bytes | None
    stopped: bytes | None
    phase: str
    read_ms: float
    work_ms: float
    bytes_read: int
    suspected_error: bytes | None = None
    has_control: bool = False


@dataclass(frozen=True)
class EncodedRewrite:
    """The outcome of a rewrite as returned by an executor. Neither rewrite nor error is set if the round's time was over before it
    began.
    """

    index: int
    rewrite: FileRewrite | None = None
    error: bytes | None = None


Work = Callable[[Iterable[Sequence[EncodedTask]]], Iterable[EncodedOutcome]]


def executor_work(budget_ms: int, max_failures: int, address: ProgressAddress | None = None) -> Work:
    """Returns the function for `mapPartitions`: a closure over plain values, so that no object of the driver is pickled with it.

    The budget is the round's, not a task's: a task that starts late gets the remaining time. The wall clocks of driver and executor may
    differ, so no task gets more than the whole budget.
    """
    end = time.time() + budget_ms / 1_000

    def run(groups: Iterable[Sequence[EncodedTask]]) -> Iterable[EncodedOutcome]:
        left_ms = int((end - time.time()) * 1_000)
        over, attempt = deadline(max(0, min(left_ms, budget_ms))), _attempt()
        reports = TaskReports(partial(send_report, address), attempt, executor_name(), SystemClock().monotonic_ms)
        for encoded in (encoded for group in groups for encoded in group):
            task: SplitTask = pickle.loads(encoded.content)
            reports.begin(encoded.index)
            outcome = run_split(task, over, reports.advance)
            reports.end(*outcome_state(task.split, outcome))
            if outcome.error is not None and outcome.error.retryable and attempt + 1 < max_failures:
                reports.close()
                raise outcome.error  # Spark runs the task again, on another executor if possible
            yield _encoded(encoded.index, task, outcome)
        reports.close()

    return run


def executor_rewrites(
    budget_ms: int, max_failures: int, address: ProgressAddress | None = None
) -> Callable[[Iterable[Sequence[EncodedTask]]], Iterable[EncodedRewrite]]:
    """Returns the function for tasks with a `RewriteWork`. Spark kills the process of a cancelled task, so the rewrite need not check for a
    cancellation.

    The budget is the round's: a task that would begin after its end is left out, except for the first one.
    """
    end = time.time() + budget_ms / 1_000

    def run(groups: Iterable[Sequence[EncodedTask]]) -> Iterable[EncodedRewrite]:
        attempt = _attempt()
        for encoded in (encoded for group in groups for encoded in group):
            if encoded.index and time.time() >= end:
                yield EncodedRewrite(encoded.index)
                continue
            reports = TaskReports(partial(send_report, address), attempt, executor_name(), SystemClock().monotonic_ms)
            outcome = run_rewrite(pickle.loads(encoded.content), encoded.index, reports, lambda: False)
            if outcome.error is not None and outcome.error.retryable and attempt + 1 < max_failures:
                raise outcome.error  # Spark runs the task again, as for a split
            error = None if outcome.error is None else error_to_pb(outcome.error).SerializeToString()
            yield EncodedRewrite(encoded.index, outcome.rewrite, error)

    return run


def _encoded(index: int, task: SplitTask, outcome: TaskOutcome) -> EncodedOutcome:
    result = None if outcome.result is None else serialize_write_result(outcome.result)
    error, stopped, suspected_error = (
        None if error is None else error_to_pb(error).SerializeToString()
        for error in (outcome.error, outcome.stopped, outcome.suspected_error)
    )
    times = outcome.read_ms, outcome.work_ms, outcome.bytes_read
    return EncodedOutcome(index, result, error, stopped, outcome.phase.value, *times, suspected_error, outcome.has_control)


def _attempt() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.attemptNumber()
