"""What a grant gives to a tierer for its commit, and what keeps it from being given."""

from __future__ import annotations

import pytest

from support.worlds.coordinator_world import World
from tiering import errors


def test_a_grant_says_what_the_cluster_wants_in_the_snapshot_and_again_when_it_is_repeated(world: World) -> None:
    world.cluster.snapshot_properties = {"fluss-offsets": "/remote/1.offsets"}
    world.append()
    tierer, assignment = world.assigned()
    tierer.plan(assignment)
    request = tierer.prepare(assignment)
    assert tierer.begin(assignment, request).snapshot_properties == {"fluss-offsets": "/remote/1.offsets"}
    assert tierer.begin(assignment, request).snapshot_properties == {"fluss-offsets": "/remote/1.offsets"}
    ends = {bucket: tiered.tiered for bucket, tiered in request.marker.buckets.items()}
    assert world.cluster.prepared == [ends, ends]


def test_no_commit_is_granted_that_the_cluster_cannot_prepare(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.plan(assignment)
    request = tierer.prepare(assignment)
    world.cluster.unreachable_at_prepare = True
    with pytest.raises(errors.ClusterUnavailable):
        tierer.begin(assignment, request)
    assert not list(world.coordinator.table_records.store.commits(assignment.table_id))
    world.cluster.unreachable_at_prepare = False
    assert tierer.begin(assignment, request).granted
