"""Primary-key tables, tiered by real rounds under a real coordinator, against a dict that was told the same changes."""

from __future__ import annotations

import pytest

from support.background import tick
from support.behaviours.deployment import Deployment, StoryTable
from support.running.processes import wait_for
from tiering.model.rounds import RoundState
from tiering.round.steps import actions as act


@pytest.fixture
def planes(deployment: Deployment) -> StoryTable:
    return deployment.make("planes", key=("id",))


@pytest.fixture
def tiered_late(deployment: Deployment) -> StoryTable:
    """A table whose lake is not enabled yet."""
    return deployment.make("planes", key=("id",), in_lake=False)


def test_inserts_updates_deletes_and_what_comes_back(planes: StoryTable) -> None:
    planes.write({key: f"row {key}" for key in range(20)})
    planes.tiered()
    planes.write({3: "changed", 4: None, 50: "new"})
    planes.delete([{"id": key} for key in (1, 2, 99)])
    planes.tiered()
    planes.write({1: "back", 2: "back"})
    planes.write({1: "and changed"})
    planes.delete([{"id": 2}])
    planes.tiered()
    assert planes.tier().state is RoundState.EMPTY


def test_of_a_key_that_comes_several_times_in_one_write_the_last_row_counts(planes: StoryTable) -> None:
    planes.upsert([{"id": key, "text": text} for key, text in ((1, "a"), (2, "b"), (1, "c"), (1, "d"))])
    ends = planes.deployment.cluster.offsets(planes.info)
    assert sum(bucket.log_end for bucket in ends.values()) == 2
    planes.tiered()


def test_a_first_round_begins_with_the_kv_snapshot_and_goes_on_in_the_log(tiered_late: StoryTable) -> None:
    tiered_late.write({key: f"row {key}" for key in range(20)})
    tiered_late.delete([{"id": 7}])
    tiered_late.kv_snapshots()
    tiered_late.set_lake(True)
    tiered_late.write({3: "after the snapshot"})
    tiered_late.delete([{"id": 4}])
    tiered_late.tiered()
    rows = tiered_late.deployment.by_hand.rows(tiered_late.path)
    if "__offset" in rows.column_names:
        offsets = dict(zip(rows["id"].to_pylist(), rows["__offset"].to_pylist(), strict=True))
        assert offsets[5] == -1
    tiered_late.write({5: "changed in a later round"})
    tiered_late.delete([{"id": 6}])
    tiered_late.tiered()


def test_snapshots_are_leased_while_the_round_reads_and_free_afterwards(planes: StoryTable) -> None:
    cluster = planes.deployment.cluster
    planes.write(dict.fromkeys(range(10), "x"))
    planes.kv_snapshots()
    planes.deployment.due()
    begun = planes.deployment.begin(planes.info).advance_to(act.RunSplits)
    leased = {held.table_bucket.bucket for lease in cluster.leases() for held in lease.snapshots}
    assert leased == set(cluster.offsets(planes.info))
    assert begun.end().state is RoundState.SUCCEEDED
    planes.check()
    wait_for("the lease to be released", lambda: not cluster.leases())


def test_a_snapshot_that_goes_while_it_is_read_fails_the_round_and_the_next_one_plans_afresh(planes: StoryTable) -> None:
    deployment = planes.deployment
    planes.write(dict.fromkeys(range(10), "x"))
    planes.kv_snapshots()
    deployment.due()
    begun = deployment.begin(planes.info).advance_to(act.RunSplits)
    for lease in deployment.cluster.leases():
        deployment.cluster.drop_lease(lease.lease_id)
    for _ in range(3):
        planes.write(dict.fromkeys(range(10), "newer"))
        planes.kv_snapshots()
    outcome = begun.end()
    assert outcome.error is not None
    assert (outcome.state, outcome.error.error_class) == (RoundState.FAILED, "KvSnapshotGone")
    tick(deployment.coordinator)
    planes.tiered()
