"""Every crash point has a test in which a real process dies there, and those that a Fluss cluster is touched around have one beside it.

A test counts if the point is one of its parameters, or in one of them, and its module asserts SIGKILL of what died.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from faults.reliability.process_faults import KILLS

from support.repository import ROOT
from tiering import crash_points

TESTS = ROOT / "tests"
POINTS = {name: value for name, value in vars(crash_points).items() if name.isupper() and isinstance(value, str) and name != "VARIABLE"}
TOUCHING_FLUSS = {*crash_points.IN_ROUND, *crash_points.IN_RECONCILE, crash_points.ACK_STORED, crash_points.LAKE_RECORD_PREPARED}
"""All others are in the store, in the lake or in the embedded cluster, whatever the cluster of the tables is."""


def strings_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from strings_in(item)


def loaded(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"crash_points_of_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses of a module look there for it
    spec.loader.exec_module(module)
    return module


def points_of(module: ModuleType) -> Iterator[str]:
    """The points at which processes of a module's tests die."""
    for name, function in vars(module).items():
        if name.startswith("test_"):
            for mark in getattr(function, "pytestmark", ()):
                if mark.name == "parametrize":
                    yield from (text.partition("@")[0] for text in strings_in(list(mark.args[1])))


@cache
def deaths() -> dict[Path, set[str]]:
    """The points by the file that tests them."""
    texts = {file: file.read_text() for file in TESTS.rglob("test_*.py")}
    files = [file for file, text in texts.items() if "crash_points." in text and "signal.SIGKILL" in text and file != Path(__file__)]
    return {file: set(points_of(loaded(file))) & set(POINTS.values()) for file in files}


def test_every_crash_point_is_reached_by_the_product() -> None:
    source = "\n".join(file.read_text() for file in (ROOT / "tiering").rglob("*.py") if file.name != "crash_points.py")
    assert [name for name in POINTS if f"crash_points.{name}" not in source] == []


@pytest.mark.parametrize("name", POINTS)
def test_a_process_dies_at_the_crash_point(name: str) -> None:
    assert any(POINTS[name] in points for points in deaths().values()), f"no test kills a process at {name}"


def test_the_tests_that_the_reliability_page_names_kill_at_every_crash_point() -> None:
    named = {ROOT / test.partition("::")[0] for fault in KILLS for test in fault.tests}
    assert {point for file in named for point in deaths()[file]} == set(POINTS.values())


@pytest.mark.parametrize("point", sorted(TOUCHING_FLUSS))
def test_a_process_beside_fluss_dies_at_the_crash_point(point: str) -> None:
    beside_fluss = [points for file, points in deaths().items() if "fluss" in file.parent.parts]
    assert any(point in points for points in beside_fluss), f"no test beside Fluss kills a process at {point}"
