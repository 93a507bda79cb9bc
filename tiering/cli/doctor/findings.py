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
    found: str
    mend: str = ""


Check = Callable[[], Iterable[Finding]]


def ok(check: str, found: str) -> Finding:
    """All is well."""
    return Finding(check, Verdict.OK, found)


def warn(check: str, found: str, mend: str) -> Finding:
    """It works, but."""
    return Finding(check, Verdict.WARN, found, mend)


def fail(check: str, found: str, mend: str) -> Finding:
    """It will not work."""
    return Finding(check, Verdict.FAIL, found, mend)


def findings(checks: Iterable[tuple[str, Check]]) -> Iterator[Finding]:
    """Of all checks, each as soon as it is there. An error of ours brings its own hint."""
    for name, check in checks:
        try:
            yield from check()
        except LakewardError as error:
            yield fail(name, error.message, error.hint)
        except Exception as error:
            yield fail(name, outside_text(f"{type(error).__name__}: {error}"), "Mend what it names, and run `lakeward doctor` again.")
