"""Clean log tables whose files a user compacted: their rows have no offsets, and the marker proves them or does not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from support.lake_kinds.kinds import ICEBERG_CLEAN, PAIMON_CLEAN
from support.lakes import broken_lakes as broken
from support.lakes.broken_lakes import Source, tiered
from support.on_call import next_action
from support.worlds.lake_world import LakeWorld
from tiering import errors
from tiering.coordinator.decisions.change import Change
from tiering.lake.maintenance import LiveRowSums
from tiering.lake.proof.bucket_proof import BucketProof
from tiering.lake.proof.change_sums import RowSum
from tiering.model.rounds import RoundState
from tiering.procedures.reconcile_lake import ReconcileLake, ReconcileLakeResult

KINDS = (ICEBERG_CLEAN, PAIMON_CLEAN)
IN_BUCKETS = pytest.mark.parametrize("partitioned", [False, True], ids=["one part", "partitioned"])


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LakeWorld]:
    world = LakeWorld(tmp_path, kind=request.param)
    yield world
    world.close()


def reconcile(source: Source, action: str, *, dry_run: bool = False) -> ReconcileLakeResult:
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
@pytest.mark.parametrize("break_it", [broken.set_back_to_a_compaction_and_the_log_cut, broken.markers_expired_and_the_log_cut])
def test_rows_that_a_user_changed_beside_a_compaction_are_not_proved(
    world: LakeWorld, partitioned: bool, change: str, break_it: broken.State
) -> None:
    source = tiered(world, False, partitioned)
    if change == "deleted":
        world.by_hand.delete(source.info.path, "id", sorted(source.rows)[3])
    else:
        broken._add_foreign_row(source)
    break_it(source)
    with pytest.raises(errors.CannotReconcile):
        reconcile(source, "retier")
    assert reconcile(source, "accept", dry_run=True).records_left_out is None


STATES_WITHOUT_MARKER = pytest.mark.parametrize("break_it", [broken.markers_expired, broken.markers_expired_and_the_log_cut])


@IN_BUCKETS
@STATES_WITHOUT_MARKER
def test_compacted_rows_are_proved_by_the_recorded_proofs_once_every_marker_expired(
    world: LakeWorld, partitioned: bool, break_it: broken.State
) -> None:
    source = tiered(world, False, partitioned)
    break_it(source)
    assert isinstance(source.tier().error, errors.MarkerLost)
    before = {bucket: BucketProof.parse(text) for bucket, text in world.record(source.info).lake.proofs.items()}
    assert next_action(world.coordinator, source.info) == "CALL fluss.sys.reconcile_lake('sales.orders', 'retier')"
    assert reconcile(source, "accept", dry_run=True).records_left_out == 0
    done = reconcile(source, "retier")
    assert (done.outcome, done.records_left_out) == ("reconciled", 0)
    marker = world.view(source.info).marker
    assert marker is not None
    assert {str(bucket): proof for bucket, proof in marker.proofs.items()} == before
    assert source.tier().state is RoundState.SUCCEEDED
    assert source.missing() == 0
    after = world.view(source.info).marker
    assert after is not None
    assert {str(bucket): proof.text for bucket, proof in after.proofs.items()} == world.record(source.info).lake.proofs


def test_a_store_of_an_older_version_has_no_proofs_and_the_hint_names_what_is_left(world: LakeWorld) -> None:
    source = tiered(world, False, False)
    broken.markers_expired_and_the_log_cut(source)
    assert isinstance(source.tier().error, errors.MarkerLost)
    records, record = world.coordinator.table_records, world.record(source.info)
    with records.changing():
        records.put(Change(record).update(lake=replace(record.lake, proofs={})))
    assert next_action(world.coordinator, source.info) is None
    [status] = world.coordinator.view().table_statuses()
    assert "'accept') leaves records (the number is unknown) out" in (status.error_hint or "")


def test_rows_of_a_recreated_partition_are_not_what_the_recorded_proofs_of_the_dropped_one_say(world: LakeWorld) -> None:
    source = tiered(world, False, True)
    source.tier()
    world.storage.drop_partition(source.info.path, "eu")
    source.write()
    broken.markers_expired(source)
    assert isinstance(source.tier().error, errors.MarkerLost)
    with pytest.raises(errors.CannotReconcile):
        reconcile(source, "retier")


@IN_BUCKETS
def test_the_marker_proves_the_rows_of_any_writer(world: LakeWorld, partitioned: bool) -> None:
    source, lake = tiered(world, False, partitioned), world.lake
    assert isinstance(lake, LiveRowSums)
    ids = {partition.partition_name: partition.partition_id for partition in world.storage.partitions(source.info)} if partitioned else {}
    sums = []
    for _ in range(2):
        view = world.view(source.info)
        assert view.marker is not None
        sums.append(sum((scope.sums.living for scope in lake.live_row_sums(source.info, view, ids)), RowSum()))
        assert sums[-1] == sum((RowSum(proof.rows, proof.checksum) for proof in view.marker.proofs.values()), RowSum())
        world.by_hand.rewrite(source.info.path)
    assert sums[0] == sums[1]
    assert sums[0].rows == 24
