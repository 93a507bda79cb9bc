"""Findings, and the loop that runs all checks. A check that raises an error becomes a finding, and the other checks run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from tiering.errors import LakewardError
from tiering.redaction.redact import outside_text


class Verdict(StrEnum):
    """Result of a check. `warn`: it works, but needs attention. `fail`: it will not work."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Finding:
    """A result of a check. `mend` tells what to do; it is empty if there is nothing to do."""

    check: str
    verdict: Verdict
    result: str
    mend: str = ""


Check = Callable[[], Iterable[Finding]]


def ok(check: str, result: str) -> Finding:
    """Returns a finding without a problem."""
    return Finding(check, Verdict.OK, result)


def warn(check: str, result: str, mend: str) -> Finding:
    """Returns a finding that works with a warning."""
    return Finding(check, Verdict.WARN, result, mend)


def fail(check: str, result: str, mend: str) -> Finding:
    """Returns a finding that will not work."""
    return Finding(check, Verdict.FAIL, result, mend)


def findings(checks: Iterable[tuple[str, Check]]) -> Iterator[Finding]:
    """Yields the findings of all checks, each as soon as it is known. An error of Lakeward has its own hint."""
    for name, check in checks:
        try:
            yield from check()
        except LakewardError as error:
            yield fail(name, error.message, error.hint)
        except Exception as error:
            yield fail(
                name, outside_text(f"{type(error).__name__}: {error}"), "Repair what the message names, and run `lakeward doctor` again."
            )
