"""docs/reliability.md is that of the lists, and what it names is there."""

from __future__ import annotations

from faults.reliability.page import NOT_PROMISED, PAGE, PROMISES, counts_on, faults, render
from faults.reliability.process_faults import FAULTS as PROCESS_FAULTS

from support.repository import ROOT

FEWEST_FAULTS = 60


def test_the_page_is_that_of_the_lists() -> None:
    page = PAGE.read_text()
    assert page == render(counts_on(page)), "write it anew: python -m faults.reliability"
    assert NOT_PROMISED


def test_the_tests_that_hold_promises_and_faults_are_there() -> None:
    named = {test for _, test in PROMISES} | {fault.held_by for fault in (*faults(), *PROCESS_FAULTS)}
    missing = []
    for test in named:
        path, _, function = test.partition("::")
        file = ROOT / path
        if path.startswith("tests/") and (not file.exists() or function.partition("[")[0] not in file.read_text()):
            missing.append(test)
    assert missing == []


def test_there_are_enough_faults_each_with_a_name_of_its_own() -> None:
    assert len(faults()) >= FEWEST_FAULTS


def test_faults_of_processes_have_names_of_their_own_and_a_test_each() -> None:
    names = [fault.name for fault in (*faults(), *PROCESS_FAULTS)]
    assert len(set(names)) == len(names)
    assert [fault.name for fault in PROCESS_FAULTS if "::test_" not in fault.held_by] == []
    assert set(counts_on(PAGE.read_text())) == {fault.name for fault in faults()}
