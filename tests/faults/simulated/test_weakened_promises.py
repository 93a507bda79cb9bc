"""Promises of DESIGN 11: what keeps each is taken out, and a simulated deployment that meets every fault misses it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest
from faults.simulated.deployment_faults import run_story
from faults.simulated.weakenings import ROUNDS, any_round_that_runs, nothing, with_fates

from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.lake_repair.sweeper import Ledger, Sweeper
from tiering.errors import LakewardError
from tiering.lake.rules.sweep import RoundFate, SweptTable
from tiering.model.states import TableState

SEEDS = range(120)
"""A sweep has seldom anything to delete that is needed."""


_ledger = Sweeper._ledger


def all_have_ended(self: Sweeper, record: TableRecord) -> Ledger:
    return with_fates(_ledger(self, record), ended=True)


def none_was_granted(self: Sweeper, record: TableRecord) -> Ledger:
    return with_fates(_ledger(self, record), granted_on=())


def lands_on_the_newest_alone(fate: RoundFate, fates: Mapping[str, RoundFate], lake: SweptTable) -> bool:
    """Ignores that a table may be rolled back."""
    return lake.tiered in fate.granted_on


def refuses_a_retry(source: TableState | None, target: TableState | None) -> None:
    if (source, target) == (TableState.FAILED, TableState.PENDING):
        raise LakewardError("a table cannot go from Failed to Pending")


@dataclass(frozen=True)
class Kept:
    """`target` keeps `promise`, and is patched with `replacement`."""

    promise: str
    target: str
    replacement: Any
    complaint: str
    only: Collection[str] | None = None
    """The faults that happen; None = all."""


KEEPER = "tiering.round.lease_keeper.LeaseKeeper."
LATE = ("commit-request-late", "tierer-killed")
SWEEP = "tiering.lake.rules.sweep."
SWEEPER = "tiering.coordinator.lake_repair.sweeper.Sweeper._ledger"
KEPT = (
    Kept("one unfenced round a table", ROUNDS + "is_current", any_round_that_runs, "is granted"),
    Kept("files of open rounds stay", SWEEPER, all_have_ended, "is deleted|which are gone"),
    Kept("files of granted commits stay", SWEEPER, none_was_granted, "is deleted|which are gone"),
    Kept("files of commits stay that land after a roll-back", SWEEP + "_may_land", lands_on_the_newest_alone, "is deleted", LATE),
    Kept("leases hold while active", KEEPER + "renew", lambda self: True, "was not renewed"),
    Kept("leases are given back", KEEPER + "release", nothing, "are held"),
    Kept("legal transitions", "tiering.coordinator.decisions.change.check_transition", refuses_a_retry, "nothing explains"),
)


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: kept.promise)
def test_a_promise_that_no_round_keeps_is_missed(kept: Kept) -> None:
    with patch(kept.target, kept.replacement), pytest.raises(AssertionError, match=kept.complaint):
        tell_all(SEEDS, kept.only)


def tell_all(seeds: Iterable[int], only: Collection[str] | None) -> None:
    for seed in seeds:
        run_story(seed, only=only)
