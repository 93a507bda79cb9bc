"""Every named fault is really injected, and a seed reproduces a run exactly."""

from __future__ import annotations

import threading
from collections import Counter

import pytest
from faults.many_seeds import printed_trace
from faults.simulated.faults import FAULTS, run_seed

SEEDS = range(1_000, 1_200)
"""Others than those of the other tests."""


def test_each_named_fault_is_injected_and_every_table_heals() -> None:
    injected: Counter[str] = Counter()
    for seed in SEEDS:
        injected += run_seed(seed).injected
    assert {name for name, count in injected.items() if count} == {fault.name for fault in FAULTS}


def test_each_fault_has_a_name_of_its_own() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


def test_a_seed_reproduces_a_run_exactly() -> None:
    """The second run is in another process, whose sets have another order."""
    traces = {
        seed: {printed_trace("faults.simulated", "--seeds", "1", "--first", seed, hash_seed=hash_seed) for hash_seed in (1, 2)}
        for seed in ("7", "8")
    }
    assert [len(traces[seed]) for seed in traces] == [1, 1]
    assert traces["7"] != traces["8"]


def test_nothing_runs_beside_a_story_of_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread would draw from the seed's numbers whenever it comes to it. (CALLs in stories of several tables wait for theirs.)"""

    def refuse(thread: threading.Thread) -> None:
        raise AssertionError(f"{thread.name} was started")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    for seed in range(6, 16, 2):
        run_seed(seed)
