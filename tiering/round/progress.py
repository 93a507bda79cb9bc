"""How far a round's tasks are, as they report it, and how often the coordinator hears of that."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from tiering.model.rounds import RoundProgress

REPORT_MS = 1_000
"""Between two reports while no task ends."""
ENDED_TASK_MS = 100
"""Between two reports while tasks end: a round of thousands of small splits sends at most ten a second."""


class RoundMeter:
    """Counts what tasks have read, and passes the sum on. Its methods may be called from several threads, in any order.

    `expected` has the number of records that each task has to read. A task that is run again does not take the count back.
    """

    def __init__(self, expected: Sequence[int], now_ms: Callable[[], int], report: Callable[[RoundProgress], None]) -> None:
        self._expected = list(expected)
        self._now_ms = now_ms
        self._report = report
        self._lock = threading.Lock()
        self._done = [0] * len(self._expected)
        self._ended: set[int] = set()
        self._ended_at_least = 0
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
        records = max(sum(self._done), sum(sorted(self._expected)[:splits]))
        return RoundProgress(splits, len(self._expected), records, sum(self._expected))

    def advance(self, task: int, records: int) -> None:
        """Takes in how many records a task has read since it began."""
        with self._lock:
            self._done[task] = max(self._done[task], min(records, self._expected[task]))
        self._pass_on(REPORT_MS)

    def end(self, task: int) -> None:
        """Takes in that a task has ended."""
        with self._lock:
            self._ended.add(task)
            self._done[task] = self._expected[task]
        self._pass_on(ENDED_TASK_MS)

    def end_at_least(self, tasks: int) -> None:
        """Takes in how many tasks have ended at least, where nobody knows which ones."""
        with self._lock:
            if tasks <= max(self._ended_at_least, len(self._ended)):
                return
            self._ended_at_least = min(tasks, len(self._expected))
        self._pass_on(ENDED_TASK_MS)

    def report(self) -> None:
        """Reports how far the round is if that has changed."""
        self._pass_on(0)

    def _pass_on(self, gap_ms: int) -> None:
        with self._lock:
            progress, now_ms = self._progress(), self._now_ms()
            if progress == self._reported or (self._reported_ms is not None and now_ms - self._reported_ms < gap_ms):
                return
            self._reported, self._reported_ms = progress, now_ms
        self._report(progress)
