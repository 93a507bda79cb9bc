"""Without what handles it each fault breaks a promise: one function or guard is taken out, and a simulated deployment sees it.

The stories have that fault alone, or with those that have to come together with it.
"""

from __future__ import annotations

from unittest.mock import patch

import pytest
from faults.simulated.deployment_faults import run_story
from faults.simulated.faults import FAULTS, SIMULATED
from faults.simulated.weakenings import OF_THE_SIMULATION, WEAKENINGS, Weakening

HELD_HERE = "tests/faults/simulated/test_weakened_deployments.py::test_a_fault_that_nothing_handles_is_seen["


def breaks(weakening: Weakening, seed: int) -> bool:
    """Whether the story breaks a promise; a library's panic that comes through does, too."""
    try:
        run_story(seed, only=weakening.only, unexpected=weakening.unexpected, knows_processes=weakening.knows_processes)
    except BaseException as end:
        if isinstance(end, KeyboardInterrupt):
            raise
        return True
    return False


@pytest.mark.parametrize("weakening", [*WEAKENINGS, *OF_THE_SIMULATION], ids=lambda weakening: weakening.fault)
def test_a_fault_that_nothing_handles_is_seen(weakening: Weakening) -> None:
    for seed in range(weakening.first, weakening.seeds):
        with patch(weakening.target, weakening.replacement):
            is_seen = breaks(weakening, seed)
        if is_seen:
            assert not breaks(weakening, seed), "it also breaks with its handling in place"
            return
    raise AssertionError(f"no story below {weakening.seeds} needs {weakening.target}")


def test_each_fault_of_the_simulator_says_which_test_holds_it() -> None:
    here = {fault.name for fault in FAULTS if fault.where == SIMULATED and fault.held_by.startswith(HELD_HERE)}
    assert here == {weakening.fault for weakening in WEAKENINGS}
