"""Without what handles it each fault breaks a promise: one function or guard is taken out, and a simulated deployment sees it.

The stories have that fault alone, or with those that have to come together with it.
"""

from __future__ import annotations

import traceback
from pathlib import Path
from unittest.mock import patch

import pytest
from faults.simulated.deployment_faults import run_story
from faults.simulated.faults import FAULTS, SIMULATED
from faults.simulated.weakenings import OF_THE_SIMULATION, WEAKENINGS, Weakening

from support.simulated.chance import PanicException

HELD_HERE = "tests/faults/simulated/test_weakened_deployments.py::test_a_fault_that_nothing_handles_is_seen["


TESTS = Path(__file__).parents[2]


def run(weakening: Weakening, seed: int) -> None:
    run_story(seed, only=weakening.only, unexpected=weakening.unexpected, knows_processes=weakening.knows_processes)


def is_seen(weakening: Weakening, seed: int) -> bool:
    """Whether the story breaks a promise, as a test says; a library's panic that comes through does, too. The product's own assertions,
    which end some stories before, count for nothing.
    """
    try:
        with patch(weakening.target, weakening.replacement):
            run(weakening, seed)
    except PanicException:
        return True
    except AssertionError as broken:
        return Path(traceback.extract_tb(broken.__traceback__)[-1].filename).is_relative_to(TESTS)
    return False


@pytest.mark.parametrize("weakening", [*WEAKENINGS, *OF_THE_SIMULATION], ids=lambda weakening: weakening.fault)
def test_a_fault_that_nothing_handles_is_seen(weakening: Weakening) -> None:
    for seed in range(weakening.first, weakening.seeds):
        if is_seen(weakening, seed):
            run(weakening, seed)  # holds, with its handling in place
            return
    raise AssertionError(f"no story below {weakening.seeds} needs {weakening.target}")


def test_each_fault_of_the_simulator_says_which_test_holds_it() -> None:
    here = {fault.name for fault in FAULTS if fault.where == SIMULATED and fault.held_by.startswith(HELD_HERE)}
    assert here == {weakening.fault for weakening in WEAKENINGS}
