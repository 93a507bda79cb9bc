"""Simulated deployments of several tables: whatever fails, no offset is lost or doubled, and everything heals."""

from __future__ import annotations

from collections import Counter

import pytest
from faults.simulated.deployment_faults import run_story

from support.simulated.lake import SimulatedLake

BLOCKS = 2
SEEDS_OF_A_BLOCK = 100
"""Fewer would not meet every kind of fault."""


@pytest.mark.parametrize("block", range(BLOCKS))
def test_whatever_fails_several_tables_are_tiered_once_and_heal(block: int) -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(block * SEEDS_OF_A_BLOCK, (block + 1) * SEEDS_OF_A_BLOCK):
        outcomes += run_story(seed).world.outcomes
    worked = {"SUCCEEDED", "EMPTY", "FENCED", "FAILED", "CANCELLED", "retier reconciled", "swept"}
    broken = {"LakeTableReplaced", "MarkerLost", "UnsupportedType", "LogTruncated", "KvSnapshotGone", "LakeUnavailable"}
    assert worked | broken <= {name for name, count in outcomes.items() if count}  # else the faults were no faults


def test_a_log_that_was_rewritten_goes_on_once_retention_took_what_would_tell() -> None:
    """Seed 20513: the last tiered record is compared, and retention removed it before the next round."""
    assert run_story(20_513, has_every_call=False, short_leases=False).world.outcomes["SUCCEEDED"]


def test_what_accept_leaves_out_of_a_partition_made_anew_is_counted() -> None:
    """Seed 21811: rows of the former partition of that name stand in the lake."""
    assert run_story(21_811, has_every_call=False, short_leases=False).world.outcomes["accept reconciled"]


@pytest.mark.parametrize(
    ("seed", "outcome"),
    [
        pytest.param(2_183, "SUCCEEDED", id="a round went down with its tierer once its commit had landed, and nobody knew for a time"),
        pytest.param(3_757, "retier reconciled", id="records were rewritten that a lake table had which was given up before"),
        pytest.param(4_189, "accept reconciled", id="nobody can tell whose rows a partition has once the parents of the marker expired"),
        pytest.param(6_022, "retier reconciled", id="an accept, and a retier after it, which brings what the log still has"),
        pytest.param(6_353, "accept reconciled", id="two accepts, whose rows no retier brings any more"),
    ],
)
def test_stories_that_once_went_wrong_end_well(seed: int, outcome: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They went wrong where nothing told the parents of expired snapshots."""
    monkeypatch.setattr(SimulatedLake, "forgets", lambda lake, table: True)
    assert run_story(seed, has_every_call=False, short_leases=False).world.outcomes[outcome]


def test_retier_does_not_go_on_from_rows_of_a_former_table_of_the_name() -> None:
    """Seed 12141: its markers had expired, and the answer of an older hint was followed."""
    assert run_story(12_141, short_leases=False).world.outcomes["retier reconciled"]


@pytest.mark.parametrize("seed", [873, 1_283, 6_997])
def test_a_round_of_an_older_tierer_and_its_successor_is_committed_by_one_of_them(seed: int) -> None:
    """Nothing tells the two processes apart; the later one finds the round in the lake."""
    assert run_story(seed, short_leases=False).world.outcomes["RoundRepeated"]


def test_a_lease_is_renewed_while_the_wall_clock_is_set_back() -> None:
    """Seed 587: its keeper waited until that clock was where it had been."""
    injected = run_story(587).world.chance.injected
    assert injected["clock-ahead"] or injected["clock-back"]


@pytest.mark.parametrize("seed", [2_095, 3_537])
def test_a_request_of_a_round_that_was_rolled_back_may_land_once_more(seed: int) -> None:
    """With the newest tiering commit the base came back on which it was sent: the lake has its rows once then, too."""
    assert run_story(seed).world.chance.injected["lake-rolled-back"]


@pytest.mark.parametrize("seed", [51, 177])
def test_no_round_makes_a_lake_table_in_the_place_of_one_that_was_dropped(seed: int) -> None:
    """A round that had found it made an empty one under its name."""
    assert run_story(seed).world.chance.injected["lake-table-dropped"]
