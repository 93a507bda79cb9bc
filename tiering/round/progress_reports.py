"""Sends a round's progress to the coordinator: one call at a time, each of a bounded size, with only the changes.

Reports are best effort: the round never waits for a call, and continues whatever its outcome is. The content of a lost call is sent with
the next one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, islice

import structlog

from tiering.model.rounds import RoundProgress
from tiering.model.splits import SplitPosition, SplitProgress, SplitState
from tiering.round.ports import ProgressReport, ReportAnswer, SplitTask
from tiering.round.progress import MeterReading

log = structlog.get_logger(__name__)

REPORT_TASKS = 500
"""Maximum number of tasks in one report; a task has at most two splits. With the longest names a report has some 600 KB, far below the 4
MiB limit of a message.
"""


SendReport = Callable[[ProgressReport, Callable[[ReportAnswer], None]], None]
"""Sends a report without waiting, and calls back, from any thread, once the outcome is known."""


class ProgressReports:
    """Reports one run of a round over its splits; without `tasks` only the round's total progress. Any thread may call it."""

    def __init__(self, send: SendReport, run: int, tasks: Sequence[SplitTask]) -> None:
        self._send = send
        self._run = run
        self._tasks = tasks
        self._first_numbers = [0, *accumulate(1 if task.snapshot is None else 2 for task in tasks)]
        self._lock = threading.Lock()
        self._progress = RoundProgress()
        self._latest: dict[int, SplitPosition] = {}
        self._unsent: dict[int, None] = {}
        self._acknowledged: set[int] = set()
        self._in_flight: list[int] | None = None
        self._is_due = False
        self._keeps_splits = bool(tasks)
        self._is_refused = False

    def pass_on(self, reading: MeterReading) -> None:
        """Reports a meter's reading, now or when the outstanding call is answered. Never raises."""
        with self._lock:
            self._progress = reading.progress
            self._latest.update(reading.positions)
            self._unsent.update(dict.fromkeys(reading.positions))
            self._is_due = True
        self._send_next()

    def _send_next(self) -> None:
        with self._lock:
            if self._in_flight is not None or not self._is_due or self._is_refused:
                return
            report = self._next_report()
        try:
            self._send(report, self._answered)
        except Exception as error:  # a failed report must not fail the round
            log.debug("a report of progress could not be sent", error=str(error))
            self._answered(ReportAnswer.LOST)

    def _next_report(self) -> ProgressReport:
        if not self._keeps_splits:
            self._unsent.clear()
        page = self._in_flight = list(islice(self._unsent, REPORT_TASKS))
        for task in page:
            del self._unsent[task]
        self._is_due = bool(self._unsent)
        numbered = [pair for task in page for pair in self._numbered(task)]
        splits_told = sum(self._first_numbers[task + 1] - self._first_numbers[task] for task in self._acknowledged)
        return ProgressReport(self._progress, self._run, numbered, splits_told) if self._keeps_splits else ProgressReport(self._progress)

    def _numbered(self, task: int) -> Iterable[tuple[int, SplitProgress]]:
        return enumerate(splits_of(self._tasks[task], self._latest[task]), self._first_numbers[task])

    def _answered(self, answer: ReportAnswer) -> None:
        with self._lock:
            page, self._in_flight = self._in_flight or [], None
            match answer:
                case ReportAnswer.TAKEN:
                    self._acknowledged.update(page)
                case ReportAnswer.SEND_ALL:
                    self._acknowledged = set(page)
                    self._unsent = dict.fromkeys(task for task in self._latest if task not in self._acknowledged)
                    self._is_due = True
                case ReportAnswer.LOST:  # no call follows at once: the next reading triggers one
                    self._unsent = {**dict.fromkeys(page), **self._unsent}
                    self._is_due = False
                case ReportAnswer.REFUSED:
                    self._is_refused = True
        self._send_next()


def splits_of(task: SplitTask, position: SplitPosition) -> list[SplitProgress]:
    """Returns the splits of a task with their progress: its KV snapshot, if it begins with one, and then its log."""
    if task.snapshot is None:
        return [SplitProgress(task.split, position)]
    in_log = position.current_offset is not None or position.state is SplitState.DONE
    snapshot = replace(position, state=SplitState.DONE if in_log else position.state, current_offset=None)
    log_position = position if in_log else SplitPosition(attempt=position.attempt)
    return [SplitProgress(task.snapshot.split, snapshot), SplitProgress(task.split, log_position)]
