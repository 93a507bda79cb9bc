"""Runs a test in this process with a part of Lakeward taken out, and tells how it ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from support.repository import ROOT

Weaken = Callable[[pytest.MonkeyPatch], None]
OPTIONS = ("-p", "no:cacheprovider", "-p", "no:timeout", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "--tb=short", "-q")
"""The time-out of the test outside holds for all of it."""


@dataclass
class WithoutPart:
    """A plugin of pytest's: `weaken` holds from before a test's fixtures are set up until they are torn down."""

    weaken: Weaken
    tests: list[str] = field(default_factory=list)
    """Tests that ran."""
    errors: list[BaseException] = field(default_factory=list)
    """Errors in the bodies of tests. Fixtures must work without the part, too, unless `in_fixtures`."""
    in_fixtures: list[BaseException] = field(default_factory=list)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.tests.append(item.nodeid)
        with pytest.MonkeyPatch.context() as patch:
            self.weaken(patch)
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[Any]) -> Iterator[None]:
        if call.excinfo is not None:
            (self.errors if call.when == "call" else self.in_fixtures).append(call.excinfo.value)
        return (yield)


def check_that_it_fails_without(weaken: Weaken, test: str, folder: Path, fails_with: type[BaseException], variant: str = "") -> None:
    """Raises AssertionError unless each of the test's cases fails in its body, as `fails_with` or for an error that does not come."""
    ended = run_without(weaken, test + variant, folder)
    assert ended.tests
    assert all(name.startswith(test) for name in ended.tests)
    assert ended.in_fixtures == []
    assert len(ended.errors) == len(ended.tests)
    unexpected = [error for error in ended.errors if not isinstance(error, (fails_with, pytest.fail.Exception))]
    assert unexpected == [], unexpected


def run_without(weaken: Weaken, test: str, folder: Path) -> WithoutPart:
    """`test` is the id of a test, or of one with its parameters."""
    plugin = WithoutPart(weaken)
    with redirect_stdout(StringIO()) as output:
        status = pytest.main([*OPTIONS, f"--basetemp={folder}", str(ROOT / test)], [plugin])
    assert status in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED), output.getvalue()
    return plugin
