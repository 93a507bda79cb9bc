"""A whole round against a cluster and a lake in memory: how it ends, and what is in the lake then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from support.clusters.memory_cluster import MemoryReader
from support.round_scene import B0, B1, TABLE, Scene, new_scene
from tiering.errors import Fenced, LogTruncated, RoundFailed, SourceChanged
from tiering.model.rounds import IN_THE_TIERER, Phase, RanOn, RecordedLakeSnapshot, RoundPlace, RoundState
from tiering.model.tables import TablePath
from tiering.round.ports import SplitTask, TaskOutcome, WorkLimits
from tiering.round.progress import RoundMeter
from tiering.round.runner import RoundRunner
from tiering.round.steps import actions as act
from tiering.round.steps.actions import RoundOutcome
from tiering.round.tasks.inline_runner import InlineTaskRunner


@pytest.fixture
def scene() -> Scene:
    return new_scene()


WHOLE = sorted([(0, offset) for offset in range(7)] + [(1, offset) for offset in range(2)])


def test_a_round_brings_every_record_into_the_lake_and_acks_the_marker_it_finds_there(scene: Scene) -> None:
    outcome = scene.run()
    assert (outcome.state, outcome.stats.records_written) == (RoundState.SUCCEEDED, 9)
    assert scene.offsets_in_lake() == WHOLE
    assert scene.coordinator.acks == [("round-1", outcome.lake_snapshot_id)]
    assert scene.coordinator.plans == [{B0: 7, B1: 2}]


def test_a_round_with_nothing_new_is_empty_and_creates_no_lake_table(scene: Scene) -> None:
    scene.cluster.logs[TABLE.table_id] = {B0: (0, 0), B1: (0, 0)}
    assert scene.run().state is RoundState.EMPTY
    assert scene.lake.tables == {}


def test_the_second_round_adds_only_what_is_new_and_links_to_the_first(scene: Scene) -> None:
    scene.run()
    scene.cluster.append(TABLE, 1, 3)
    outcome = scene.run()
    assert outcome.stats.records_written == 3
    assert len(scene.offsets_in_lake()) == 12
    assert scene.coordinator.grants[-1].base_round_id == "round-1"


def test_a_snapshot_carries_what_the_cluster_wants_in_it_also_when_its_request_is_sent_again(scene: Scene) -> None:
    scene.coordinator.snapshot_properties = {"fluss-offsets": "/remote/1.offsets"}
    faults = iter(["lost", "ok"])
    scene.lake.faults = lambda: next(faults)
    assert scene.run().state is RoundState.SUCCEEDED
    assert scene.lake.properties == {"round-1": {"fluss-offsets": "/remote/1.offsets"}}


def test_a_round_opens_no_reader_beside_those_of_its_splits(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record to compare with is looked up only after one failed: on Fluss it costs a look at the whole table."""
    scene.run()
    scene.cluster.append(TABLE, 0, 3)
    scene.cluster.append(TABLE, 1, 1)
    opened: list[int] = []
    reader = scene.cluster.reader

    def counting(table: Any, split: Any) -> Any:
        opened.append(split.starting_offset)
        return reader(table, split)

    monkeypatch.setattr(scene.cluster, "reader", counting)
    assert scene.run().state is RoundState.SUCCEEDED
    assert opened == [7, 2]


def test_a_refused_fence_ends_the_round_and_deletes_its_files(scene: Scene) -> None:
    scene.coordinator.refuse = Fenced("an older epoch")
    outcome = scene.run()
    assert (outcome.state, outcome.phase) == (RoundState.FENCED, Phase.FENCE)
    assert scene.offsets_in_lake() == []
    assert len(scene.lake.deleted) == 2


def test_a_commit_whose_answer_was_lost_is_found_by_its_round_id(scene: Scene) -> None:
    scene.lake.faults = lambda: "answer lost"
    assert scene.run().state is RoundState.SUCCEEDED
    assert scene.offsets_in_lake() == WHOLE
    assert scene.lake.deleted == []


def test_a_commit_that_never_arrived_is_sent_again(scene: Scene) -> None:
    faults = iter(["lost", "lost", "ok"])
    scene.lake.faults = lambda: next(faults)
    assert scene.run().state is RoundState.SUCCEEDED
    assert scene.offsets_in_lake() == WHOLE


def test_a_late_request_and_its_repetition_land_once(scene: Scene) -> None:
    def deliver_then_send() -> str:
        scene.lake.deliver_late()
        return "ok"

    faults = iter([lambda: "late", deliver_then_send])
    scene.lake.faults = lambda: next(faults)()
    assert scene.run().state is RoundState.SUCCEEDED
    assert scene.offsets_in_lake() == WHOLE


