"""`make test` and `make test-all`: every test belongs to one of them, and all stages run before the verdict."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import pytest

from support.repository import ROOT
from support.stages.__main__ import Outcome, Stage, run_at_once, run_stage, verdict
from support.stages.make_test import JOURNEYS, LEFT_TO_TEST_ALL, UNIT, is_below, journeys

FOLDERS_OF_TEST_ALL = {"behaviours", "cli", "conformance", "faults", "integration", "packaging", "redaction", "validate"}
"""Folders without a test of `make test` but for its journeys."""
FILES_OF_TEST_ALL = {"test_bench_aging.py", "test_hostile_service.py", "test_house.py"}


def test_each_folder_of_tests_belongs_to_make_test_or_is_left_to_test_all() -> None:
    places = {file.relative_to(ROOT / "tests").parts[0] for file in (ROOT / "tests").rglob("test_*.py")}
    assert places == {Path(place).name for place in UNIT} | FOLDERS_OF_TEST_ALL | FILES_OF_TEST_ALL


@pytest.mark.parametrize("place", [*journeys(), *UNIT, *LEFT_TO_TEST_ALL])
def test_each_place_in_the_table_has_tests(place: str) -> None:
    file, _, test = place.partition("::")
    files = sorted((ROOT / file).rglob("test_*.py")) if (ROOT / file).is_dir() else [ROOT / file]
    assert [
        name
        for name in files
        if re.search(rf"^(async )?def {test}" if test else r"^(async )?def test_|^Test\w+ =", name.read_text(), re.MULTILINE)
    ]


def test_what_is_left_to_test_all_would_run_otherwise() -> None:
    assert [place for place in LEFT_TO_TEST_ALL if not is_below(place, UNIT)] == []
    assert len(LEFT_TO_TEST_ALL) > 20
    assert len(JOURNEYS) >= 7


def test_a_place_is_a_whole_name() -> None:
    assert is_below("tests/wire/test_tls.py::test_a[b]", ["tests/wire"])
    assert is_below("tests/wire/test_tls.py::test_a[b]", ["tests/wire/test_tls.py::test_a"])
    assert not is_below("tests/wire/test_tls.py::test_ab", ["tests/wire/test_tls.py::test_a"])
    assert not is_below("tests/wires/test_tls.py::test_a", ["tests/wire"])


def exits(status: int, name: str) -> Stage:
    return Stage(name, (sys.executable, "-c", f"print('this is {name}'); raise SystemExit({status})"))


def test_all_stages_run_and_one_that_failed_fails_the_whole(capfd: pytest.CaptureFixture[str]) -> None:
    outcomes = run_at_once([exits(1, "unit"), exits(0, "journeys")])

    assert [outcome.status for outcome in outcomes] == [1, 0]
    assert verdict("make test", outcomes) == 1
    *printed, unit, journey, last = capfd.readouterr().out.splitlines()
    assert {"this is unit", "this is journeys"} <= set(printed)
    assert "make test: unit         FAILED (status 1)" in unit
    assert "make test: journeys     passed" in journey
    assert last == "make test: FAILED: unit"


def test_stages_that_all_passed_pass(capfd: pytest.CaptureFixture[str]) -> None:
    assert verdict("make test", [Outcome(exits(0, "unit"), 0, 1.0)]) == 0
    assert capfd.readouterr().out.splitlines()[-1] == "make test: all passed"


def test_tests_get_no_import_path_that_depends_on_the_current_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", ".:tests")
    outcome = run_stage(Stage("unit", (sys.executable, "-c", "import os; print(os.environ.get('PYTHONPATH'))")), is_shown=False)
    assert (outcome.status, outcome.output.strip()) == (0, "None")


def test_a_process_that_a_test_leaves_behind_does_not_hold_the_verdict() -> None:
    script = "import subprocess; print(subprocess.Popen(['sleep', '600']).pid)"
    outcome = run_stage(Stage("journeys", (sys.executable, "-c", script)), is_shown=False)
    os.kill(int(outcome.output), signal.SIGKILL)  # it fails for a process that has ended
    assert outcome.status == 0
