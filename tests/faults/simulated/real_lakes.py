"""The simulated deployment over real files of every kind of lake, on a file system that fails.

`PYTHONPATH=.:tests python -m faults.simulated.real_lakes --lake paimon-clean --seeds 100` runs many seeds on two processes, and prints
what failed how often, what became of the rounds, and the seeds that failed.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

import structlog

from support.lake_kinds.kinds import LAKE_KINDS, LakeKind
from support.lake_kinds.simulated_iceberg import SimulatedIcebergLake
from support.lake_kinds.simulated_lake import SimulatedLake
from support.lake_kinds.simulated_paimon import SimulatedPaimonLake
from support.worlds.simulation import FRESHNESS_MS, TABLE, SimulatedTierer, Simulation
from tiering.coordinator.decisions.upkeep import requests as upkeep_requests
from tiering.errors import LakeUnavailable, LakewardError
from tiering.lake.layouts import Layout
from tiering.model.rounds import Assignment
from tiering.model.tables import SnapshotRetention
from tiering.model.upkeep import UpkeepOrder
from tiering.round.steps.actions import RoundOutcome

STEPS = 120
PROCESSES = 2
DISTURBED_SHARE = 0.3
UPKEEP_SHARE = 0.3
LAKES: dict[str, type[SimulatedLake]] = {"iceberg": SimulatedIcebergLake, "paimon": SimulatedPaimonLake}


class RealLakeSimulation(Simulation):
    """Over real files. `proofs`: how many proofs of buckets were compared with the log."""

    outages = (LakeUnavailable,)
    table = replace(TABLE, auto_compaction=True, snapshot_retention=SnapshotRetention(max_age_ms=1, min_count=3))
    inline_round_bytes = 1 << 26

    def __init__(self, folder: Path, seed: int, kind: LakeKind) -> None:
        lake = LAKES[kind.format](folder, f"{kind.name} {seed}")
        lake.file_system.failing = lambda: self.faulty
        self.file_system = lake.file_system
        self.proofs = 0
        self._is_clean = kind.layout is Layout.CLEAN
        self.faulty = True
        super().__init__(seed, tierers=2 + seed % 2, lake=lake, options=kind.options)

    def _advance(self, tierer: SimulatedTierer) -> None:
        """Files are slow, and few steps are to see many commits: often several actions at once, and all that it takes to begin."""
        if tierer.running is None and self.random.random() < UPKEEP_SHARE:
            self._want_upkeep()
            self._beat(tierer)
        if tierer.running is None:
            self._append()
            self._pass_time(self.random.choice((1, 5)) * FRESHNESS_MS)
            self._beat(tierer)
        for _ in range(self.random.choice((1, 2, 4, 12))):
            self._disturb_upkeep(tierer)
            super()._advance(tierer)

    def _want_upkeep(self) -> None:
        """A user requests a rewrite of all files. A tierer without a due table gets the upkeep round."""
        records = self.coordinator.table_records
        with suppress(LakewardError), records.changing():
            record = records.get(TABLE.table_id)
            if record is not None and record.lake.table_uuid is not None:
                order = UpkeepOrder(full=True)
                records.put(upkeep_requests.request(records.context("alice"), record, order, "rewrite_data_files").change)

    def _ended(self, tierer: SimulatedTierer, assignment: Assignment, outcome: RoundOutcome) -> None:
        if assignment.upkeep is not None:
            self.outcomes[f"upkeep {outcome.state.value}"] += 1
        super()._ended(tierer, assignment, outcome)

    def _disturb_upkeep(self, tierer: SimulatedTierer) -> None:
        """At times another program replaces the files that a round has merged, between the merge and the commit of the round."""
        committable = None if tierer.running is None else tierer.running[1]._state.committable
        if committable is not None and committable.rewrites:
            self.outcomes["merged"] += 1
            if self.faulty and self.random.random() < DISTURBED_SHARE:
                self.outcomes["merged files changed"] += 1
                self.lake.foreign_commit(TABLE.path)

    def prove(self) -> None:
        """Checks that markers count the rows of the log. Raises AssertionError."""
        self.proofs += self.lake.check_proofs(TABLE.path)
        assert bool(self.proofs) is self._is_clean


@contextmanager
def upkeep_often() -> Iterator[None]:
    """Rounds merge any two files of a bucket, and snapshots expire with every commit, also after one that did not land."""
    with patch("tiering.lake.rules.upkeep.small_files.SMALL_FILES", 1), patch("tiering.lake.iceberg.commit.upkeep.PAUSE_MS", 0):
        yield


def run_seed(folder: Path, seed: int, kind: LakeKind, steps: int = STEPS) -> RealLakeSimulation:
    """A whole story, healed at its end. Raises AssertionError if safety or liveness is lost."""
    with patch("tiering.planning.plan_splits.SPLIT_BYTES", 24), upkeep_often(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # pyiceberg's, from a user's compaction
        simulation = RealLakeSimulation(folder, seed, kind)
        with simulation.file_system.patched():
            for _ in range(steps):
                simulation.step()
            simulation.heal()
            simulation.prove()
    return simulation


def result_of(kind: LakeKind, steps: int, seed: int) -> tuple[int, Counter[str], Counter[str], str | None]:
    """The seed, what failed, what became of it, and what was lost."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with tempfile.TemporaryDirectory() as folder:
        try:
            simulation = run_seed(Path(folder), seed, kind, steps)
        except Exception:  # any end but a good one is a defect
            return seed, Counter(), Counter(), traceback.format_exc()
        return seed, simulation.file_system.failures, simulation.outcomes, None


def main() -> int:
    """Returns the exit status: 1 if a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m faults.simulated.real_lakes")
    parser.add_argument("--lake", choices=[kind.name for kind in LAKE_KINDS], required=True)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--steps", type=int, default=STEPS)
    options = parser.parse_args()
    [kind] = [kind for kind in LAKE_KINDS if kind.name == options.lake]
    started, failures, outcomes, failed = time.monotonic(), Counter[str](), Counter[str](), 0
    with ProcessPoolExecutor(PROCESSES) as processes:
        for seed, failures_of_seed, outcomes_of_seed, lost in processes.map(
            partial(result_of, kind, options.steps), range(options.first, options.first + options.seeds)
        ):
            failures += failures_of_seed
            outcomes += outcomes_of_seed
            if lost is not None:
                failed += 1
                print(f"seed {seed}: {lost}", flush=True)
    for name, count in sorted((failures + outcomes).items()):
        print(f"{count:>9}  {name}")
    print(f"{kind.name}: {options.seeds} seeds, {time.monotonic() - started:.1f} s, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
