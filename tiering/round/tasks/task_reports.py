"""The progress reports of a running task, and their rate: on an executor, or inline."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tiering.model.splits import SplitPosition, SplitState, TieringLogSplit
from tiering.round.ports import TaskOutcome

REPORT_MS = 1_000
"""Minimum time between two reports of a running task. With the last report, which is sent at once, there are at most two in a second."""

DRIVER = "driver"
"""Spark's name for the driver as an executor. The tasks of small rounds run there too."""
_ANCESTORS = 4
"""Maximum number of parent processes from a Python worker up to the executor's JVM; a daemon is between them."""


@dataclass(frozen=True)
class TaskReport:
    """The progress of a task: `position` within the split at `place` of the round's order, after `ended` completely read splits that begin
    at place `first`.
    """

    first: int
    ended: int
    place: int
    position: SplitPosition


class TaskReports:
    """Reports one attempt at a task, which works on one split after the other. For one thread."""

    def __init__(self, send: Callable[[TaskReport], None], attempt: int, executor: str, now_ms: Callable[[], int]) -> None:
        self._send = send
        self._now_ms = now_ms
        self._attempt = attempt
        self._executor = executor
        self._due_ms = -REPORT_MS
        self._first: int | None = None
        self._ended = 0
        self._place = 0
        self._records = 0
        self._offset: int | None = None
        self._unsent: TaskReport | None = None

    def begin(self, place: int) -> None:
        """Reports that work on the split at this place begins."""
        self._first = place if self._first is None else self._first
        self._place, self._records, self._offset = place, 0, None
        self._tell(SplitState.RUNNING)

    def advance(self, records: int, offset: int | None) -> None:
        """Reports how many records of the split were read, up to this offset of the log; None = within its KV snapshot."""
        self._records, self._offset = records, offset
        self._tell(SplitState.RUNNING)

    def end(self, state: SplitState, offset: int | None) -> None:
        """Reports that work on the split ended; `offset` is None if it is unknown."""
        if state is SplitState.DONE and self._first is not None and self._place == self._first + self._ended:
            self._ended += 1  # after a split that ended early no more are counted, because that split was not completely read
        self._offset = self._offset if offset is None else offset
        self._tell(state)

    def close(self) -> None:
        """Sends the last report of the attempt if it was not sent yet."""
        if self._unsent is not None:
            self._send(self._unsent)
        self._unsent = None

    def _tell(self, state: SplitState) -> None:
        position = SplitPosition(state, self._attempt, self._executor, self._offset, self._records)
        self._unsent = TaskReport(self._first or 0, self._ended, self._place, position)
        if (now_ms := self._now_ms()) >= self._due_ms:
            self._due_ms = now_ms + REPORT_MS
            self.close()


def outcome_state(split: TieringLogSplit, outcome: TaskOutcome) -> tuple[SplitState, int | None]:
    """Returns how work on a split ended, and the offset that it reached, if known."""
    if outcome.error is not None:
        return SplitState.FAILED, None
    if outcome.result is None:
        return SplitState.STOPPED, None
    reached = outcome.result.reached_offset
    return (SplitState.DONE if reached >= split.stopping_offset else SplitState.STOPPED), reached


@cache
def executor_name() -> str:
    """Returns this process's executor as `id@host`. The id is the one on Spark's own pages, or the process id if that is not found."""
    return f"{_executor_id() or os.getpid()}@{socket.gethostname()}"


def _executor_id() -> str | None:
    """Returns the executor id from the command line of the executor's JVM, above this worker. Spark does not pass it to Python workers, but
    every cluster manager puts it there.
    """
    if (executor_id := os.environ.get("SPARK_EXECUTOR_ID")) is not None:
        return executor_id
    process = os.getppid()
    for _ in range(_ANCESTORS):
        try:
            words = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace").split("\0")
            process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return None
        if "--executor-id" in words[:-1]:
            return words[words.index("--executor-id") + 1]
        if "org.apache.spark.deploy.SparkSubmit" in words:
            return DRIVER
    return None
