"""Whether installed packages are those that the wheel asks for. Pure, but for `installed`.

Enough of PEP 440 for our own requirements: release numbers, and `>=`, `>`, `<=`, `<`, `==`, `!=`, `~=`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*\(?(?P<bounds>[^;)]*)\)?\s*(?:;(?P<marker>.*))?")
_BOUND = re.compile(r"(?P<operator>>=|<=|==|!=|~=|>|<)\s*(?P<version>[0-9][0-9.]*)")
_RELEASE = re.compile(r"[0-9]+(?:\.[0-9]+)*")

Release = tuple[int, ...]


@dataclass(frozen=True)
class Misfit:
    """A package that is missing (`found` None) or of a version that was not asked for."""

    name: str
    wanted: str
    have: str | None


def misfits(requirements: Iterable[str], version_of: Callable[[str], str | None]) -> list[Misfit]:
    """Of all requirements without a marker; those of extras are not needed."""
    wrong = []
    for requirement in requirements:
        parsed = _REQUIREMENT.fullmatch(requirement.strip())
        if parsed is None or parsed["marker"]:
            continue
        have = version_of(parsed["name"])
        if have is None or not satisfies(have, parsed["bounds"]):
            wrong.append(Misfit(parsed["name"], parsed["bounds"].strip(), have))
    return wrong


def satisfies(have: str, bounds: str) -> bool:
    """Whether a version is within bounds such as `>=4.1,<4.2`; none of them = any version."""
    return all(_within(release(have), bound["operator"], release(bound["version"]), bound["version"]) for bound in _BOUND.finditer(bounds))


def release(text: str) -> Release:
    """The numbers of a version, without trailing zeros: `2.10.0rc1` is (2, 10)."""
    match = _RELEASE.match(text)
    numbers = [int(part) for part in match[0].split(".")] if match else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def installed(name: str) -> str | None:
    """The version of a package in this environment; None if it is not there."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _within(have: Release, operator: str, bound: Release, text: str) -> bool:
    match operator:
        case ">=":
            return have >= bound
        case ">":
            return have > bound
        case "<=":
            return have <= bound
        case "<":
            return have < bound
        case "==":
            return have == bound
        case "!=":
            return have != bound
        case _:  # ~=: at least this, and the same but for the last number that is written
            return have >= bound and have[: text.count(".")] == bound[: text.count(".")]
