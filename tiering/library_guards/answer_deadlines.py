"""Deadlines for answers: a caller goes on in time, however long the library that it asked waits.

Libraries limit the pause between two pieces of an answer at best, so one that comes byte by byte never ends, and some wait without end.
A thread of its own waits in the caller's place. Such a thread cannot be ended: it goes on until its library gives up, and what it asked
for may still happen. Until then a question with the same name is refused at once: a place that hangs costs each caller one deadline and the
process one thread, however often it is asked.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, wait
from contextvars import copy_context
from functools import partial
from typing import TypeVar

Answer = TypeVar("Answer")


class AnswerDeadlines:
    """Asks in threads. A question within a question of the same kind is its part, and has no deadline of its own."""

    def __init__(self, whom: str) -> None:
        """`whom`: who is asked, for errors."""
        self._whom = whom
        self._lock = threading.Lock()
        self._late: dict[Hashable, float] = {}
        """When questions were asked that have run over their deadlines, in monotonic seconds."""
        self._inside = threading.local()

    def within(self, seconds: float, name: Hashable, ask: Callable[[], Answer]) -> Answer:
        """What `ask` returns or raises. Raises TimeoutError after `seconds`, and at once while an earlier question `name` is late."""
        if getattr(self._inside, "asking", False):
            return ask()
        with self._lock:
            since = self._late.get(name)
        if since is not None:
            raise TimeoutError(f"{self._whom} has not answered a request of {time.monotonic() - since:.0f} s ago yet")
        answer: Future[Answer] = Future()
        began = time.monotonic()
        threading.Thread(target=partial(copy_context().run, self._ask, ask, answer), name="answer", daemon=True).start()
        wait([answer], timeout=seconds)
        with self._lock:
            late = not answer.done()
            if late:
                self._late[name] = began
        if not late:
            return answer.result()
        answer.add_done_callback(lambda _: self._forget(name))
        raise TimeoutError(f"{self._whom} has not answered within {seconds:g} s")

    def _ask(self, ask: Callable[[], Answer], answer: Future[Answer]) -> None:
        self._inside.asking = True
        try:
            result = ask()
        except BaseException as error:  # the caller's to handle, panics of native libraries included
            answer.set_exception(error)
        else:
            answer.set_result(result)

    def _forget(self, name: Hashable) -> None:
        with self._lock:
            self._late.pop(name, None)
