"""A log that lost its end and wrote other records there, and one that a new leader does not know wholly for a moment."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import pytest

from support.clusters.memory_cluster import MemoryCluster
from support.lakes.memory_lake import MemoryLake
from support.round_scene import B0, B1, TABLE, Coordinator, Scene
from tiering.errors import ClusterUnavailable
from tiering.model.rounds import RoundState
from tiering.model.tables import BucketKey, BucketOffsets, Offsets, TableInfo
from tiering.round.runner import LOG_REREADS
from tiering.round.steps import actions as act
from tiering.round.steps.actions import RoundOutcome


class RewritableCluster(MemoryCluster):
    """A cluster whose logs can be cut. `views` are the states that the next reads of the logs return, in order."""

    def __init__(self) -> None:
        super().__init__(TABLE)
        self.cuts: dict[BucketKey, list[int]] = {}
        self.views: list[dict[BucketKey, BucketOffsets]] = []
        self.settled = 0
        self.before_traces: Callable[[], None] = lambda: None

    def cut(self, bucket: BucketKey, at: int, grown_to: int) -> None:
        """Records from `at` on are lost, and others written in their place."""
        start, _ = self.logs[TABLE.table_id][bucket]
        self.logs[TABLE.table_id][bucket] = (start, grown_to)
        self.cuts.setdefault(bucket, []).append(at)

    def offsets(self, table: TableInfo) -> Mapping[BucketKey, BucketOffsets]:
        return self.views.pop(0) if self.views else super().offsets(table)

    def record_traces(self, table: TableInfo, offsets: Offsets) -> Mapping[BucketKey, str]:
        self.before_traces()
        logs = self.logs[table.table_id]
        return {bucket: self._trace(bucket, at - 1) for bucket, at in offsets.items() if logs[bucket][0] < at <= logs[bucket][1]}

    def settle(self, table: TableInfo) -> None:
        self.settled += 1

    def _trace(self, bucket: BucketKey, offset: int) -> str:
        return f"{offset} of generation {sum(at <= offset for at in self.cuts.get(bucket, []))}"


@pytest.fixture
def cluster() -> RewritableCluster:
    cluster = RewritableCluster()
    cluster.append(TABLE, 0, 7)
    cluster.append(TABLE, 1, 2)
    return cluster


@pytest.fixture
def scene(cluster: RewritableCluster) -> Scene:
    return Scene(cluster, MemoryLake(), Coordinator(), itertools.count(1))


def error_class(outcome: RoundOutcome) -> str | None:
    return None if outcome.error is None else outcome.error.error_class


@pytest.mark.parametrize(("cut_at", "grown_to"), [(0, 9), (6, 9), (6, 7)], ids=["wholly", "its last record", "to the same length"])
def test_a_log_that_was_cut_and_has_outgrown_the_lake_parks_the_table(
    scene: Scene, cluster: RewritableCluster, cut_at: int, grown_to: int
) -> None:
    scene.run()
    cluster.cut(B0, cut_at, grown_to)
    outcome = scene.run()
    assert error_class(outcome) == "LogRewritten"
    assert outcome.error is not None
    assert outcome.error.message.startswith("bucket 0 of sales.orders: the record at offset 6 is not the one that was tiered")
    assert "CALL sys.reconcile_lake('sales.orders', 'accept')" in outcome.error.hint
    assert len(scene.offsets_in_lake()) == 9


def test_an_idle_bucket_is_checked_by_each_later_round(scene: Scene, cluster: RewritableCluster) -> None:
    scene.run()
    cluster.append(TABLE, 1, 3)
    assert scene.run().state is RoundState.SUCCEEDED
    cluster.cut(B0, 3, 7)
    assert error_class(scene.run()) == "LogRewritten"


def test_a_log_that_was_cut_behind_the_lake_goes_on(scene: Scene, cluster: RewritableCluster) -> None:
    scene.run()
    cluster.append(TABLE, 0, 5)
    cluster.cut(B0, 7, 9)
    assert scene.run().state is RoundState.SUCCEEDED


def test_a_log_that_is_cut_between_the_looks_at_it_is_noticed(scene: Scene, cluster: RewritableCluster) -> None:
    scene.run()
    cluster.append(TABLE, 0, 2)
    looks = itertools.count(1)
    cluster.before_traces = lambda: cluster.cut(B0, 3, 9) if next(looks) == 2 else None
    assert error_class(scene.run()) == "LogRewritten"


def test_a_record_that_retention_removed_is_not_missed(scene: Scene, cluster: RewritableCluster) -> None:
    scene.run()
    cluster.logs[TABLE.table_id][B0] = (7, 9)
    assert scene.run().state is RoundState.SUCCEEDED


def test_a_record_that_cannot_be_read_now_fails_the_round_for_now(scene: Scene, cluster: RewritableCluster) -> None:
    scene.run()
    cluster.append(TABLE, 0, 1)

    def fail() -> None:
        raise ClusterUnavailable("the leader has moved")

    cluster.before_traces = fail
    outcome = scene.run()
    assert error_class(outcome) == "ClusterUnavailable"


def stopped_early(scene: Scene) -> RoundOutcome:
    """A round that had time for one batch of each bucket: all of bucket 1, and three records of bucket 0."""
    outcome = scene.run(max_duration_ms=0)
    assert outcome.state is RoundState.FORCE_FINISHED
    assert scene.offsets_in_lake() == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    return outcome


@pytest.mark.parametrize("cut_at", [0, 2])
def test_a_log_that_is_cut_below_where_a_round_stopped_early_parks_the_table(scene: Scene, cluster: RewritableCluster, cut_at: int) -> None:
    stopped_early(scene)
    cluster.cut(B0, cut_at, 9)
    outcome = scene.run()
    assert error_class(outcome) == "LogRewritten"
    assert outcome.error is not None
    assert "the record at offset 2 is not the one that was tiered" in outcome.error.message


def test_a_log_that_is_cut_behind_where_a_round_stopped_early_goes_on(scene: Scene, cluster: RewritableCluster) -> None:
    stopped_early(scene)
    cluster.cut(B0, 3, 9)
    assert scene.run().state is RoundState.SUCCEEDED
    assert len(scene.offsets_in_lake()) == 11


@pytest.mark.parametrize("look", [3, 4], ids=["before", "between"])
def test_a_log_that_is_cut_under_a_round_that_stops_early_leaves_nothing_of_it(scene: Scene, cluster: RewritableCluster, look: int) -> None:
    looks = itertools.count(1)
    cluster.before_traces = lambda: cluster.cut(B0, 1, 9) if next(looks) == look else None
    assert error_class(scene.run(max_duration_ms=0)) == "SourceChanged"
    assert not scene.lake.rows(TABLE.path)
    assert scene.run().state is RoundState.SUCCEEDED
    assert len(scene.offsets_in_lake()) == 11


def test_a_trace_that_nothing_confirms_is_left_out(scene: Scene, cluster: RewritableCluster) -> None:
    looks = itertools.count(1)

    def lose_the_end() -> None:
        if next(looks) == 3:
            cluster.cut(B0, 3, 5)

    cluster.before_traces = lose_the_end
    stopped_early(scene)
    view = scene.lake.view(TABLE.path)
    assert view is not None
    assert view.marker is not None
    assert view.marker.traces.keys() == {B1}


@pytest.mark.parametrize("error", [ClusterUnavailable("the leader has moved"), BaseException("a library's panic")])
def test_a_last_look_that_fails_costs_nothing_of_the_work(scene: Scene, cluster: RewritableCluster, error: BaseException) -> None:
    looks = itertools.count(1)

    def fail() -> None:
        if next(looks) == 3:
            raise error

    cluster.before_traces = fail
    stopped_early(scene)
    assert scene.run().state is RoundState.SUCCEEDED
    assert len(scene.offsets_in_lake()) == 9


def test_a_round_can_be_cancelled_at_its_last_look(scene: Scene) -> None:
    runner = scene.runner(max_duration_ms=0)
    while not isinstance(runner.next_action, act.ReadTraces):
        runner.advance()
    assert runner.cancel("ana cancelled it")
    outcome = runner.run()
    assert outcome.state is RoundState.CANCELLED
    assert not scene.lake.rows(TABLE.path)


def test_a_round_that_reads_all_looks_no_third_time(scene: Scene, cluster: RewritableCluster) -> None:
    looks = itertools.count()
    cluster.before_traces = lambda: None if next(looks) < 2 else pytest.fail("a third look")
    assert scene.run().state is RoundState.SUCCEEDED


@pytest.mark.parametrize(
    "view",
    [{B0: BucketOffsets(8, 9), B1: BucketOffsets(0, 2)}, {B0: BucketOffsets(0, 5), B1: BucketOffsets(0, 2)}],
    ids=["starts too late", "ends too early"],
)
def test_what_a_new_leader_says_first_does_not_park_a_table(
    scene: Scene, cluster: RewritableCluster, view: dict[BucketKey, BucketOffsets]
) -> None:
    scene.run()
    cluster.append(TABLE, 0, 2)
    cluster.views = [view]
    assert scene.run().state is RoundState.SUCCEEDED
    assert cluster.settled == 1
    assert len(scene.offsets_in_lake()) == 11


def test_what_stays_so_at_every_look_parks_it(scene: Scene, cluster: RewritableCluster) -> None:
    scene.run()
    cluster.logs[TABLE.table_id][B0] = (8, 9)
    assert error_class(scene.run()) == "LogTruncated"
    assert cluster.settled == LOG_REREADS


def test_a_first_round_does_not_begin_late_because_of_a_new_leader(scene: Scene, cluster: RewritableCluster) -> None:
    cluster.views = [{B0: BucketOffsets(5, 7), B1: BucketOffsets(0, 2)}]
    assert scene.run().state is RoundState.SUCCEEDED
    assert len(scene.offsets_in_lake()) == 9


def test_a_log_that_lost_its_start_before_the_first_round_is_begun_there(scene: Scene, cluster: RewritableCluster) -> None:
    cluster.logs[TABLE.table_id][B0] = (5, 7)
    assert scene.run().state is RoundState.SUCCEEDED
    assert cluster.settled == LOG_REREADS
    assert len(scene.offsets_in_lake()) == 4
