"""Thousands of simulated hours: whatever fails, no offset is lost or doubled. A seed reproduces a failure."""

from __future__ import annotations

import pytest

from support.simulation import Simulation, recorded_everywhere

STEPS = 250


@pytest.fixture(autouse=True)
def small_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three records a split, so that most rounds have several splits of one bucket."""
    monkeypatch.setattr("tiering.round.plan.SPLIT_BYTES", 24)


@pytest.mark.parametrize("block", range(8))
def test_no_fault_loses_or_doubles_an_offset(block: int) -> None:
    seen: set[str] = set()
    for seed in range(block * 25, block * 25 + 25):
        simulation = Simulation(seed, tierers=2 + seed % 2)
        for _ in range(STEPS):
            simulation.step()
        simulation.heal()
        seen |= set(simulation.outcomes)
    assert {"SUCCEEDED", "FORCE_FINISHED", "FENCED", "FAILED", "killed"} <= seen  # else the faults were no faults


def test_after_a_quiet_hour_everybody_knows_what_the_lake_holds() -> None:
    simulation = Simulation(seed=7)
    for _ in range(STEPS):
        simulation.step()
    simulation.heal()
    simulation.heal()
    marker_ends = simulation._tiered()
    for recorded in recorded_everywhere(simulation):
        assert recorded is not None
        assert dict(recorded.offsets) == marker_ends
