"""Upkeep rounds rewrite files of the lake table: few are left, no row and no offset changes, and the proofs of the rows stay."""

from __future__ import annotations

import pytest

from support.background import tick
from support.behaviours.backends import EMBEDDED
from support.behaviours.deployment import MAX_BACKOFF_S, Deployment, StoryTable
from support.lake_kinds.kinds import PAIMON
from support.lakes.lake_proof import assert_chain
from support.worlds.lake_world import SteppedRound
from tiering.lake.base import LakeView
from tiering.lake.marker import TieredRange
from tiering.model.rounds import RoundState
from tiering.model.tables import BucketKey
from tiering.model.upkeep import UpkeepOrder, UpkeepStats
from tiering.round.steps import actions as act

BOTH_FORMATS = pytest.mark.parametrize("backend", [EMBEDDED, f"{EMBEDDED}, {PAIMON.name}"], indirect=True, scope="session")
LAYOUTS = pytest.mark.parametrize("layout", ["clean", "system-columns"])
KINDS = pytest.mark.parametrize("key", [(), ("id",)], ids=["log", "primary-key"])
OFF = {"table.datalake.auto-compaction": "false"}


def new_table(deployment: Deployment, layout: str, key: tuple[str, ...] = (), rounds: int = 6) -> StoryTable:
    """A table with a small file for each bucket and round."""
    table = deployment.make("orders", key=key, properties={"table.datalake.layout": layout, **OFF})
    for number in range(rounds):
        table.write(dict.fromkeys(range(10 * number, 10 * number + 4), f"round {number}"))
        assert table.tier().error is None
    return table


def begin_upkeep(table: StoryTable, order: UpkeepOrder | None = None) -> SteppedRound:
    table.deployment.clock.advance(MAX_BACKOFF_S)
    tick(table.deployment.coordinator)
    return table.deployment.begin(table.info, upkeep=order or UpkeepOrder())


def upkeep(table: StoryTable, order: UpkeepOrder | None = None) -> act.RoundOutcome:
    return begin_upkeep(table, order).end()


def done(outcome: act.RoundOutcome) -> UpkeepStats:
    assert outcome.state is RoundState.SUCCEEDED, outcome.error
    assert outcome.stats.upkeep is not None
    return outcome.stats.upkeep


def view_of(table: StoryTable) -> LakeView:
    view = table.deployment.lake.view(table.path)
    assert view is not None
    return view


def ends_of(table: StoryTable) -> dict[BucketKey, TieredRange]:
    marker = view_of(table).marker
    assert marker is not None
    return dict(marker.buckets)


def files_of(table: StoryTable) -> int:
    return len(table.deployment.by_hand.data_files(table.path))


@BOTH_FORMATS
@LAYOUTS
@KINDS
def test_small_files_become_one_a_bucket(deployment: Deployment, layout: str, key: tuple[str, ...]) -> None:
    table = new_table(deployment, layout, key)
    before, ends = files_of(table), ends_of(table)
    stats = done(upkeep(table))
    assert (stats.files_before, stats.files_after, stats.bytes_left) == (before, table.info.bucket_count, 0)
    assert files_of(table) == table.info.bucket_count
    assert ends_of(table) == ends
    table.check()
    assert_chain(deployment.lake_properties, table.path, deployment.lake_format)
    table.write({1_000: "later"})
    table.tiered()


@BOTH_FORMATS
@LAYOUTS
def test_without_anything_to_rewrite_a_round_is_empty(deployment: Deployment, layout: str) -> None:
    table = new_table(deployment, layout, rounds=1)
    head = view_of(table).head
    outcome = upkeep(table)
    assert (outcome.state, outcome.stats.upkeep) == (RoundState.EMPTY, UpkeepStats(bytes_left=0))
    assert view_of(table).head == head
