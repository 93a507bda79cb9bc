"""Panics of native libraries: exceptions that no handler of `Exception` catches.

A library written in Rust panics with `pyo3_runtime.PanicException`, which is no `Exception`, so that it passes every handler of errors
and ends the thread. Code that hands work to such a library, or to a thread whose end has to be noticed, lets nothing else out.
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
"""What Python itself raises to end a process, a generator or a task. Everything else that is no `Exception` is a panic."""
_NO_PANICS: tuple[type[BaseException], ...] = (Exception, *ENDINGS)


class UnexpectedEnd(RuntimeError):
    """Work in a thread ended with something that is no `Exception`."""


@contextmanager
def panics_raised_as(error_for: Callable[[str], Exception]) -> Iterator[None]:
    """Raises `error_for` (class and text of the panic) for a panic inside; everything else passes."""
    try:
        yield
    except _NO_PANICS:
        raise
    except BaseException as panic:
        raise error_for(f"{type(panic).__name__}: {panic}") from panic


def contained(work: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Wraps `work` for a thread: however it ends, its caller gets a result or an `Exception` (UnexpectedEnd)."""

    @wraps(work)
    def run(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        try:
            return work(*args, **kwargs)
        except Exception:
            raise
        except BaseException as end:  # also a SystemExit: in a thread it ends the thread alone, and nobody hears of it
            raise UnexpectedEnd(f"{type(end).__name__}: {end}") from end

    return run
