"""Primary-key tables beside Flink's tiering: keys that it set back or doubled are replayed, without a statement."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.flink.beside_flink import AFTER, BEFORE, DELETE, INSERT, KEY_TABLE, BesideFlink
from support.piecewise_reader import PiecewiseReader
from tiering.errors import CannotReconcile
from tiering.model.rounds import RoundState
from tiering.round.steps import actions as act


def changes(world: BesideFlink) -> None:
    """Behind the first 50 changes (inserts of the keys 0 to 49): updates of some, inserts of others, deletes."""
    for key in range(5):
        world.cluster.write(0, (BEFORE, key), (AFTER, key))
    world.cluster.write(0, *[(INSERT, key) for key in range(100, 120)])
    for key in range(5):
        world.cluster.write(0, (BEFORE, key), (AFTER, key))
    world.cluster.write(0, *[(DELETE, key) for key in range(10, 20)])


def keys_at_fifty() -> BesideFlink:
    world = BesideFlink(KEY_TABLE, [(INSERT, key) for key in range(50)])
    world.succeed()
    changes(world)
    return world


def test_8_keys_that_a_stale_round_set_back_or_doubled_are_replayed() -> None:
    world = keys_at_fifty()
    stale = world.flink().plan(80).check().prepare()
    world.succeed()
    stale.append().tell()
    assert max(world.lake.row_counts().values()) == 2
    assert world.lake.held() != world.lake.truth()
    assert world.succeed().state is RoundState.SUCCEEDED
    assert "BUCKETS_REPLAYED" in {event.event_type for event in world.store.events()}
    world.quiet()


def test_8b_the_replay_goes_on_if_another_stale_round_comes_first() -> None:
    world = keys_at_fifty()
    stale, other = world.flink().plan(80).check().prepare(), world.flink().plan().check().prepare()
    world.succeed()
    stale.append().tell()
    assignment, runner = world.begin()
    while not isinstance(runner.next_action, act.CommitLake):
        runner.advance()
    other.append()
    assert world.end(assignment, runner).state is RoundState.FENCED
    other.tell()
    assert world.succeed().state is RoundState.SUCCEEDED
    world.quiet()


def test_8_a_moved_back_end_is_remembered_with_the_passed_head() -> None:
    """The other's exact fit later does not raise it, nor does an expiry of what moved it back."""
    world = keys_at_fifty()
    stale, fitting = world.flink().plan(80).check().prepare(), world.flink().plan().check().prepare()
    world.succeed()
    stale.append()
    assignment, runner = world.begin()
    while not isinstance(runner.next_action, act.EnsureLakeTable):
        runner.advance()
    assert world.record.lake.moved_back == {"0": 50}
    runner.cancel("the tierer goes down")
    world.end(assignment, runner)
    fitting.append().tell()
    assert world.succeed().state is RoundState.SUCCEEDED
    world.quiet()


def test_8c_a_bucket_whose_replay_the_log_lost_begins_anew_with_its_kv_snapshot() -> None:
    world = keys_at_fifty()
    stale = world.flink().plan(80).check().prepare()
    world.succeed()
    stale.append().tell()
    world.cluster.cut(0, 80)
    assert world.refuse() == "LogTruncated"
    world.cluster.takes_kv_snapshots = True
    world.reconcile("retier")
    world.quiet()


def test_a_late_round_into_a_bucket_that_begins_anew_is_not_taken_for_all_of_it() -> None:
    """The log no longer shows what was before it: only a KV snapshot, which replaces the bucket, has that."""
    world = keys_at_fifty()
    stale, late = world.flink().plan(80).check().prepare(), world.flink()
    world.succeed()
    stale.append().tell()
    world.cluster.cut(0, 80)
    assert world.refuse() == "LogTruncated"
    late.plan().check().prepare()
    world.cluster.takes_kv_snapshots = True
    world.reconcile("retier")
    assert world.lake.held() == {}
    late.append().tell()
    world.quiet()


def test_a_primary_key_table_that_was_rolled_back_under_foreign_rows_begins_anew() -> None:
    """Rows that stand above the marker would be doubled by the other's next round, which fits to the marker."""
    world = keys_at_fifty()
    ours = world.newest
    world.succeed()
    late = world.flink()
    changes(world)
    late.plan().check().prepare()
    world.lake.roll_back(ours)
    late.append()
    assert world.refuse() == "LakeRolledBack"
    world.reconcile("retier")
    world.flink().whole()
    world.quiet()


def test_keys_that_a_round_may_have_doubled_before_history_expired_are_not_accepted() -> None:
    """The snapshot with its rows expired, so no offset shows from where to replay: only a bucket that begins again is right."""
    world = keys_at_fifty()
    stale = world.flink().plan(80).check().prepare()
    world.succeed()
    stale.append().tell()
    world.lake.foreign_commit(world.info.path)
    world.lake.expire_all_but_head()
    assert max(world.lake.row_counts().values()) == 2
    assert world.refuse() == "HistoryExpired"
    assert "'accept'" not in world.record.error.hint
    with pytest.raises(CannotReconcile, match="may have doubled keys") as refusal:
        world.reconcile("accept")
    assert "'retier'" in refusal.value.hint
    world.reconcile("retier")
    world.quiet()


def test_keys_are_not_accepted_where_no_tiering_snapshot_is_left() -> None:
    world = keys_at_fifty()
    stale = world.flink().plan(80).check().prepare()
    world.succeed()
    stale.append().tell()
    world.lake.foreign_commit(world.info.path)
    world.lake.table.tag = None
    world.lake.expire_all_but_head()
    assert world.refuse() == "MarkerLost"
    with pytest.raises(CannotReconcile, match="may have doubled keys"):
        world.reconcile("accept")
    world.reconcile("retier")
    world.quiet()


def test_8d_a_replay_goes_to_the_end_however_long_it_takes() -> None:
    """One that stopped early would leave keys ahead of the marker, and the other's next round doubles them with rows that fit exactly."""
    world = keys_at_fifty()
    first, second = world.flink().plan().check().prepare(), world.flink().plan().check().prepare()
    first.append().tell()
    second.append().tell()
    assert max(world.lake.row_counts().values()) == 2
    whole_reader = world.cluster.reader
    world.cluster.reader = lambda table, split: PiecewiseReader(whole_reader(table, split), 1)  # type: ignore[assignment,method-assign,return-value]
    assignment, runner = world.begin()
    runner._assignment = replace(assignment, max_duration_ms=0)
    assert world.end(assignment, runner).error is None
    world.flink().whole()
    world.quiet()