def test_a_commit_that_never_goes_through_fails_the_round_and_deletes_nothing(scene: Scene) -> None:
    scene.lake.faults = lambda: "late"
    outcome = scene.run()
    assert outcome.state is RoundState.FAILED
    assert outcome.error is not None
    assert outcome.error.error_class == "CommitOutcomeUnknown"
    assert scene.lake.deleted == []
    assert "it was sent 5 times, but the lake does not show it" in outcome.error.message
    assert "other commits" not in outcome.error.message  # no other tierer was there
    while scene.lake.late:
        scene.lake.deliver_late()
    assert scene.offsets_in_lake() == WHOLE


def test_a_compaction_between_base_and_commit_is_built_upon(scene: Scene) -> None:
    scene.run()
    scene.cluster.append(TABLE, 0, 1)
    scene.coordinator.at_fence = lambda: scene.lake.foreign_commit(TABLE.path)
    assert scene.run().state is RoundState.SUCCEEDED
    assert len(scene.offsets_in_lake()) == 10


def test_of_two_rounds_on_one_base_the_second_to_commit_is_fenced(scene: Scene) -> None:
    slow = scene.runner()
    fast_done: list[RoundOutcome] = []

    def another_tierer_tiers() -> None:
        scene.coordinator.at_fence = lambda: None
        fast_done.append(scene.run())

    scene.coordinator.at_fence = another_tierer_tiers
    outcome = slow.run()
    assert (fast_done[0].state, outcome.state) == (RoundState.SUCCEEDED, RoundState.FENCED)
    assert scene.offsets_in_lake() == WHOLE
    assert scene.lake.deleted == []


def test_a_lake_that_is_ahead_is_adopted_before_the_round_goes_on(scene: Scene) -> None:
    scene.coordinator.lose_acks = True
    first = scene.run()
    assert first.state is RoundState.SUCCEEDED
    scene.coordinator.lose_acks = False
    scene.cluster.append(TABLE, 0, 2)
    second = scene.run()
    assert scene.coordinator.acks == [("round-1", first.lake_snapshot_id), ("round-2", second.lake_snapshot_id)]
    assert len(scene.offsets_in_lake()) == 11


def test_a_record_ahead_of_the_lake_is_permanent_and_skips_nothing(scene: Scene) -> None:
    outcome = scene.run(recorded=RecordedLakeSnapshot(99, {B0: 5}))
    assert outcome.state is RoundState.FAILED
    assert outcome.error is not None
    assert (outcome.error.error_class, outcome.error.retryable) == ("MarkerLost", False)
    assert scene.lake.tables == {}


def test_another_table_of_the_same_name_is_not_tiered(scene: Scene) -> None:
    outcome = scene.run(table_id=99)
    assert outcome.error is not None
    assert outcome.error.error_class == "UnknownTable"


def test_a_table_that_cannot_be_tiered_says_why_and_is_not_tried_again(scene: Scene) -> None:
    scene.cluster.by_path[TABLE.path] = replace(TABLE, refusal="column 'odd' has the Fluss type VARIANT")
    outcome = scene.run()
    assert outcome.state is RoundState.FAILED
    assert outcome.error is not None
    assert (outcome.error.error_class, outcome.error.retryable) == ("UnsupportedType", False)
    assert "VARIANT" in outcome.error.message


def test_a_cancel_before_the_fence_ends_the_round_without_a_trace(scene: Scene) -> None:
    runner = scene.runner()
    runner.cancel("tierer stopped")
    outcome = runner.run()
    assert outcome.state is RoundState.CANCELLED
    assert scene.offsets_in_lake() == []


def test_a_cancel_after_the_grant_comes_too_late(scene: Scene) -> None:
    runner = scene.runner()

    def cancel_and_send() -> str:
        runner.cancel("too late")
        return "ok"

    scene.lake.faults = cancel_and_send
    assert runner.run().state is RoundState.SUCCEEDED
    assert scene.offsets_in_lake() == WHOLE


def test_a_round_past_its_maximum_duration_commits_a_prefix_and_is_force_finished(scene: Scene) -> None:
    outcome = scene.run(max_duration_ms=0)
    assert outcome.state is RoundState.FORCE_FINISHED
    assert scene.offsets_in_lake() == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    while outcome.state is not RoundState.EMPTY:
        outcome = scene.run(max_duration_ms=0)
    assert scene.offsets_in_lake() == WHOLE


