"""Work that one thread submits and another thread may do. It runs in the log context of the submitting thread."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")


class Work(Generic[Result]):
    """One piece of work, done once by one thread. The submitting thread waits until it is done, or until that thread has to do it."""

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work = work
        self._context = contextvars.copy_context()
        self._results: list[Result] = []
        self._error: BaseException | None = None
        self._woken = threading.Event()

    @property
    def is_done(self) -> bool:
        """Whether the work has a result or an error."""
        return bool(self._results) or self._error is not None

    def wait(self) -> None:
        """Returns once the work is done, or this thread has to do it."""
        self._woken.wait()

    def wake(self) -> None:
        """Ends the wait."""
        self._woken.set()

    def do(self) -> None:
        """Does the work and keeps its outcome for `result`."""
        try:
            self._results = [self._context.run(self._work)]
        except BaseException as error:  # the submitting thread gets any error, even one that is no Exception
            self._error = error

    def fail(self, error: BaseException) -> None:
        """Marks the work as failed: its changes may not be stored."""
        self._results, self._error = [], error

    def result(self) -> Result:
        """Returns the work's result. Raises its error, or the reason for `fail`."""
        if self._error is not None:
            raise self._error
        return self._results[0]
