"""Handles panics of native libraries: exceptions that no handler of `Exception` catches.

A library written in Rust panics with `pyo3_runtime.PanicException`. It is no `Exception`, so it passes every error handler and ends the
thread. Code that calls such a library, or that must notice the end of a thread, raises only an `Exception`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

ENDINGS: tuple[type[BaseException], ...] = (KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError)
"""Exceptions with which Python itself ends a process, a generator or a task. Every other class that is no `Exception` is a panic."""
_NO_PANICS: tuple[type[BaseException], ...] = (Exception, *ENDINGS)


class UnexpectedEnd(RuntimeError):
    """A thread's work ended with an exception that is no `Exception`."""


@contextmanager
def panics_raised_as(error_for: Callable[[str], Exception]) -> Iterator[None]:
    """Raises `error_for` (class and text of the panic) for a panic in the block. Other exceptions pass."""
    try:
        yield
    except _NO_PANICS:
        raise
    except BaseException as panic:
        raise error_for(f"{type(panic).__name__}: {panic}") from panic


def contained(work: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Wraps `work` for a thread: its caller always gets a result or an `Exception` (UnexpectedEnd)."""

    @wraps(work)
    def run(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        try:
            return work(*args, **kwargs)
        except Exception:
            raise
        except BaseException as end:  # also a SystemExit, which would end this thread without any message
            raise UnexpectedEnd(f"{type(end).__name__}: {end}") from end

    return run
