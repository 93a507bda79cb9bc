"""The summary that pytest prints after the behaviour suite: the missing features of each backend, and the duration of its stories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from support.behaviours.backends import LACKS

BEHAVIOURS = "tests/behaviours/"


def summary(reports: Sequence[pytest.TestReport]) -> Iterator[str]:
    """Lines, from the reports of the suite's tests."""
    for name, lacks in LACKS.items():
        mine = [report for report in reports if _backend_of(report) == name]
        tests = len({report.nodeid for report in mine})
        if tests:
            yield f"{name}: {tests} tests in {sum(report.duration for report in mine):.0f} s; cannot do:"
            yield from sorted(f"  {lack.name}: {lack.value}" for lack in lacks) or ["  (nothing that a story needs)"]


def _backend_of(report: pytest.TestReport) -> str | None:
    """The longest name that the test's parameters contain: names begin with one another."""
    parameters = report.nodeid.partition("[")[2]
    return max((name for name in LACKS if name in parameters), key=len, default=None)
