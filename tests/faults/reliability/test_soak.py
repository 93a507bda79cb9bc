"""A soak of all seeds fails if it injected a fault too seldom, although each harness passed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from faults.reliability import soak
from faults.reliability.soak import ALL_SEEDS, ENOUGH, HARNESSES, PARTS, Harness, counts_of, seldom

OFTEN = {part: {fault.name: ENOUGH for fault in faults} for part, faults in PARTS.items()}


def test_a_fault_is_seldom_below_enough_and_where_no_run_counted_it() -> None:
    simulated, stories = OFTEN["faults.simulated"], OFTEN["faults.stories"]
    assert seldom(OFTEN) == {}
    assert seldom({**OFTEN, "faults.simulated": {**simulated, "clock-ahead": ENOUGH - 1}}) == {"clock-ahead (faults.simulated)": ENOUGH - 1}
    without = {name: count for name, count in stories.items() if name != "tag-removed"}
    assert seldom({**OFTEN, "faults.stories": without}) == {"tag-removed (faults.stories)": 0}


def test_a_fault_that_one_part_injects_often_may_be_seldom_in_another() -> None:
    assert seldom({**OFTEN, "faults.beside_flink": {}})["lake-expired (faults.beside_flink)"] == 0


def test_harnesses_of_one_part_count_together() -> None:
    assert {harness.part for harness in HARNESSES if harness.name.startswith("simulator")} == {"faults.simulated"}


def test_counts_are_those_of_the_printed_table() -> None:
    assert counts_of("seed 3: lost\n      12  clock-ahead            The wall clock\ntrace 0123\n1 seeds, 7 steps a second") == {
        "clock-ahead": 12
    }


@pytest.mark.parametrize(
    ("seeds", "count", "status"),
    [(ALL_SEEDS, ENOUGH, 0), (ALL_SEEDS, ENOUGH - 1, 1), (ALL_SEEDS - 1, 0, 0)],
    ids=["often", "seldom", "fewer seeds"],
)
def test_a_whole_soak_fails_if_it_injects_a_fault_too_seldom(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seeds: int, count: int, status: int
) -> None:
    """The harness prints the counts and passes."""
    folder = tmp_path / "faults"
    folder.mkdir()
    (folder / "simulated.py").write_text(f"for name in {sorted(OFTEN['faults.simulated'])!r}:\n    print(f'{count:>9}  {{name}}  .')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(soak, "HARNESSES", (Harness("a test", "faults.simulated"),))
    monkeypatch.setattr(soak, "PARTS", {"faults.simulated": PARTS["faults.simulated"]})
    monkeypatch.setattr(soak, "folders_in_memory", lambda: None)
    monkeypatch.setattr(sys, "argv", ["soak", "--seeds", str(seeds)])
    assert soak.main() == status
