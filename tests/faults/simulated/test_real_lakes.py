"""Under all faults, over real files of every kind of lake no offset is lost or doubled, and no file that is still needed is deleted.

`LAKEWARD_FUZZ_EXAMPLES` tells more stories than the suite does, `LAKEWARD_FUZZ_SEED` others: the first one's number.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from faults.simulated.real_lakes import run_seed

from support.depth import examples
from support.lake_kinds.kinds import ICEBERG, ICEBERG_CLEAN, LAKE_KINDS, PAIMON, PAIMON_CLEAN, LakeKind
from support.lake_kinds.simulated_iceberg import SimulatedIcebergLake
from support.lake_kinds.simulated_paimon import SimulatedPaimonLake
from support.upkeep.unchecked_rewrites import all_rewrites
from tiering.errors import CommitOutcomeUnknown
from tiering.lake.base import Committable
from tiering.lake.iceberg.commit import committer as iceberg_committer
from tiering.lake.iceberg.commit.committer import IcebergCommitter
from tiering.lake.paimon.commit.committer import PaimonCommitter
from tiering.lake.paimon.reading.loading import LoadedTable, opened_table
from tiering.lake.paimon.storage.base import SNAPSHOT
from tiering.lake.writing.sent_rounds import SentRounds

SEEDS = examples(6)
"""Seeds of each kind of lake; two seconds each."""
FIRST = int(os.environ.get("LAKEWARD_FUZZ_SEED", "0"))
OUTCOMES = {"SUCCEEDED", "FENCED", "FAILED", "killed", "reconciled", "swept", "LIVE", "OPEN_ROUND"}


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("kind", LAKE_KINDS, ids=lambda kind: kind.name)
def test_no_fault_loses_or_doubles_an_offset(tmp_path: Path, kind: LakeKind) -> None:
    outcomes, failures, proofs = set[str](), Counter[str](), 0
    for seed in range(FIRST, FIRST + SEEDS):
        try:
            simulation = run_seed(tmp_path / str(seed), seed, kind)
        except BaseException as failure:
            failure.add_note(f"seed {seed} of {kind.name}")
            raise
        outcomes |= set(simulation.outcomes)
        failures += simulation.file_system.failures
        proofs += simulation.proofs
    assert outcomes >= OUTCOMES, OUTCOMES - outcomes  # else the faults were no faults
    assert {name.split()[0] for name in failures} >= {"read", "list", "sync", "remove", "create"}, failures


def cleans_up_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cleans up after an error like pyiceberg's own commit, with any outcome of the request."""
    for committer in (IcebergCommitter, PaimonCommitter):
        monkeypatch.setattr(committer, "commit", _cleaning_up(committer.commit))


def _cleaning_up(commit: Callable[..., int]) -> Callable[..., int]:
    def cleaning_up(committer: Any, committable: Committable, *rest: Any) -> int:
        try:
            return commit(committer, committable, *rest)
        except CommitOutcomeUnknown:
            committer._sent = SentRounds()
            committer.abort(committable)
            raise

    return cleaning_up


def commits_on_any_base(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits like Paimon's own commit: a writer whose base is old gets the next number."""

    def rebase(base: LoadedTable, snapshot_id: int, content: bytes) -> None:
        with opened_table(base) as folder:
            number = max(folder.numbers(SNAPSHOT), default=0) + 1
            folder.create(SNAPSHOT, f"snapshot-{number}", json.dumps({**json.loads(content), "id": number}).encode())

    monkeypatch.setattr("support.lake_kinds.simulated_paimon.publish", rebase)


def sweeps_what_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks at no manifest."""
    for lake in (SimulatedIcebergLake, SimulatedPaimonLake):
        monkeypatch.setattr(lake, "live_files", lambda self, view: set())


def commits_any_rewrite(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever became of the files that it replaces."""
    monkeypatch.setattr(iceberg_committer, "fitting_rewrites", all_rewrites)


WEAKENED = (
    (commits_any_rewrite, ICEBERG, 5),
    (commits_any_rewrite, ICEBERG_CLEAN, 5),
    (cleans_up_after_an_error, ICEBERG_CLEAN, 2),
    (cleans_up_after_an_error, PAIMON_CLEAN, 0),
    (commits_on_any_base, PAIMON_CLEAN, 0),
    (sweeps_what_is_named, ICEBERG, 0),
    (sweeps_what_is_named, PAIMON, 0),
)
"""With the first seed that notices it."""


@pytest.mark.in_turn("weaken", "kind", "first")
@pytest.mark.parametrize(("weaken", "kind", "first"), WEAKENED, ids=lambda value: getattr(value, "name", getattr(value, "__name__", "")))
def test_a_weaker_commit_or_sweep_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weaken: Callable[[pytest.MonkeyPatch], None], kind: LakeKind, first: int
) -> None:
    """Else the simulator could not fail. Where files are gone, at times its own readers meet that first."""
    weaken(monkeypatch)

    def story(seed: int) -> None:
        run_seed(tmp_path / str(seed), seed, kind)

    with pytest.raises((AssertionError, FileNotFoundError)):
        list(map(story, range(first, first + 20)))
