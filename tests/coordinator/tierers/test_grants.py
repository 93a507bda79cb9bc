"""A grant gives a tierer the data for its commit. Several conditions prevent a grant."""

from __future__ import annotations

import pytest

from support.worlds.coordinator_world import World
from tiering import errors
from tiering.coordinator.decisions.records import CommitState
from tiering.coordinator.memory import table_records

BACKOFF_SECONDS = 301
"""Longer than the longest."""


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


def test_after_very_many_commits_of_unknown_outcome_the_next_one_settles_them_all(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalog that hangs at commits for days leaves more of them than an ack usually looks at."""
    monkeypatch.setattr(table_records, "LEDGER_ROWS", 5)
    world.append()
    tierer = world.tierer()
    for _ in range(23):
        world.later(BACKOFF_SECONDS)
        assignment = tierer.get()
        tierer.plan(assignment)
        assert tierer.begin(assignment, tierer.prepare(assignment)).granted
        tierer.fail(assignment, error_phase="LAKE_COMMIT", error_class="CommitOutcomeUnknown")
    world.later(BACKOFF_SECONDS)
    last = tierer.get()
    tierer.run(last)
    states = {row.round_id: row.state for row in world.store.commits()}
    assert states.pop(last.round_id) is CommitState.ACKED
    assert set(states.values()) == {CommitState.ABORTED}
    assert len(states) == 23
