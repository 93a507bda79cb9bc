"""How far a round's tasks are, as they report it, and how often the coordinator hears of that."""

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
"""Between two readings while no task ends."""
ENDED_TASK_MS = 100
"""Between two readings while tasks end: a round of thousands of small splits gives at most ten a second."""

PULSE_SECONDS = 0.25
"""Between two looks at the meters of rounds that run."""


@dataclass(frozen=True)
class MeterReading:
    """What a meter passes on: how far the round is, and the positions that changed since the reading before, by the meter's index."""

    progress: RoundProgress
    positions: Mapping[int, SplitPosition]


@dataclass(frozen=True)
class Lull:
    """For how long no task has moved on, and where those are that were heard of and are not over. Without any nothing hangs: what runs on
    executors that cannot be heard, and what waits for one, is not known to rest.
    """

    ms: int
    executors: tuple[str, ...]


class RoundMeter:
    """Counts what tasks have read, and passes that on. Its methods may be called from several threads, in any order.

    `expected` has the number of records that each task has to read. A task that is run again does not take the round's count back,
    while its own position begins anew with each attempt.
    """

    def __init__(self, expected: Sequence[int], now_ms: Callable[[], int], report: Callable[[MeterReading], None]) -> None:
        self._expected = list(expected)
        self._smallest = [0, *accumulate(sorted(expected))]
        """By a number of tasks, the records that so many tasks have at least."""
        self.now_ms = now_ms
        self._report = report
        self.place = IN_THE_TIERER
        """Where the tasks run; a runner that sends them elsewhere says so."""
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
        """How far the round is now."""
        with self._lock:
            return self._progress()

    def _progress(self) -> RoundProgress:
        splits = max(len(self._ended), self._ended_at_least)
        # Where it is not known which tasks have ended, they had at least as many records as the smallest ones.
        records = max(self._done_in_all, self._smallest[splits])
        return RoundProgress(splits, len(self._expected), records, self._smallest[-1])

    def position(self, task: int) -> SplitPosition:
        """How far the newest attempt at a task is, as last heard."""
        with self._lock:
            return self._positions[task]

    @property
    def lull(self) -> Lull:
        """How long it is now since something moved."""
        with self._lock:
            running = {position.executor or "" for position in self._positions if position.state is SplitState.RUNNING}
            return Lull(self.now_ms() - self._moved_ms, tuple(sorted(running)))

    def move(self, position: SplitPosition, *tasks: int) -> None:
        """Takes in how far an attempt is with its tasks. What is late or a repeat changes nothing."""
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
        """Takes in how many tasks have ended at least, where nobody knows which ones."""
        with self._lock:
            if tasks <= max(self._ended_at_least, len(self._ended)):
                return
            self._ended_at_least = min(tasks, len(self._expected))
            self._moved_ms = self.now_ms()
        self._pass_on(ENDED_TASK_MS)

    def report(self) -> None:
        """Passes on what has changed."""
        self._pass_on(0)

    def report_if_due(self) -> None:
        """Passes on what has changed if the last reading is a while ago. Called now and then: the last change before a lull counts, too."""
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
    """Looks now and then whether the meters of running rounds have something to pass on. One thread for a tierer process."""

    def __init__(self) -> None:
        self._meters: set[RoundMeter] = set()
        self._some = threading.Condition()
        threading.Thread(target=self._run, name="progress pulse", daemon=True).start()

    @contextmanager
    def during(self, meter: RoundMeter) -> Iterator[None]:
        """Looks at this meter meanwhile."""
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
