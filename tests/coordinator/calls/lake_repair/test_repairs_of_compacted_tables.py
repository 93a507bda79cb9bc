"""Clean log tables whose files somebody compacted: their rows tell no offsets, and the marker proves them or does not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.lake_kinds.kinds import ICEBERG_CLEAN, PAIMON_CLEAN
from support.lakes import broken_lakes as broken
from support.lakes.broken_lakes import Source, tiered
from support.worlds.lake_world import LakeWorld
from tiering import errors
from tiering.coordinator.calls.lake_repair.reconcile_lake import ReconcileLake
from tiering.lake.maintenance import StandingRows
from tiering.lake.proof.change_sums import RowSum
from tiering.model.call_results import ReconcileResult
from tiering.model.rounds import RoundState

KINDS = (ICEBERG_CLEAN, PAIMON_CLEAN)
IN_BUCKETS = pytest.mark.parametrize("partitioned", [False, True], ids=["one part", "partitioned"])


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LakeWorld]:
    world = LakeWorld(tmp_path, kind=request.param)
    yield world
    world.close()


def reconcile(source: Source, action: str, *, dry_run: bool = False) -> ReconcileResult:
    call = ReconcileLake(source.info.path, action, caller="ann", dry_run=dry_run)
    return asyncio.run(source.world.coordinator.control.perform(call))


@IN_BUCKETS
def test_retier_goes_on_behind_compacted_rows_that_the_marker_proves(world: LakeWorld, partitioned: bool) -> None:
    source = tiered(world, False, partitioned)
    broken.set_back_to_a_compaction_and_the_log_cut(source)
    assert isinstance(source.tier().error, errors.RecordAheadOfLake | errors.LakeRolledBack)
    assert reconcile(source, "accept", dry_run=True).records_left_out == 24
    done = reconcile(source, "retier")
    assert (done.outcome, done.records_left_out) == ("reconciled", 0)
    assert source.tier().state is RoundState.SUCCEEDED
    assert source.missing() == 0
    marker = world.view(source.info).marker
    assert marker is not None
    assert marker.proofs.keys() == marker.buckets.keys()


@IN_BUCKETS
@pytest.mark.parametrize("change", ["deleted", "added"])
def test_rows_that_somebody_changed_beside_a_compaction_are_not_proved(world: LakeWorld, partitioned: bool, change: str) -> None:
    source = tiered(world, False, partitioned)
    if change == "deleted":
        world.by_hand.delete(source.info.path, "id", sorted(source.rows)[3])
    else:
        broken._add_foreign_row(source)
    broken.set_back_to_a_compaction_and_the_log_cut(source)
    with pytest.raises(errors.CannotReconcile):
        reconcile(source, "retier")
    assert reconcile(source, "accept", dry_run=True).records_left_out is None


@IN_BUCKETS
def test_what_stands_is_what_the_marker_proves_whoever_wrote_the_files(world: LakeWorld, partitioned: bool) -> None:
    source, lake = tiered(world, False, partitioned), world.lake
    assert isinstance(lake, StandingRows)
    ids = {partition.partition_name: partition.partition_id for partition in world.storage.partitions(source.info)} if partitioned else {}
    sums = []
    for _ in range(2):
        view = world.view(source.info)
        assert view.marker is not None
        sums.append(sum((scope.sums.living for scope in lake.standing_rows(source.info, view, ids)), RowSum()))
        assert sums[-1] == sum((RowSum(proof.rows, proof.checksum) for proof in view.marker.proofs.values()), RowSum())
        world.by_hand.rewrite(source.info.path)
    assert sums[0] == sums[1]
    assert sums[0].rows == 24
