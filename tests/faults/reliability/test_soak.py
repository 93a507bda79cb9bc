"""When a soak of all seeds fails though each of its harnesses passed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from faults.reliability import soak
from faults.reliability.page import faults
from faults.reliability.soak import ALL_SEEDS, ENOUGH, Harness, counts_of, seldom

OFTEN = {fault.name: ENOUGH for fault in faults()}


def test_a_fault_is_seldom_below_enough_and_where_nobody_counted_it() -> None:
    assert seldom(OFTEN) == {}
    assert seldom(OFTEN | {"clock-ahead": ENOUGH - 1}) == {"clock-ahead": ENOUGH - 1}
    assert seldom({name: count for name, count in OFTEN.items() if name != "tag-removed"}) == {"tag-removed": 0}


def test_counts_are_those_of_the_printed_table() -> None:
    assert counts_of("seed 3: lost\n      12  clock-ahead            The wall clock\ntrace 0123\n1 seeds, 7 steps a second") == {
        "clock-ahead": 12
    }


@pytest.mark.parametrize(
    ("seeds", "counted", "status"),
    [(ALL_SEEDS, OFTEN, 0), (ALL_SEEDS, {}, 1), (ALL_SEEDS - 1, {}, 0)],
    ids=["often", "seldom", "fewer seeds"],
)
def test_a_whole_soak_fails_if_it_injects_a_fault_too_seldom(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seeds: int, counted: dict[str, int], status: int
) -> None:
    """The harness prints the counts, as the others do, and passes."""
    table = tmp_path / "harness_of_a_test.py"
    table.write_text(f"for name, count in {counted!r}.items():\n    print(f'{{count:>9}}  {{name}}  .')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(soak, "HARNESSES", (Harness("a test", table.stem),))
    monkeypatch.setattr(soak, "folders_in_memory", lambda: None)
    monkeypatch.setattr(sys, "argv", ["soak", "--seeds", str(seeds)])
    assert soak.main() == status
