"""Compares installed packages with the requirements of the wheel. Pure, except for `installed`.

It supports the part of PEP 440 that Lakeward's requirements use: release numbers, and `>=`, `>`, `<=`, `<`, `==`, `!=`, `~=`.
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
    """A package that is missing (`have` is None), or whose version does not fit the requirement."""

    name: str
    wanted: str
    have: str | None


def misfits(requirements: Iterable[str], version_of: Callable[[str], str | None]) -> list[Misfit]:
    """Returns the packages that do not fit. It ignores requirements with a marker, which belong to extras."""
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
    """Returns whether a version is within bounds such as `>=4.1,<4.2`. Every version is within empty bounds."""
    return all(_within(release(have), bound["operator"], release(bound["version"]), bound["version"]) for bound in _BOUND.finditer(bounds))


def release(text: str) -> Release:
    """Returns the numbers of a version, without trailing zeros: `2.10.0rc1` is (2, 10)."""
    match = _RELEASE.match(text)
    numbers = [int(part) for part in match[0].split(".")] if match else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def installed(name: str) -> str | None:
    """Returns the version of a package in this environment, or None if it is not installed."""
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
        case _:  # ~=: at least this version, with the same numbers except for the last one in the text
            return have >= bound and have[: text.count(".")] == bound[: text.count(".")]
