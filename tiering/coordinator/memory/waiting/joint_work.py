"""Work that one thread brings and another may do for it, in the log context of who brought it."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")


class Work(Generic[Result]):
    """Done once, by one thread; who brought it waits for it, and is woken when it is done, or to do it."""

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work = work
        self._context = contextvars.copy_context()
        self._results: list[Result] = []
        self._error: BaseException | None = None
        self._woken = threading.Event()

    @property
    def is_done(self) -> bool:
        """Whether it has a result or an error."""
        return bool(self._results) or self._error is not None

    def wait(self) -> None:
        """Returns once it is done, or has to be done by this thread."""
        self._woken.wait()

    def wake(self) -> None:
        """Ends the wait."""
        self._woken.set()

    def do(self) -> None:
        """Keeps what comes of it for `result`."""
        try:
            self._results = [self._context.run(self._work)]
        except BaseException as error:  # also what is no Exception belongs to who brought the work
            self._error = error

    def fail(self, error: BaseException) -> None:
        """It counts as not done: what it changed may not be stored."""
        self._results, self._error = [], error

    def result(self) -> Result:
        """What came of it. Raises what it raised, or why it counts as not done."""
        if self._error is not None:
            raise self._error
        return self._results[0]
