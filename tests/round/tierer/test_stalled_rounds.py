"""A round whose splits hang is given up: the table goes on, and what the round still writes is never committed."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from support.clusters.memory_cluster import MemoryReader
from support.round_scene import TABLE, Scene, new_scene
from support.worlds.lake_world import FRESHNESS_S, LakeWorld, SteppedRound
from tiering.cluster.embedded.log.split_reader import EmbeddedSplitReader
from tiering.errors import RoundStalled
from tiering.model.rounds import Phase, RoundState
from tiering.model.tables import TableInfo
from tiering.round.messages import RoundReport, report_to_pb
from tiering.round.runner import RoundRunner
from tiering.round.steps import actions as act

AFTER_MS = 60_000


class Hang:
    """Reads of a kind of reader hang while it is set up: `begun` once one does, until `over`."""

    def __init__(self, reader: type[MemoryReader | EmbeddedSplitReader], method: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.over = threading.Event(), threading.Event()
        self._hangs = True
        read = getattr(reader, method)

        def hanging(reader: object, *arguments: object) -> Iterator[pa.RecordBatch]:
            if self._hangs:
                self.begun.set()
                assert self.over.wait(30)
            yield from read(reader, *arguments)

        monkeypatch.setattr(reader, method, hanging)

    def end_for_others(self) -> None:
        """Reads that begin from now on go well."""
        self._hangs = False


class Running:
    """A round on a thread of its own."""

    def __init__(self, runner: RoundRunner) -> None:
        self.outcomes: list[act.RoundOutcome] = []
        self._thread = threading.Thread(target=lambda: self.outcomes.append(runner.run()), daemon=True)
        self._thread.start()

    def end(self) -> act.RoundOutcome:
        self._thread.join(30)
        [outcome] = self.outcomes
        return outcome


@pytest.fixture
def scene() -> Scene:
    return new_scene()


@pytest.fixture
def hang(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hang]:
    new_hang = Hang(MemoryReader, "read", monkeypatch)
    yield new_hang
    new_hang.over.set()


def test_a_round_whose_splits_hang_is_given_up_and_commits_nothing_once_they_go_on(scene: Scene, hang: Hang) -> None:
    scene.cluster.append(TABLE, 0, 60)
    runner = scene.runner()
    running = Running(runner)
    assert hang.begun.wait(30)
    scene.clock.ms += AFTER_MS - 1
    assert runner.give_up(AFTER_MS) is None
    scene.clock.ms += 1
    outcome = runner.give_up(AFTER_MS)
    assert outcome is not None
    assert isinstance(outcome.error, RoundStalled)
    assert (outcome.state, outcome.phase, outcome.error.retryable) == (RoundState.FAILED, Phase.WRITE, True)
    assert "made no progress for 1 min; last reported by driver@" in outcome.error.message
    assert "--stalled-after" in outcome.error.hint

    hang.over.set()
    late = running.end()
    assert (late.state, late.error) == (RoundState.FAILED, outcome.error)
    assert (scene.coordinator.grants, scene.offsets_in_lake()) == ([], [])


def test_a_round_that_moves_on_is_not_given_up(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it takes, as long as its batches come."""
    scene.cluster.append(TABLE, 0, 60)
    runner = scene.runner()
    read, given_up = MemoryReader.read, []

    def slowly(reader: MemoryReader) -> Iterator[pa.RecordBatch]:
        for batch in read(reader):
            scene.clock.ms += AFTER_MS - 1
            given_up.append(runner.give_up(AFTER_MS))
            yield batch

    monkeypatch.setattr(MemoryReader, "read", slowly)
    assert runner.run().state is RoundState.SUCCEEDED
    assert set(given_up) == {None}
    assert len(given_up) > 1


def test_a_round_that_passed_the_fence_is_never_given_up(scene: Scene) -> None:
    runner = scene.runner()
    while not isinstance(runner.next_action, act.CommitLake):
        assert runner.advance() is None
    scene.clock.ms += AFTER_MS
    assert runner.give_up(AFTER_MS) is None
    assert runner.run().state is RoundState.SUCCEEDED


def test_a_round_that_waits_for_something_else_is_not_given_up(scene: Scene) -> None:
    runner = scene.runner()
    while not isinstance(runner.next_action, act.RunSplits):
        assert runner.advance() is None
    scene.clock.ms += AFTER_MS
    assert runner.give_up(AFTER_MS) is None, "none of its splits was heard of yet"
    assert runner.run().state is RoundState.SUCCEEDED


def tell(world: LakeWorld, stalled: SteppedRound, outcome: act.RoundOutcome) -> None:
    world.beat(failed_tables=[report_to_pb(RoundReport(stalled.assignment, outcome))])


def test_the_table_goes_on_elsewhere_and_has_every_row_once(world: LakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    table: TableInfo = world.table("orders")
    world.append(table, 0, 40)
    world.due()
    stalled = world.begin(table)
    hang = Hang(EmbeddedSplitReader, "read_counted", monkeypatch)
    running = Running(stalled.runner)
    try:
        assert hang.begun.wait(30)
        hang.end_for_others()
        world.clock.advance(AFTER_MS / 1_000)
        outcome = stalled.runner.give_up(AFTER_MS)
        assert outcome is not None
        tell(world, stalled, outcome)
        error = world.record(table).error
        assert error is not None
        assert (error.error_class, error.retryable) == ("RoundStalled", True)

        world.append(table, 40, 20)
        world.clock.advance(FRESHNESS_S)
        world.due()
        assert world.begin(table).end().state is RoundState.SUCCEEDED
        before = world.view(table).head
    finally:
        hang.over.set()
    assert running.end().state is RoundState.FAILED
    assert world.view(table).head == before
    assert world.assert_exact(table).num_rows == 60
    assert world.record(table).error is None
