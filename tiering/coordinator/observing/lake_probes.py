"""Reads of lake tables with a bounded wait, so that a lake catalog that hangs does not hold a call.

A read (a "probe") cannot be interrupted. After its caller gave it up, it runs until lake and source cluster answer, or until their own
deadlines. So a probe must do no harm however late it ends, and probes have threads of their own.

A table has one probe of a time until one was answered, then a few. While a probe that was given up still runs, further probes of its table
are refused at once. So a table that hangs uses one thread, however many callers ask about it. Only if as many tables hang as there are
threads does a probe of another table wait.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar

from tiering.errors import ClusterUnavailable, LakeUnavailable, ServiceBusy, TransientTieringError
from tiering.library_guards.panics import contained
from tiering.model.tables import TablePath

Answer = TypeVar("Answer")

THREADS = 128
"""Number of concurrent probes. They mostly wait for lakes. If this many were given up, the whole lake hangs."""

TABLE_THREADS = 4
"""Number of concurrent probes of one table that answers; further probes are queued."""

LEAST_MS = 1_000
"""Shortest wait of a call for its probe. A healthy lake answers within it, also to a call that does not wait."""


class Side(Enum):
    """The system that a probe waits for."""

    LAKE = "the lake"
    CLUSTER = "the source cluster"
    EITHER = "the lake or the source cluster"


SideReporter = Callable[[Side], None]
"""A probe calls it before each request, so that the caller that gives the probe up can name the system that does not answer."""


def ignore_side(_: Side) -> None:
    """Ignores the side, for work that is never given up."""


@dataclass(frozen=True)
class LakeProbe(Generic[Answer]):
    """A probe of the lake table of a source table. `work` blocks, and does no harm however late it ends."""

    path: TablePath
    table_id: int
    work: Callable[[SideReporter], Answer]


@dataclass(eq=False)
class _StartedProbe:
    """A probe that waits for a thread, or runs.

    `given_up_at` is when a running probe without a waiting caller counts as given up (seconds of the clock). None while a caller waits.
    """

    probe: LakeProbe[Any]
    answer: Future[Any] = field(default_factory=Future)
    side: Side = Side.EITHER
    started_at: float = 0.0
    given_up_at: float | None = None

    def is_given_up(self, now: float) -> bool:
        return self.given_up_at is not None and self.given_up_at <= now

    def note(self, side: Side) -> None:
        self.side = side


@dataclass
class _TableProbes:
    """The probes of one table: running ones, queued ones, and whether one of them was answered."""

    running: list[_StartedProbe] = field(default_factory=list)
    waiting: deque[_StartedProbe] = field(default_factory=deque)
    answers: bool = False

    def given_up(self, now: float) -> _StartedProbe | None:
        """Returns a running probe that was given up; None if there is none."""
        return next((started for started in self.running if started.is_given_up(now)), None)


class LakeProbes:
    """The threads for probes. It is thread-safe. `within` is for any event loop, `wait` for threads."""

    def __init__(self, threads: int = THREADS, name: str = "bounded-probe", clock: Callable[[], float] = time.monotonic) -> None:
        self._most = threads
        self._clock = clock
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._lock = threading.Lock()
        self._tables: dict[int, _TableProbes] = {}
        self._closed = False

    async def within(self, milliseconds: float, probe: LakeProbe[Answer]) -> Answer:
        """Returns the probe's result, or raises its error.

        Raises LakeUnavailable or ClusterUnavailable after `milliseconds`, but not before LEAST_MS. Raises it at once while an earlier probe
        at the table that was given up still runs, or as many such probes as there are threads. Raises ServiceBusy after `close`.
        """
        seconds = max(milliseconds, LEAST_MS) / 1_000
        started = self._begin(probe)
        answer = asyncio.wrap_future(started.answer)
        try:
            await asyncio.wait([answer], timeout=seconds)
            return self._ended(started, seconds)  # type: ignore[no-any-return]
        except asyncio.CancelledError:
            self._leave(started)
            raise
        finally:
            answer.cancel()

    def wait(self, milliseconds: float, probe: LakeProbe[Answer]) -> Answer:
        """Does the same as `within` for a thread, without the lower bound of the wait."""
        started = self._begin(probe)
        concurrent.futures.wait([started.answer], timeout=milliseconds / 1_000)
        return self._ended(started, milliseconds / 1_000)  # type: ignore[no-any-return]

    def close(self) -> None:
        """Accepts no more probes and gives up the queued ones. Running probes end by themselves."""
        with self._lock:
            self._closed = True
            for table in self._tables.values():
                for started in (*table.running, *table.waiting):
                    started.answer.cancel()
                table.waiting.clear()
        self._threads.shutdown(wait=False)

    def _begin(self, probe: LakeProbe[Any]) -> _StartedProbe:
        with self._lock:
            if self._closed:
                raise _stopped()
            table, now = self._tables.get(probe.table_id), self._clock()
            if table is not None and (given_up := table.given_up(now)) is not None:
                raise _late(probe, given_up.side, "since an earlier request")
            if sum(started.is_given_up(now) for busy in self._tables.values() for started in busy.running) >= self._most:
                raise _late(probe, Side.EITHER, "since earlier requests")
            table = self._tables.setdefault(probe.table_id, _TableProbes())
            started = _StartedProbe(probe)
            table.waiting.append(started)
            self._start(table)
            return started

    def _start(self, table: _TableProbes) -> None:
        while table.waiting and len(table.running) < (TABLE_THREADS if table.answers else 1):
            started = table.waiting.popleft()
            started.started_at = self._clock()
            table.running.append(started)
            self._threads.submit(self._run, table, started)

    def _run(self, table: _TableProbes, started: _StartedProbe) -> None:
        answers = False
        if started.answer.set_running_or_notify_cancel():
            try:
                answer = contained(started.probe.work)(started.note)
            except Exception as error:
                answers = not isinstance(error, TransientTieringError)
                started.answer.set_exception(error)
            else:
                answers = True
                started.answer.set_result(answer)
        with self._lock:
            table.running.remove(started)
            table.answers = table.answers or answers
            self._start(table)
            if not table.running:
                del self._tables[started.probe.table_id]

    def _ended(self, started: _StartedProbe, seconds: float) -> Any:
        """Returns the probe's result or raises its error; gives it up if it still runs."""
        with self._lock:
            side = self._side(started)
            closed = self._closed and started.answer.cancelled()
        if closed:
            raise _stopped()
        if self._give_up(started):
            raise _late(started.probe, side, f"within {seconds:g} s")
        return started.answer.result()

    def _side(self, started: _StartedProbe) -> Side:
        """Returns the system that a probe waits for. A queued probe waits for the same one as its table's running probe."""
        table = self._tables.get(started.probe.table_id)
        if table is None or started in table.running or not table.running:
            return started.side
        return table.running[0].side

    def _give_up(self, started: _StartedProbe) -> bool:
        """Gives the probe up, unless it has its answer. Returns whether it was given up."""
        with self._lock:
            if started.answer.cancel():  # it was still queued
                return True
            if started.answer.done():
                return False
            started.given_up_at = self._clock()
            return True

    def _leave(self, started: _StartedProbe) -> None:
        """Handles a caller that disconnected. A queued probe is dropped. A running probe counts as given up only after the time that a
        healthy lake needs; otherwise each disconnected call would cause refusals for other callers.
        """
        with self._lock:
            if not started.answer.cancel() and not started.answer.done():
                started.given_up_at = started.started_at + LEAST_MS / 1_000


def _late(probe: LakeProbe[Any], side: Side, how: str) -> TransientTieringError:
    error_class = ClusterUnavailable if side is Side.CLUSTER else LakeUnavailable
    hints = {
        Side.LAKE: "Check whether the lake's catalog and its storage answer other clients. Lakeward retries by itself.",
        Side.CLUSTER: "Check whether the source cluster answers other clients. Lakeward retries by itself.",
        Side.EITHER: "Check whether the lake's catalog and storage, and the source cluster, answer other clients. Lakeward retries.",
    }
    return error_class(f"{side.value} has not answered about the table {probe.path} {how}", hint=hints[side], table_id=probe.table_id)


def _stopped() -> ServiceBusy:
    return ServiceBusy("the service is stopping, and reads no lake table any more", hint="Call again once the service runs again.")
