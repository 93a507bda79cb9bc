"""The coordinator's record of a marker's proofs and traces, and the marker that it makes from the record."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.worlds.coordinator_world import World
from tiering.coordinator.decisions import lake_acks
from tiering.coordinator.decisions.records import LakeState, TableRecord
from tiering.lake.marker import Marker, TieredRange
from tiering.lake.proof.bucket_proof import BucketProof
from tiering.model.tables import BucketKey, TableType

B0, OF_PARTITION = BucketKey(None, 0), BucketKey(7, 1)
PROOFS = {B0: BucketProof(0, 17, 2**64 - 1, "ab12", ((4, 7),)), OF_PARTITION: BucketProof(5, 4, 8)}


def recorded(record: TableRecord, proofs: dict[BucketKey, BucketProof]) -> TableRecord:
    lake = LakeState("uuid", offsets={"0": 20, "7/1": 9}, starts={"7/1": 5}, marker_round_id="r2")
    return replace(record, lake=replace(lake, proofs=lake_acks.recorded_proofs(record, proofs)))


def test_the_marker_of_a_log_table_comes_back_with_its_ranges_and_proofs(world: World) -> None:
    record = recorded(world.record(), PROOFS)
    ranges = {B0: TieredRange(0, 20), OF_PARTITION: TieredRange(5, 9)}
    expected = Marker("cluster", record.table_id, "uuid", "r2", record.tiering_epoch, None, ranges, proofs=PROOFS)
    assert lake_acks.recorded_marker(record, "cluster") == expected


def test_the_marker_of_a_table_without_proofs_comes_back_with_its_traces(world: World) -> None:
    record, traces = recorded(world.record(), {}), {OF_PARTITION: "trace of 8", B0: "trace of 19"}
    marker = lake_acks.recorded_marker(replace(record, lake=replace(record.lake, traces=lake_acks.recorded_traces(traces))), "cluster")
    assert marker is not None
    assert (marker.traces, marker.proofs, marker.buckets[B0]) == (traces, {}, TieredRange(0, 20))


def test_there_is_none_without_proofs_and_traces_or_without_offsets(world: World) -> None:
    record = recorded(world.record(), PROOFS)
    assert lake_acks.recorded_marker(recorded(record, {}), "cluster") is None
    assert lake_acks.recorded_marker(replace(record, lake=replace(record.lake, offsets=None)), "cluster") is None


@pytest.mark.parametrize("table_type", list(TableType))
def test_proofs_of_log_tables_alone_are_recorded(world: World, table_type: TableType) -> None:
    record = replace(world.record(), table_type=table_type.value)
    assert bool(lake_acks.recorded_proofs(record, PROOFS)) == (table_type is TableType.LOG)


def test_proofs_that_would_make_each_write_of_the_record_long_are_not_recorded(world: World) -> None:
    proofs = {BucketKey(None, number): PROOFS[B0] for number in range(3_000)}
    assert lake_acks.recorded_proofs(world.record(), proofs) == {}
    few = dict(list(proofs.items())[:100])
    assert len(lake_acks.recorded_proofs(world.record(), few)) == 100
