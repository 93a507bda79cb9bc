"""tests/faults/README.md is that of the lists, the tests that it names exist, and docs/reliability.md states the same promises."""

from __future__ import annotations

import re

from faults.reliability.page import PAGE, PROMISES, USER_PAGE, counts_on, faults, kinds, render
from faults.reliability.process_faults import FAULTS as PROCESS_FAULTS

from support.repository import ROOT

FEWEST_KINDS = 60
"""Lower limit of the number of different faults that a soak injects. A variant in size or place does not count."""


def test_the_page_is_that_of_the_lists() -> None:
    page = PAGE.read_text()
    assert page == render(counts_on(page)), "write it again: PYTHONPATH=.:tests python -m faults.reliability"


def test_each_promise_to_users_has_tests() -> None:
    promised = re.findall(r"^\| \*\*(.+?)\*\* \|", USER_PAGE.read_text(), re.MULTILINE)
    assert promised == [promise for promise, *_ in PROMISES]
    assert [promise for promise, *tests in PROMISES if not tests] == []


def test_the_tests_that_hold_promises_and_faults_are_there() -> None:
    named = {test for _, *tests in PROMISES for test in tests} | {test for fault in (*faults(), *PROCESS_FAULTS) for test in fault.tests}
    missing = []
    for test in named:
        path, _, function = test.partition("::")
        file = ROOT / path
        if path.startswith("tests/") and (not file.exists() or function.partition("[")[0] not in file.read_text()):
            missing.append(test)
    assert missing == []


def test_there_are_enough_different_faults() -> None:
    assert len(kinds(faults())) >= FEWEST_KINDS


def test_a_variant_is_one_of_a_fault_that_is_none() -> None:
    of_its_own_kind = {fault.name for fault in kinds((*faults(), *PROCESS_FAULTS))}
    variants = [fault for fault in (*faults(), *PROCESS_FAULTS) if fault.variant_of is not None]
    assert [fault.name for fault in variants if fault.variant_of not in of_its_own_kind] == []


def test_a_fault_of_both_harnesses_says_what_each_of_them_has() -> None:
    [row] = [fault for fault in faults() if fault.name == "clock-back"]
    assert row.where == "simulator, stories"
    assert row.description == "The wall clock is set back."
    assert row.handled_by == "Timebase: deadlines are steady times; deadlines on the monotonic clock"
    assert [test.partition("/test_weakened_")[0] for test in row.tests] == ["tests/faults/simulated", "tests/faults/stories"]


def test_faults_of_processes_have_names_of_their_own_and_a_test_each() -> None:
    names = [fault.name for fault in (*faults(), *PROCESS_FAULTS)]
    assert len(set(names)) == len(names)
    assert [test for fault in PROCESS_FAULTS for test in fault.tests if "::test_" not in test] == []
    assert set(counts_on(PAGE.read_text())) == {fault.name for fault in faults()}