def test_a_table_that_another_tierer_tiered_while_its_first_round_was_planned_is_left_alone(scene: Scene) -> None:
    slow = scene.runner()
    ensure = scene.lake.ensure_table

    def tiered_meanwhile(table: object, *, may_create: bool) -> object:
        assert may_create
        scene.lake.ensure_table = ensure  # type: ignore[method-assign]
        scene.run()
        return ensure(TABLE)

    scene.lake.ensure_table = tiered_meanwhile  # type: ignore[method-assign, assignment]
    assert slow.run().state is RoundState.FENCED
    assert scene.offsets_in_lake() == WHOLE


def test_no_lake_table_is_made_in_the_place_of_one_that_vanishes_while_a_round_plans(scene: Scene) -> None:
    """A user who renamed the table finds its name free to rename it back, as the hint says."""
    scene.run()
    scene.cluster.append(TABLE, 1, 3)
    late = scene.runner()
    while not isinstance(late.next_action, act.EnsureLakeTable):
        assert late.advance() is None
    scene.lake.rename(TABLE.path, TablePath("sales", "elsewhere"))

    outcome = late.run()

    assert outcome.error is not None
    assert (outcome.state, outcome.error.error_class) == (RoundState.FAILED, "LakeTableReplaced")
    assert scene.lake.view(TABLE.path) is None
    scene.lake.rename(TablePath("sales", "elsewhere"), TABLE.path)
    assert scene.run().state is RoundState.SUCCEEDED
    assert len(scene.offsets_in_lake()) == 12


