"""A cluster that was restored from an older copy and grew again is seen as such also where something else is wrong with the lake table."""

from __future__ import annotations

import asyncio

import pytest

from support.lakes import broken_lakes as broken
from support.lakes.broken_lakes import Source, tiered
from support.on_call import next_action
from support.worlds.lake_world import LakeWorld
from tiering import errors
from tiering.procedures.reconcile_lake import ReconcileLake, ReconcileLakeResult

pytestmark = pytest.mark.in_turn("world")


def reconcile(source: Source, action: str, dry_run: bool = False) -> ReconcileLakeResult:
    request = ReconcileLake(source.info.path, action, caller="ann", dry_run=dry_run)
    return asyncio.run(source.world.coordinator.control.perform(request))


@pytest.mark.parametrize("break_it", [broken.history_expired, broken.markers_expired, broken.marker_unreadable])
def test_no_way_out_goes_on_behind_records_that_are_others_now(world: LakeWorld, break_it: broken.State) -> None:
    source = tiered(world, False, False)
    broken.cluster_restored_and_outgrown(source)
    break_it(source)
    assert isinstance(source.tier().error, errors.PermanentTieringError)
    assert "'retier'" not in (next_action(world.coordinator, source.info) or "")
    with pytest.raises(errors.CannotReconcile):
        reconcile(source, "retier")
    assert reconcile(source, "accept", dry_run=True).records_left_out is None


def test_a_lake_table_that_was_set_back_below_them_goes_on_before_them(world: LakeWorld) -> None:
    source = tiered(world, False, False)
    broken.cluster_restored_and_outgrown(source)
    broken.rolled_back(source)
    assert isinstance(source.tier().error, errors.PermanentTieringError)
    assert next_action(world.coordinator, source.info) == "CALL fluss.sys.reconcile_lake('sales.orders', 'retier')"
    assert reconcile(source, "retier").records_left_out == 0
    assert source.tier().error is None
    assert source.missing() == 0
