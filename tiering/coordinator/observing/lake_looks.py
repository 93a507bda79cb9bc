"""Looks at lake tables that are waited for only so long: a lake's catalog that hangs must not hold a call.

A look cannot be ended: one that was given up goes on until the lake answers or its catalog's own deadline is over. Therefore looks change
nothing, and run in threads of their own. A table has few of them at a time, and while a look that was given up goes on, further looks at
its table are refused at once: so a table that hangs keeps few threads, however often it is asked about.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from tiering.errors import LakeUnavailable
from tiering.library_guards.panics import contained
from tiering.model.tables import TablePath

Answer = TypeVar("Answer")

THREADS = 64
"""Looks at a time. They wait for lakes more than they work; where as many were given up, it is the lake as a whole that hangs."""

TABLE_THREADS = 4
"""Looks at one table at a time; others wait for their turn."""

LEAST_MS = 1_000
"""A look is never given up sooner: a lake that is well answers meanwhile, also to a call that does not wait."""


@dataclass(frozen=True)
class LakeLook(Generic[Answer]):
    """A look at the lake table of a source table. `work` blocks, and changes nothing."""

    path: TablePath
    table_id: int
    work: Callable[[], Answer]


@dataclass(eq=False)
class _Begun:
    """A look that waits for a thread, or runs. `is_given_up`: it runs, and nobody waits for it any more."""

    look: LakeLook[Any]
    answer: Future[Any] = field(default_factory=Future)
    is_given_up: bool = False


@dataclass
class _TableLooks:
    """The looks at one table: how many have a thread, and how many of these were given up."""

    running: int = 0
    given_up: int = 0
    waiting: deque[_Begun] = field(default_factory=deque)


class LakeLooks:
    """The threads of looks. Thread-safe; `within` is for any event loop."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="bounded-look")
        self._lock = threading.Lock()
        self._tables: dict[int, _TableLooks] = {}
        self._given_up = 0

    async def within(self, milliseconds: float, look: LakeLook[Answer]) -> Answer:
        """What the look returns or raises.

        Raises LakeUnavailable after `milliseconds`, but at least LEAST_MS; at once while an earlier look at the table that was given up
        goes on, or as many as there are threads.
        """
        seconds = max(milliseconds, LEAST_MS) / 1_000
        begun = self._begin(look)
        answer = asyncio.wrap_future(begun.answer)
        try:
            await asyncio.wait([answer], timeout=seconds)
            if self._give_up(begun):
                raise _late(look, f"within {seconds:g} s")
            return begun.answer.result()  # type: ignore[no-any-return]
        except asyncio.CancelledError:
            self._give_up(begun)  # the caller is gone: the look need not begin any more, and one that runs is waited for by nobody
            raise
        finally:
            answer.cancel()

    def close(self) -> None:
        """Takes no more looks, and gives up those that wait for their turn; those that run end by themselves."""
        with self._lock:
            for table in self._tables.values():
                while table.waiting:
                    table.waiting.popleft().answer.cancel()
        self._threads.shutdown(wait=False)

    def _begin(self, look: LakeLook[Any]) -> _Begun:
        with self._lock:
            table = self._tables.get(look.table_id)
            if self._given_up >= THREADS or (table is not None and table.given_up):
                raise _late(look, "to an earlier question yet")
            table = self._tables.setdefault(look.table_id, _TableLooks())
            begun = _Begun(look)
            table.waiting.append(begun)
            self._start(table)
            return begun

    def _start(self, table: _TableLooks) -> None:
        while table.waiting and table.running < TABLE_THREADS:
            table.running += 1
            self._threads.submit(self._run, table, table.waiting.popleft())

    def _run(self, table: _TableLooks, begun: _Begun) -> None:
        if begun.answer.set_running_or_notify_cancel():
            try:
                answer = contained(begun.look.work)()
            except Exception as error:
                begun.answer.set_exception(error)
            else:
                begun.answer.set_result(answer)
        with self._lock:
            table.running -= 1
            table.given_up -= begun.is_given_up
            self._given_up -= begun.is_given_up
            self._start(table)
            if not table.running:
                del self._tables[begun.look.table_id]

    def _give_up(self, begun: _Begun) -> bool:
        """Leaves the look to itself, unless it has its answer."""
        with self._lock:
            if begun.answer.cancel():  # it had no thread yet
                return True
            if begun.answer.done():
                return False
            begun.is_given_up = True
            self._tables[begun.look.table_id].given_up += 1
            self._given_up += 1
            return True


def _late(look: LakeLook[Any], how: str) -> LakeUnavailable:
    return LakeUnavailable(
        f"the lake has not answered about the table {look.path} {how}",
        hint="Look whether the lake's catalog and its storage answer others. Lakeward asks again by itself.",
        table_id=look.table_id,
    )
