"""Looks at lake tables that are waited for only so long: a lake's catalog that hangs must not hold a call.

A look cannot be ended: one that was given up goes on until lake and source cluster answer, or their own deadlines are over. Therefore a
look does no harm however late it ends, and looks run in threads of their own. A table has one look at a time until one was answered, then
few; while a look that was given up goes on, further looks at its table are refused at once. So a table that hangs keeps one thread, however
many ask about it, and as many tables have to hang as there are threads before a look at another one waits.
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
"""Looks at a time. They wait for lakes more than they work; where as many were given up, it is the lake as a whole that hangs."""

TABLE_THREADS = 4
"""Looks at a time at one table that answers; others wait for their turn."""

LEAST_MS = 1_000
"""A call never gives a look up sooner: a lake that is well answers meanwhile, also to a call that does not wait."""


class Side(Enum):
    """Whom a look waits for."""

    LAKE = "the lake"
    CLUSTER = "the source cluster"
    EITHER = "the lake or the source cluster"


Asking = Callable[[Side], None]
"""Called by a look before it asks somebody, so that whoever gives it up can say who does not answer."""


def unnoted(_: Side) -> None:
    """For work that nobody gives up."""


@dataclass(frozen=True)
class LakeLook(Generic[Answer]):
    """A look at the lake table of a source table. `work` blocks, and does no harm however late it ends."""

    path: TablePath
    table_id: int
    work: Callable[[Asking], Answer]


@dataclass(eq=False)
class _Begun:
    """A look that waits for a thread, or runs.

    `given_up_at`: it runs, nobody waits for it any more, and it counts as given up from then on (seconds of the clock). None = it is
    waited for.
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
    """The looks at one table: those with a thread, those that wait for one, and whether one of them was answered."""

    running: list[_Begun] = field(default_factory=list)
    waiting: deque[_Begun] = field(default_factory=deque)
    answers: bool = False

    def given_up(self, now: float) -> _Begun | None:
        """One that was given up and goes on."""
        return next((begun for begun in self.running if begun.is_given_up(now)), None)


class LakeLooks:
    """The threads of looks. Thread-safe; `within` is for any event loop, `wait` for threads."""

    def __init__(self, threads: int = THREADS, name: str = "bounded-look", clock: Callable[[], float] = time.monotonic) -> None:
        self._most = threads
        self._clock = clock
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._lock = threading.Lock()
        self._tables: dict[int, _TableLooks] = {}
        self._closed = False

    async def within(self, milliseconds: float, look: LakeLook[Answer]) -> Answer:
        """What the look returns or raises.

        Raises LakeUnavailable or ClusterUnavailable after `milliseconds`, but at least LEAST_MS; at once while an earlier look at the
        table that was given up goes on, or as many as there are threads. Raises ServiceBusy after `close`.
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
        """As `within`, for a thread, and after `milliseconds` however few they are."""
        begun = self._begin(look)
        concurrent.futures.wait([begun.answer], timeout=milliseconds / 1_000)
        return self._ended(begun, milliseconds / 1_000)  # type: ignore[no-any-return]

    def close(self) -> None:
        """Takes no more looks, and gives up those that wait for their turn; those that run end by themselves."""
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
                raise _late(look, given_up.side, "to an earlier question yet")
            if sum(begun.is_given_up(now) for busy in self._tables.values() for begun in busy.running) >= self._most:
                raise _late(look, Side.EITHER, "to earlier questions yet")
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
        """What the look returned or raised; gives it up if it goes on."""
        with self._lock:
            side = self._side(begun)
            closed = self._closed and begun.answer.cancelled()
        if closed:
            raise _stopped()
        if self._give_up(begun):
            raise _late(begun.look, side, f"within {seconds:g} s")
        return begun.answer.result()

    def _side(self, begun: _Begun) -> Side:
        """Whom a look waits for; one without a thread of its own for whom an earlier one of its table does."""
        table = self._tables.get(begun.look.table_id)
        if table is None or begun in table.running or not table.running:
            return begun.side
        return table.running[0].side

    def _give_up(self, begun: _Begun) -> bool:
        """Leaves the look to itself, unless it has its answer."""
        with self._lock:
            if begun.answer.cancel():  # it had no thread yet
                return True
            if begun.answer.done():
                return False
            begun.given_up_at = self._clock()
            return True

    def _leave(self, begun: _Begun) -> None:
        """The caller is gone. A look without a thread need not begin any more. One that runs counts as given up once it has had the time
        that a lake which is well takes: else each call that is dropped would have looks of others refused.
        """
        with self._lock:
            if not begun.answer.cancel() and not begun.answer.done():
                begun.given_up_at = begun.started_at + LEAST_MS / 1_000


def _late(look: LakeLook[Any], side: Side, how: str) -> TransientTieringError:
    error_class = ClusterUnavailable if side is Side.CLUSTER else LakeUnavailable
    hints = {
        Side.LAKE: "Look whether the lake's catalog and its storage answer others. Lakeward asks again by itself.",
        Side.CLUSTER: "Look whether the source cluster answers others. Lakeward asks again by itself.",
        Side.EITHER: "Look whether the lake's catalog and storage, and the source cluster, answer others. Lakeward asks again by itself.",
    }
    return error_class(f"{side.value} has not answered about the table {look.path} {how}", hint=hints[side], table_id=look.table_id)


def _stopped() -> ServiceBusy:
    return ServiceBusy("the service stops, and looks at no lake any more", hint="Call again once the service runs again.")
