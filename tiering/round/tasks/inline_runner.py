"""Runs a small round's tasks in the tierer's own process, without a Spark job."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache

from tiering.errors import DataCorrupt
from tiering.log_context import carried
from tiering.round.ports import RewriteOutcome, RewriteWork, SplitTask, TaskOutcome, WorkLimits, working_order
from tiering.round.progress import ProgressPulse, RoundMeter
from tiering.round.tasks.rewrite_work import run_rewrite
from tiering.round.tasks.split_work import deadline, run_split
from tiering.round.tasks.task_reports import DRIVER, TaskReport, TaskReports, outcome_state

SHARED_ROUND_RECORDS = 50_000
"""A round with fewer records runs on one thread: it takes some 20 ms, and threads with many tiny tasks mostly wait for each other."""
MOST_THREADS = 4
"""Maximum number of threads of one round: other rounds run at the same time, and each thread has a bucket's rows in memory."""


@cache
def inline_executor() -> str:
    """Returns the executor name of tasks that run in this process."""
    return f"{DRIVER}@{socket.gethostname()}"


def usable_threads() -> int:
    """Returns how many tasks of a round this process can work on at once."""
    return min(os.cpu_count() or 1, MOST_THREADS)


@dataclass
class InlineTaskRunner:
    """A `TaskRunner` without Spark. After the first failure it begins no task, and ends those under way: a failed round commits nothing."""

    threads: int = 1
    """Number of threads of one round. Arrow does most of the work, and releases the interpreter's lock for the other threads."""
    pulse: ProgressPulse | None = None
    """Reports changes that are followed by a long read. Without it, they are reported only at the next change."""

    def run(self, round_id: str, tasks: Sequence[SplitTask], limits: WorkLimits, meter: RoundMeter) -> Sequence[TaskOutcome]:
        work = _InlineWork(tasks, limits, meter)
        threads = min(self.threads, len(tasks))
        with nullcontext() if self.pulse is None else self.pulse.during(meter):
            if threads <= 1 or sum(task.records for task in tasks) < SHARED_ROUND_RECORDS:
                work.run()
                return work.outcomes
            with ThreadPoolExecutor(threads, thread_name_prefix="inline") as pool:
                for ended in [pool.submit(carried(work.run)) for _ in range(threads)]:
                    ended.result()
            return work.outcomes

    def rewrite(self, round_id: str, tasks: Sequence[RewriteWork], limits: WorkLimits, meter: RoundMeter) -> Sequence[RewriteOutcome]:
        """Runs one task after the other: upkeep leaves the other cores to rounds with rows."""
        over, outcomes = deadline(limits.budget_ms), list[RewriteOutcome]()
        with nullcontext() if self.pulse is None else self.pulse.during(meter):
            for index, work in enumerate(tasks):
                if limits.cancelled() or (index and over()):
                    break
                reports = TaskReports(lambda report: meter.move(report.position, report.place), 0, inline_executor(), meter.now_ms)
                outcomes.append(run_rewrite(work, index, reports, limits.cancelled))
                if outcomes[-1].error is not None and not isinstance(outcomes[-1].error, DataCorrupt):
                    break
        return outcomes


class _InlineWork:
    """The tasks of one round. Each thread takes the next task until none is left."""

    def __init__(self, tasks: Sequence[SplitTask], limits: WorkLimits, meter: RoundMeter) -> None:
        self._tasks = tasks
        self._limits = limits
        self._meter = meter
        self._over = deadline(limits.budget_ms)
        self._lock = threading.Lock()
        self._remaining = iter(working_order(tasks))
        self._failed = False
        self.outcomes: list[TaskOutcome] = []

    def run(self) -> None:
        while not self._failed and not self._limits.cancelled():
            with self._lock:
                index = next(self._remaining, None)
            if index is None:
                return
            reports = TaskReports(self._take, 0, inline_executor(), self._meter.now_ms)
            reports.begin(index)
            outcome = run_split(self._tasks[index], self._is_late, reports.advance)
            with self._lock:
                self.outcomes.append(outcome)
            reports.end(*outcome_state(self._tasks[index].split, outcome))
            reports.close()
            if outcome.error is not None:
                self._failed = True
                return

    def _take(self, report: TaskReport) -> None:
        self._meter.move(report.position, report.place)

    def _is_late(self) -> bool:
        return self._over() or self._failed or self._limits.cancelled()
