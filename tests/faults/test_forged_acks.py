"""The worst effect of a forged ack: records are deleted from the log that the lake never got."""

from __future__ import annotations

import pytest

from support.background import tick
from support.worlds.lake_world import SCHEMA, TIERER, LakeWorld
from tiering.cluster.writable import TableSpec
from tiering.errors import Fenced
from tiering.model.tables import BucketKey, TableInfo, TablePath
from tiering.round.messages import round_to_pb
from tiering.round.steps import actions as act
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.wire.model_codecs import OFFSETS

HOUR_S = 3_600


@pytest.fixture
def short_lived(world: LakeWorld) -> TableInfo:
    """A lake table whose log is cut an hour after its rows are in the lake."""
    world.storage.create_database("sales", ignore_if_exists=True)
    properties = {"table.datalake.enabled": "true", "table.datalake.freshness": "60 s", "table.log.ttl": "1 h"}
    table = world.storage.create_table(TablePath("sales", "short_lived"), TableSpec(SCHEMA, 2, properties=properties))
    tick(world.coordinator)
    return table


def test_no_row_leaves_the_log_by_a_made_up_ack(world: LakeWorld, short_lived: TableInfo) -> None:
    world.append(short_lived, 0, 20)
    world.tier(short_lived)
    world.append(short_lived, 20, 20)
    world.due()
    running = world.begin(short_lived).advance_to(act.RunSplits)
    ends = {BucketKey(None, bucket): end for bucket, end in world.ends(short_lived).items()}
    message = pb.CommitLakeSnapshotRequest(round=round_to_pb(running.assignment, TIERER), marker_round_id=running.assignment.round_id)
    message.marker.lake_snapshot_id = 4_711
    message.marker.offsets.extend(OFFSETS.to_pb(ends))
    with pytest.raises(Fenced, match="does not hold"):
        world.coordinator.commits.commit_lake_snapshot(message)
    world.clock.advance(2 * HOUR_S)
    world.storage.maintenance.run()
    tick(world.coordinator)
    marker = world.view(short_lived).marker
    assert marker is not None
    for bucket, log in world.storage.offsets(short_lived).items():
        assert log.log_start <= marker.buckets[bucket].tiered < log.log_end
    world.clock.advance(600)
    world.tier(short_lived)
    world.assert_exact(short_lived)
