"""An exception that is no `Exception` does not leave a thread."""

from __future__ import annotations

import asyncio

import pytest

from tiering.library_guards.panics import UnexpectedEnd, contained, panics_raised_as


class Panic(BaseException):
    """A panic like those of libraries in Rust."""


@pytest.mark.parametrize("end", [Panic("out of bounds"), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
def test_contained_work_raises_an_exception_whatever_ends_it(end: BaseException) -> None:
    def work() -> None:
        raise end

    with pytest.raises(UnexpectedEnd, match=type(end).__name__) as raised:
        contained(work)()
    assert raised.value.__cause__ is end


def test_contained_work_keeps_results_and_errors() -> None:
    assert contained(lambda number: number + 1)(3) == 4
    with pytest.raises(KeyError):
        contained({}.__getitem__)("x")


@pytest.mark.parametrize("passing", [ValueError("x"), KeyboardInterrupt(), SystemExit(), asyncio.CancelledError(), GeneratorExit()])
def test_only_a_panic_is_raised_as_another_error(passing: BaseException) -> None:
    with pytest.raises(type(passing)), panics_raised_as(RuntimeError):
        raise passing
    with pytest.raises(RuntimeError, match="Panic: out of bounds"), panics_raised_as(RuntimeError):
        raise Panic("out of bounds")
