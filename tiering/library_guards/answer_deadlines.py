"""Deadlines for answers: a caller continues in time, however long the library waits for its answer.

At best, a library limits the pause between two pieces of an answer. So an answer that arrives byte by byte never ends, and some libraries
wait for ever. A separate thread waits in the caller's place. The thread cannot be ended: it runs until its library gives up, and its
request may still take effect. Until then a request with the same name is refused at once. So a hanging server costs each caller one
deadline and the process one thread, however often it is called.
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
    """Sends requests in threads. A request inside a request of the same kind belongs to it, and has no deadline of its own."""

    def __init__(self, whom: str) -> None:
        """`whom`: name of the server, for errors."""
        self._whom = whom
        self._lock = threading.Lock()
        self._late: dict[Hashable, float] = {}
        """Start times of the requests that missed their deadlines, in monotonic seconds."""
        self._inside = threading.local()

    def within(self, seconds: float, name: Hashable, ask: Callable[[], Answer]) -> Answer:
        """Returns or raises the outcome of `ask`. Raises TimeoutError after `seconds`, and at once while an earlier request `name` is
        late."""
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
        except BaseException as error:  # the caller handles every error, also panics of native libraries
            answer.set_exception(error)
        else:
            answer.set_result(result)

    def _forget(self, name: Hashable) -> None:
        with self._lock:
            self._late.pop(name, None)
