"""How far a round is while it runs: counted by its tasks, reported about once a second, never back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pytest

from support.clusters.memory_cluster import MemoryReader
from support.round_scene import TABLE, Scene, new_scene
from support.running.processes import wait_for
from tiering.model.rounds import RoundProgress, RoundState
from tiering.model.splits import SplitPosition, SplitState
from tiering.round.progress import ENDED_TASK_MS, REPORT_MS, IdleTime, ProgressPulse, RoundMeter

BATCH_MS = 700
"""How long each batch of a slow table takes."""


class Ticks:
    """A steady clock that the test moves."""

    def __init__(self) -> None:
        self.ms = 0

    def monotonic_ms(self) -> int:
        return self.ms


@pytest.fixture
def ticks() -> Ticks:
    return Ticks()


def metered(ticks: Ticks, *expected: int) -> tuple[RoundMeter, list[RoundProgress]]:
    reports: list[RoundProgress] = []
    return RoundMeter(expected, ticks.monotonic_ms, lambda reading: reports.append(reading.progress)), reports


def at(records: int, attempt: int = 0) -> SplitPosition:
    return SplitPosition(SplitState.RUNNING, attempt, "0@here", records, records)


DONE = SplitPosition(SplitState.DONE)


def test_a_slow_task_shows_how_far_it_is_at_least_every_two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    scene: Scene = new_scene()
    scene.cluster.append(TABLE, 0, 60)
    heard: list[tuple[int, RoundProgress]] = []
    scene.coordinator.on_progress = lambda progress: heard.append((scene.clock.ms, progress))
    read = MemoryReader.read

    def slowly(reader: MemoryReader) -> Iterator[pa.RecordBatch]:
        for batch in read(reader):
            scene.clock.ms += BATCH_MS
            yield batch

    monkeypatch.setattr(MemoryReader, "read", slowly)
    assert scene.run().state is RoundState.SUCCEEDED
    times = [at for at, _ in heard]
    assert max(later - earlier for earlier, later in pairwise(times)) <= 2_000
    fractions = [progress.fraction for _, progress in heard]
    assert fractions == sorted(fractions, key=lambda fraction: fraction or 0.0)
    assert (fractions[0], fractions[-1]) == (0.0, 1.0)
    within_the_first_task = [progress for _, progress in heard if progress.splits_done == 0 and progress.records_done > 0]
    assert len(within_the_first_task) > 3
    assert heard[-1][1] == RoundProgress(2, 2, 69, 69)


def test_an_ended_task_is_reported_at_once_and_many_of_them_together(ticks: Ticks) -> None:
    meter, reports = metered(ticks, *[10] * 50)
    meter.report()
    ticks.ms += ENDED_TASK_MS
    meter.move(DONE, 0)
    assert reports[-1] == RoundProgress(1, 50, 10, 500)
    for task in range(1, 50):
        meter.move(DONE, task)
    assert len(reports) == 2
    meter.report()
    assert reports[-1] == RoundProgress(50, 50, 500, 500)


def test_a_task_that_is_run_again_does_not_take_the_count_back(ticks: Ticks) -> None:
    meter, reports = metered(ticks, 100)
    meter.move(at(70), 0)
    ticks.ms += REPORT_MS
    meter.move(at(10, attempt=1), 0)
    ticks.ms += REPORT_MS
    meter.move(at(80, attempt=1), 0)
    assert [progress.records_done for progress in reports] == [70, 70, 80]


def test_more_records_than_expected_leave_a_task_at_its_share(ticks: Ticks) -> None:
    meter, _ = metered(ticks, 100, 100)
    meter.move(at(1_000), 0)
    assert meter.progress.fraction == 0.5


def test_where_only_the_number_of_ended_tasks_is_known_the_smallest_are_counted(ticks: Ticks) -> None:
    meter, _ = metered(ticks, 30, 10, 20)
    meter.end_at_least(2)
    assert meter.progress == RoundProgress(2, 3, 30, 60)
    meter.end_at_least(1)
    meter.move(DONE, 0)
    assert meter.progress == RoundProgress(2, 3, 30, 60)


def test_a_round_without_records_goes_by_its_splits() -> None:
    assert RoundProgress(1, 4, 0, 0).fraction == 0.25
    assert RoundProgress().fraction is None


def test_a_change_before_a_lull_is_passed_on_all_the_same(ticks: Ticks) -> None:
    meter, reports = metered(ticks, 100)
    with ProgressPulse().during(meter):
        wait_for("the first reading", lambda: reports)
        meter.move(at(70), 0)
        assert [progress.records_done for progress in reports] == [0]
        ticks.ms += REPORT_MS
        wait_for("the reading without a request", lambda: reports[-1].records_done == 70)


def test_a_lull_is_known_of_tasks_that_were_heard_of_and_are_not_over(ticks: Ticks) -> None:
    meter, _ = metered(ticks, 100, 100, 100)
    ticks.ms = 5_000
    meter.end_at_least(1)
    assert meter.idle_time == IdleTime(0, ()), "no task has reported: tasks may work without a report"
    ticks.ms = 9_000
    meter.move(at(10), 0)
    meter.move(replace(at(10), executor="1@there"), 1)
    ticks.ms = 12_000
    assert meter.idle_time == IdleTime(3_000, ("0@here", "1@there"))
    meter.move(at(10), 0)
    assert meter.idle_time.ms == 3_000, "a repeat is no progress"
    meter.move(DONE, 0)
    assert meter.idle_time == IdleTime(0, ("1@there",))
    meter.move(at(20), 1)
    meter.move(DONE, 1)
    ticks.ms = 90_000
    assert meter.idle_time.executors == (), "the third waits for an executor"