def test_several_splits_of_one_bucket_are_committed_together(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiering.planning.plan_splits.SPLIT_BYTES", 16)
    outcome = scene.run()
    assert (outcome.state, outcome.stats.splits) == (RoundState.SUCCEEDED, 5)
    assert scene.offsets_in_lake() == WHOLE


def test_an_early_stop_never_leaves_a_gap_between_the_splits_of_a_bucket(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiering.planning.plan_splits.SPLIT_BYTES", 16)
    outcome = scene.run(max_duration_ms=0)
    assert outcome.state is RoundState.FORCE_FINISHED
    while outcome.state is not RoundState.EMPTY:
        in_lake = scene.offsets_in_lake()
        assert in_lake == [offset for offset in WHOLE if offset in in_lake]
        for number in (0, 1):
            offsets = [offset for at, offset in in_lake if at == number]
            assert offsets == list(range(len(offsets)))
        outcome = scene.run(max_duration_ms=0)
    assert scene.offsets_in_lake() == WHOLE


def test_a_log_that_is_cut_while_it_is_read_is_looked_at_anew_by_the_next_round(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next round knows whether anything was lost: this table was never tiered, and begins later."""

    def cut(self: MemoryReader) -> Iterator[pa.RecordBatch]:
        raise LogTruncated("the log was cut while it was read")
        yield

    with monkeypatch.context() as during_the_round:
        during_the_round.setattr(MemoryReader, "read", cut)
        outcome = scene.run()
    assert (outcome.state, outcome.phase) == (RoundState.FAILED, Phase.READ)
    assert isinstance(outcome.error, SourceChanged)
    assert outcome.error.retryable
    assert not scene.lake.files
    scene.cluster.logs[TABLE.table_id][B0] = (5, 7)
    assert scene.run().state is RoundState.SUCCEEDED


class Panic(BaseException):
    """A panic like those of libraries in Rust: no `Exception`."""


def panicking(*_: object, **__: object) -> None:
    raise Panic("not aligned")


@pytest.mark.parametrize("step", ["table", "offsets"])
def test_a_panic_in_a_step_fails_the_round(scene: Scene, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    monkeypatch.setattr(scene.cluster, step, panicking)
    outcome = scene.run()
    assert outcome.error is not None
    assert (outcome.state, outcome.error.error_class, outcome.error.retryable) == (RoundState.FAILED, "Panic", True)


def test_a_panic_in_a_split_fails_the_round_and_leaves_no_file(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object) -> Iterator[None]:
        yield panicking()

    monkeypatch.setattr("support.clusters.memory_cluster.MemoryReader.read", read)
    outcome = scene.run()
    assert outcome.error is not None
    assert (outcome.state, outcome.phase, outcome.error.message) == (RoundState.FAILED, Phase.READ, "Panic: not aligned")
    assert scene.lake.files == {}


def test_a_defect_between_two_actions_is_an_outcome(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiering.round.steps.steps_to_write.plan_round", panicking)
    outcome = scene.run()
    assert outcome.error is not None
    assert (outcome.state, outcome.error.error_class) == (RoundState.FAILED, "Panic")


def test_leases_that_cannot_be_released_do_not_change_the_outcome(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = scene.runner()
    monkeypatch.setattr("tiering.round.lease_keeper.LeaseKeeper.release", panicking)
    assert runner.run().state is RoundState.SUCCEEDED


def test_a_cancel_says_whether_it_came_in_time(scene: Scene) -> None:
    runner = scene.runner()
    assert runner.cancel("enough")
    assert runner.run().state is RoundState.CANCELLED
    assert not runner.cancel("again")
    late = scene.runner()
    while not late.granted:
        late.advance()
    assert not late.cancel("too late")
    assert late.run().state is RoundState.SUCCEEDED


ON_SPARK = RoundPlace(RanOn.SPARK, "app-1", 3)


class CountingTaskRunner(InlineTaskRunner):
    """Counts the rounds whose tasks it ran, which it says to have run at `place`."""

    def __init__(self, place: RoundPlace = IN_THE_TIERER, error: RoundFailed | None = None) -> None:
        super().__init__()
        self.rounds = 0
        self._place = place
        self._error = error

    def run(self, round_id: str, tasks: Sequence[SplitTask], limits: WorkLimits, meter: RoundMeter) -> Sequence[TaskOutcome]:
        self.rounds += 1
        meter.place = self._place
        if self._error is not None:
            raise self._error
        return super().run(round_id, tasks, limits, meter)


@pytest.mark.parametrize(("bytes_per_record", "inline_rounds"), [(8.0, 1), (1e9, 0), (None, 0)])
def test_a_round_runs_inline_only_if_it_is_known_to_be_small(scene: Scene, bytes_per_record: float | None, inline_rounds: int) -> None:
    inline, spark = CountingTaskRunner(), CountingTaskRunner(ON_SPARK)
    scene.cluster.bytes_per_record = bytes_per_record
    scene.cluster.append(TABLE, 0, 3)
    world = replace(scene.world(), inline=inline, spark=spark, inline_round_bytes=1_000)
    outcome = RoundRunner(world, scene.assignment()).run()
    assert (outcome.state, outcome.stats.place) == (RoundState.SUCCEEDED, IN_THE_TIERER if inline_rounds else ON_SPARK)
    assert (inline.rounds, spark.rounds) == (inline_rounds, 1 - inline_rounds)


def test_a_failed_round_says_where_it_ran_and_an_empty_one_ran_nowhere(scene: Scene) -> None:
    scene.cluster.append(TABLE, 0, 3)
    world = replace(scene.world(), spark=CountingTaskRunner(ON_SPARK, RoundFailed("no executor")), inline_round_bytes=0)
    failed = RoundRunner(world, scene.assignment()).run()
    assert (failed.state, failed.stats.place) == (RoundState.FAILED, ON_SPARK)
    assert scene.run().stats.place == IN_THE_TIERER
    empty = scene.run()
    assert (empty.state, empty.stats.place) == (RoundState.EMPTY, None)


def test_a_cluster_that_never_heard_of_the_lake_is_told_by_the_next_round_though_nothing_is_new(scene: Scene) -> None:
    first = scene.run()
    assert first.lake_snapshot_id is not None
    known = RecordedLakeSnapshot(first.lake_snapshot_id, {B0: 7, B1: 2})
    assert scene.run(recorded=known).state is RoundState.EMPTY
    assert [round_id for round_id, _ in scene.coordinator.acks] == ["round-1", "round-1"]
    scene.cluster.recorded[TABLE.table_id] = known
    assert scene.run(recorded=known).state is RoundState.EMPTY
    assert len(scene.coordinator.acks) == 2


def test_a_round_asks_the_cluster_for_nothing_twice_that_nothing_looks_at(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question is a round trip. The lake record is read for the base check, and for the outcome of the commit."""
    questions: Counter[str] = Counter()
    for name in ("table", "lake_snapshot", "offsets", "partitions"):
        monkeypatch.setattr(scene.cluster, name, _counted(questions, name, getattr(scene.cluster, name)))
    assert scene.run().state is RoundState.SUCCEEDED
    assert questions == {"table": 1, "lake_snapshot": 2, "offsets": 1}  # no partitions of a table that has none


def _counted(questions: Counter[str], name: str, answer: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def counting(about: Any) -> Any:
        questions[name] += 1
        return answer(about)

    return counting
