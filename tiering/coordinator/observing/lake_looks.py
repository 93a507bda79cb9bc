"""Reads of lake tables with a bounded wait, so that a lake catalog that hangs does not hold a call.

A read (a "look") cannot be interrupted. After its caller gave it up, it runs until lake and source cluster answer, or until their own
deadlines. So a look must do no harm however late it ends, and looks have threads of their own.

A table has one look at a time until one was answered, then a few. While a look that was given up still runs, further looks at its table are
refused at once. So a table that hangs uses one thread, however many callers ask about it. Only if as many tables hang as there are threads
does a look at another table wait.
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
"""Number of concurrent looks. They mostly wait for lakes. If this many were given up, the whole lake hangs."""

TABLE_THREADS = 4
"""Number of concurrent looks at one table that answers; further looks are queued."""

LEAST_MS = 1_000
"""Shortest wait of a call for its look. A healthy lake answers within it, also to a call that does not wait."""


class Side(Enum):
    """The system that a look waits for."""

    LAKE = "the lake"
    CLUSTER = "the source cluster"
    EITHER = "the lake or the source cluster"


Asking = Callable[[Side], None]
"""A look calls it before each request, so that the caller that gives the look up can name the system that does not answer."""


def unnoted(_: Side) -> None:
    """Ignores the side, for work that is never given up."""


@dataclass(frozen=True)
class LakeLook(Generic[Answer]):
    """A look at the lake table of a source table. `work` blocks, and does no harm however late it ends."""

    path: TablePath
    table_id: int
    work: Callable[[Asking], Answer]


@dataclass(eq=False)
class _Begun:
    """A look that waits for a thread, or runs.

    `given_up_at` is when a running look without a waiting caller counts as given up (seconds of the clock). None while a caller waits.
    """

    look: LakeLook[Any]
    answer: Future[Any] = field(default_factory=Future)
    side: Side = Side.EITHER
    started_at: float = 0.0
    given_up_at: float | None = None

    def is_given_up(self, now: float) -> bool:
        return self.given_up_at is not None and self.given_up_at <= now

    def note(self, side: Side) -> None:
        self.side = side


@dataclass
class _TableLooks:
    """The looks at one table: running ones, queued ones, and whether one of them was answered."""

    running: list[_Begun] = field(default_factory=list)
    waiting: deque[_Begun] = field(default_factory=deque)
    answers: bool = False

    def given_up(self, now: float) -> _Begun | None:
        """Returns a running look that was given up; None if there is none."""
        return next((begun for begun in self.running if begun.is_given_up(now)), None)


class LakeLooks:
    """The threads for looks. It is thread-safe. `within` is for any event loop, `wait` for threads."""

    def __init__(self, threads: int = THREADS, name: str = "bounded-look", clock: Callable[[], float] = time.monotonic) -> None:
        self._most = threads
        self._clock = clock
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._lock = threading.Lock()
        self._tables: dict[int, _TableLooks] = {}
        self._closed = False

    async def within(self, milliseconds: float, look: LakeLook[Answer]) -> Answer:
        """Returns the look's result, or raises its error.

        Raises LakeUnavailable or ClusterUnavailable after `milliseconds`, but not before LEAST_MS. Raises it at once while an earlier look
        at the table that was given up still runs, or as many such looks as there are threads. Raises ServiceBusy after `close`.
        """
        seconds = max(milliseconds, LEAST_MS) / 1_000
        begun = self._begin(look)
        answer = asyncio.wrap_future(begun.answer)
        try:
            await asyncio.wait([answer], timeout=seconds)
            return self._ended(begun, seconds)  # type: ignore[no-any-return]
        except asyncio.CancelledError:
            self._leave(begun)
            raise
        finally:
            answer.cancel()

    def wait(self, milliseconds: float, look: LakeLook[Answer]) -> Answer:
        """Does the same as `within` for a thread, without the lower bound of the wait."""
        begun = self._begin(look)
        concurrent.futures.wait([begun.answer], timeout=milliseconds / 1_000)
        return self._ended(begun, milliseconds / 1_000)  # type: ignore[no-any-return]

    def close(self) -> None:
        """Accepts no more looks and gives up the queued ones. Running looks end by themselves."""
        with self._lock:
            self._closed = True
            for table in self._tables.values():
                for begun in (*table.running, *table.waiting):
                    begun.answer.cancel()
                table.waiting.clear()
        self._threads.shutdown(wait=False)

    def _begin(self, look: LakeLook[Any]) -> _Begun:
        with self._lock:
            if self._closed:
                raise _stopped()
            table, now = self._tables.get(look.table_id), self._clock()
            if table is not None and (given_up := table.given_up(now)) is not None:
                raise _late(look, given_up.side, "since an earlier request")
            if sum(begun.is_given_up(now) for busy in self._tables.values() for begun in busy.running) >= self._most:
                raise _late(look, Side.EITHER, "since earlier requests")
            table = self._tables.setdefault(look.table_id, _TableLooks())
            begun = _Begun(look)
            table.waiting.append(begun)
            self._start(table)
            return begun

    def _start(self, table: _TableLooks) -> None:
        while table.waiting and len(table.running) < (TABLE_THREADS if table.answers else 1):
            begun = table.waiting.popleft()
            begun.started_at = self._clock()
            table.running.append(begun)
            self._threads.submit(self._run, table, begun)

    def _run(self, table: _TableLooks, begun: _Begun) -> None:
        answers = False
        if begun.answer.set_running_or_notify_cancel():
            try:
                answer = contained(begun.look.work)(begun.note)
            except Exception as error:
                answers = not isinstance(error, TransientTieringError)
                begun.answer.set_exception(error)
            else:
                answers = True
                begun.answer.set_result(answer)
        with self._lock:
            table.running.remove(begun)
            table.answers = table.answers or answers
            self._start(table)
            if not table.running:
                del self._tables[begun.look.table_id]

    def _ended(self, begun: _Begun, seconds: float) -> Any:
        """Returns the look's result or raises its error; gives it up if it still runs."""
        with self._lock:
            side = self._side(begun)
            closed = self._closed and begun.answer.cancelled()
        if closed:
            raise _stopped()
        if self._give_up(begun):
            raise _late(begun.look, side, f"within {seconds:g} s")
        return begun.answer.result()

    def _side(self, begun: _Begun) -> Side:
        """Returns the system that a look waits for. A queued look waits for the same one as its table's running look."""
        table = self._tables.get(begun.look.table_id)
        if table is None or begun in table.running or not table.running:
            return begun.side
        return table.running[0].side

    def _give_up(self, begun: _Begun) -> bool:
        """Gives the look up, unless it has its answer. Returns whether it was given up."""
        with self._lock:
            if begun.answer.cancel():  # it was still queued
                return True
            if begun.answer.done():
                return False
            begun.given_up_at = self._clock()
            return True

    def _leave(self, begun: _Begun) -> None:
        """Handles a caller that disconnected. A queued look is dropped. A running look counts as given up only after the time that a
        healthy lake needs; otherwise each disconnected call would cause refusals for other callers.
        """
        with self._lock:
            if not begun.answer.cancel() and not begun.answer.done():
                begun.given_up_at = begun.started_at + LEAST_MS / 1_000


def _late(look: LakeLook[Any], side: Side, how: str) -> TransientTieringError:
    error_class = ClusterUnavailable if side is Side.CLUSTER else LakeUnavailable
    hints = {
        Side.LAKE: "Check whether the lake's catalog and its storage answer other clients. Lakeward retries by itself.",
        Side.CLUSTER: "Check whether the source cluster answers other clients. Lakeward retries by itself.",
        Side.EITHER: "Check whether the lake's catalog and storage, and the source cluster, answer other clients. Lakeward retries.",
    }
    return error_class(f"{side.value} has not answered about the table {look.path} {how}", hint=hints[side], table_id=look.table_id)


def _stopped() -> ServiceBusy:
    return ServiceBusy("the service is stopping, and reads no lake table any more", hint="Call again once the service runs again.")
