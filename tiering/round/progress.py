"""Collects the progress of a round's tasks, and limits how often it is reported to the coordinator."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate

from tiering.model.rounds import IN_THE_TIERER, RoundProgress
from tiering.model.splits import SplitPosition, SplitState

REPORT_MS = 500
"""Minimum time between two readings while no task ends."""
ENDED_TASK_MS = 100
"""Minimum time between two readings while tasks end, so that a round of thousands of small splits reports at most ten times a second."""

PULSE_SECONDS = 0.25
"""Interval at which the meters of running rounds are checked."""


@dataclass(frozen=True)
class MeterReading:
    """A report of a meter: the progress of the round, and the positions that changed since the previous reading, by task index."""

    progress: RoundProgress
    positions: Mapping[int, SplitPosition]


@dataclass(frozen=True)
class IdleTime:
    """The time without progress of any task, and the executors of the running tasks that reported.

    Without such executors the round does not count as hanging. Its tasks may be active on executors that send no reports, or wait for an
    executor.
    """

    ms: int
    executors: tuple[str, ...]


class RoundMeter:
    """Counts what tasks have read, and passes that on. Its methods may be called from several threads, in any order.

    `expected` has the number of records that each task has to read. A repeated task does not reduce the round's count, while its own
    position starts again with each attempt.
    """

    def __init__(self, expected: Sequence[int], now_ms: Callable[[], int], report: Callable[[MeterReading], None]) -> None:
        self._expected = list(expected)
        self._smallest = [0, *accumulate(sorted(expected))]
        """For each number of tasks, the minimum number of records that so many tasks have."""
        self.now_ms = now_ms
        self._report = report
        self.place = IN_THE_TIERER
        """The place where the tasks run. A runner that sends them elsewhere sets it."""
        self._lock = threading.Lock()
        self._done = [0] * len(self._expected)
        self._done_in_all = 0
        self._positions = [SplitPosition()] * len(self._expected)
        self._changed = set(range(len(self._expected)))
        self._ended: set[int] = set()
        self._ended_at_least = 0
        self._moved_ms = now_ms()
        self._reported_ms: int | None = None
        self._reported: RoundProgress | None = None

    @property
    def progress(self) -> RoundProgress:
        """Returns the current progress of the round."""
        with self._lock:
            return self._progress()

    def _progress(self) -> RoundProgress:
        splits = max(len(self._ended), self._ended_at_least)
        # If only the number of ended tasks is known, they had at least as many records as the smallest tasks.
        records = max(self._done_in_all, self._smallest[splits])
        return RoundProgress(splits, len(self._expected), records, self._smallest[-1])

    def position(self, task: int) -> SplitPosition:
        """Returns the last reported position of a task's newest attempt."""
        with self._lock:
            return self._positions[task]

    @property
    def idle_time(self) -> IdleTime:
        """Returns the time since the last progress, and the executors of the running tasks."""
        with self._lock:
            running = {position.executor or "" for position in self._positions if position.state is SplitState.RUNNING}
            return IdleTime(self.now_ms() - self._moved_ms, tuple(sorted(running)))

    def move(self, position: SplitPosition, *tasks: int) -> None:
        """Records the position of an attempt for its tasks. Late or repeated positions change nothing."""
        with self._lock:
            for task in tasks:
                self._move(task, position)
        self._pass_on(ENDED_TASK_MS if position.state.is_final else REPORT_MS)

    def _move(self, task: int, position: SplitPosition) -> None:
        before = self._positions[task]
        after = before.then(position)
        if after == before:
            return
        self._positions[task] = after
        self._changed.add(task)
        self._moved_ms = self.now_ms()
        if after.state in (SplitState.DONE, SplitState.STOPPED):
            self._ended.add(task)
        done = self._expected[task] if task in self._ended else min(after.records, self._expected[task])
        self._done_in_all += max(done - self._done[task], 0)
        self._done[task] = max(done, self._done[task])

    def end_at_least(self, tasks: int) -> None:
        """Records the minimum number of ended tasks, for use when it is unknown which tasks ended."""
        with self._lock:
            if tasks <= max(self._ended_at_least, len(self._ended)):
                return
            self._ended_at_least = min(tasks, len(self._expected))
            self._moved_ms = self.now_ms()
        self._pass_on(ENDED_TASK_MS)

    def report(self) -> None:
        """Passes on the changes at once."""
        self._pass_on(0)

    def report_if_due(self) -> None:
        """Passes on the changes if the last reading is old enough. Called periodically, so that the last change before a lull is reported
        too.
        """
        self._pass_on(REPORT_MS)

    def _pass_on(self, gap_ms: int) -> None:
        with self._lock:
            now_ms = self.now_ms()
            if self._reported_ms is not None and now_ms - self._reported_ms < gap_ms:
                return
            progress = self._progress()
            if progress == self._reported and not self._changed:
                return
            self._reported, self._reported_ms = progress, now_ms
            reading = MeterReading(progress, {task: self._positions[task] for task in sorted(self._changed)})
            self._changed.clear()
        self._report(reading)


class ProgressPulse:
    """Checks periodically whether the meters of running rounds have changes to pass on. One thread for a tierer process."""

    def __init__(self) -> None:
        self._meters: set[RoundMeter] = set()
        self._some = threading.Condition()
        threading.Thread(target=self._run, name="progress pulse", daemon=True).start()

    @contextmanager
    def during(self, meter: RoundMeter) -> Iterator[None]:
        """Includes this meter in the checks while the context is open."""
        with self._some:
            self._meters.add(meter)
            self._some.notify()
        try:
            yield
        finally:
            with self._some:
                self._meters.discard(meter)

    def _run(self) -> None:
        while True:
            with self._some:
                self._some.wait_for(lambda: self._meters)
                meters = list(self._meters)
            for meter in meters:
                meter.report_if_due()
            time.sleep(PULSE_SECONDS)
