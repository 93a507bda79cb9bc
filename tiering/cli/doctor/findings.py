"""What a check finds, and how checks are run: one that breaks is a finding too, and the others go on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from tiering.errors import LakewardError
from tiering.redaction.redact import outside_text


class Verdict(StrEnum):
    """`warn`: it works, but somebody should look. `fail`: something will not work."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Finding:
    """`mend`: what to do; empty if nothing needs to be done."""

    check: str
    verdict: Verdict
    result: str
    mend: str = ""


Check = Callable[[], Iterable[Finding]]


def ok(check: str, result: str) -> Finding:
    """All is well."""
    return Finding(check, Verdict.OK, result)


def warn(check: str, result: str, mend: str) -> Finding:
    """It works, but."""
    return Finding(check, Verdict.WARN, result, mend)


def fail(check: str, result: str, mend: str) -> Finding:
    """It will not work."""
    return Finding(check, Verdict.FAIL, result, mend)


def findings(checks: Iterable[tuple[str, Check]]) -> Iterator[Finding]:
    """Of all checks, each as soon as it is there. An error of ours brings its own hint."""
    for name, check in checks:
        try:
            yield from check()
        except LakewardError as error:
            yield fail(name, error.message, error.hint)
        except Exception as error:
            yield fail(name, outside_text(f"{type(error).__name__}: {error}"), "Mend what it names, and run `lakeward doctor` again.")
