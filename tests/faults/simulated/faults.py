"""The faults that the simulators inject, a line each, and the simulation of one table counting them as it does."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from faults.many_seeds import SeedResult
from faults.simulated.deployment_faults import DEPLOYMENT_FAULTS, SIMULATED, run_story

from support.worlds.faults import Fault
from support.worlds.simulation import SERVICE_TIMEOUT_MS, SimulatedDeath, SimulatedTierer, Simulation

STEPS = 300


FAULTS = (
    Fault(
        "message-forged",
        "A caller forges a message in the name of the running round.",
        SIMULATED,
        "acks are read from the lake: Commits.acknowledge",
        "tests/faults/simulated/test_simulated_rounds.py::test_a_coordinator_that_believes_what_it_is_told_is_found_out[believes_acks]",
    ),
    *DEPLOYMENT_FAULTS,
)
"""All that `run_seed` injects."""
BY_COMMIT = {"lost": "commit-request-lost", "answer lost": "commit-answer-lost", "late": "commit-request-late"}


class CountedSimulation(Simulation):
    """`injected`: how often each fault really was, by name. `trace` is the same for the same seed, wherever it runs."""

    def __init__(self, seed: int) -> None:
        self.injected: Counter[str] = Counter()
        super().__init__(seed, tierers=2 + seed % 2)

    def trace(self) -> str:
        """A digest of everything that the coordinator and the lake went through."""
        events = [(event.occurred_at, event.event_type, event.round_id) for event in reversed(self.store.events(limit=1_000_000))]
        lake = [(str(path), sorted(table.markers.items())) for path, table in sorted(self.lake.tables.items())]
        return hashlib.sha256(repr((events, lake, sorted(self.outcomes.items()))).encode()).hexdigest()

    def _lost(self) -> bool:
        return self._count(super()._lost(), "request-lost")

    def _lake_fault(self) -> str:
        fault = super()._lake_fault()
        self._count(fault in BY_COMMIT, BY_COMMIT.get(fault, ""))
        return fault

    def _deliver_late_beat(self) -> None:
        self._count(bool(self.late_beats), "request-late")
        super()._deliver_late_beat()

    def _kill(self, tierer: SimulatedTierer) -> None:
        self._count(self.faulty, "tierer-killed")
        super()._kill(tierer)

    def _fence(self, tierer: SimulatedTierer) -> None:
        with self._growing("fenced by an operator", "tierer-fenced"):
            super()._fence(tierer)

    def _pass_time(self, milliseconds: int) -> None:
        self._count(milliseconds > SERVICE_TIMEOUT_MS, "tierer-asleep")
        super()._pass_time(milliseconds)

    def _cancel(self) -> None:
        with self._growing("cancelled", "round-cancelled"):
            super()._cancel()

    def _restart_coordinator(self) -> None:
        self.injected["coordinator-restarted"] += 1
        super()._restart_coordinator()

    def _dies(self, *about: object) -> None:
        try:
            super()._dies(*about)
        except SimulatedDeath:
            self.injected["coordinator-killed"] += 1
            raise

    def _set_the_clock(self) -> None:
        super()._set_the_clock()
        self._count(self.clock.wall_offset_ms > 0, "clock-ahead")
        self._count(self.clock.wall_offset_ms < 0, "clock-back")

    def _forge(self) -> None:
        with self._growing("forged", "message-forged"):
            super()._forge()

    def _rename_lake_table(self) -> None:
        before = self.renamed
        super()._rename_lake_table()
        self._count(self.renamed > before, "lake-table-renamed")

    def _count(self, happened: bool, name: str) -> bool:
        self.injected[name] += happened
        return happened

    @contextmanager
    def _growing(self, outcome: str, name: str) -> Iterator[None]:
        """Counts the fault if there are more of the outcome afterwards."""
        before = self.outcomes[outcome]
        yield
        self._count(self.outcomes[outcome] > before, name)


def run_seed(seed: int) -> SeedResult:
    """A whole story, healed at its end: of one table and its files, or of several tables. Raises AssertionError if it breaks a promise."""
    if seed % 2:
        story = run_story(seed)
        return SeedResult(story.world.chance.injected, story.world.trace())
    with patch("tiering.planning.plan_splits.SPLIT_BYTES", 24):
        simulation = CountedSimulation(seed)
        with patch("tiering.round.tasks.split_work.RandomIds", lambda: simulation.ids):
            for _ in range(STEPS):
                simulation.step()
            simulation.heal()
    return SeedResult(simulation.injected, simulation.trace())
