"""Tells whether a Python function of Spark got all rows of its task.

Spark's JVM may fail while it makes the rows of a task, for example because a shuffle file is lost. Then it ends the Arrow stream to Python
in the same way as after the last row, and closes the connection. Only after the last row does it send the end mark of its protocol, which
`pyspark.worker.main` reads after the function. So this module looks whether the mark is there, and leaves it to be read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

Item = TypeVar("Item")

_WORKER, _INPUT = "main", "infile"
"""The function of `pyspark.worker` that runs a task, and its parameter with the connection to the JVM."""


class InputCutOff(Exception):
    """The task has failed in Spark, so nothing reads this error."""


def whole_input(rows: Iterable[Item]) -> Iterator[Item]:
    """Yields the input of a task. Raises InputCutOff at its end if Spark has not sent all of it."""
    yield from rows
    # The first byte of the mark is enough: Spark sends nothing else here, and no byte comes from a closed connection.
    if not _connection().peek(1):
        raise InputCutOff("Spark ended the input of the task before its last row")


def _connection() -> Any:
    """Returns the connection from which Spark's Python process reads. Raises RuntimeError outside of such a process."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == _WORKER and _INPUT in frame.f_locals:
            return frame.f_locals[_INPUT]
        frame = frame.f_back  # type: ignore[assignment]
    raise RuntimeError("the function does not run in a Python process of Spark as this version knows it")
