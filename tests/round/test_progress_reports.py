"""How a round's progress gets to the coordinator: a call at a time, bounded, only what changed, and without harm to the round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from support.clusters.memory_cluster import MemoryReader
from support.round_scene import TABLE
from tiering.lake.base import WriterInitContext
from tiering.model.rounds import Assignment, Phase, RoundProgress
from tiering.model.splits import SplitPosition, SplitState, TieringLogSplit, TieringSnapshotSplit
from tiering.model.tables import BucketKey
from tiering.round.messages import progress_to_pb
from tiering.round.ports import ProgressReport, ReportAnswer, SplitTask
from tiering.round.progress import MeterReading, RoundMeter
from tiering.round.progress_reports import REPORT_TASKS, ProgressReports, splits_of

RUNNING = SplitPosition(SplitState.RUNNING, 0, "3@worker", 40, 40)
MESSAGE_LIMIT = 4 * 1024 * 1024


def split_task(bucket: int = 0, name: str | None = None, with_snapshot: bool = False) -> SplitTask:
    key = BucketKey(None if name is None else 2**40, bucket)
    split = TieringLogSplit(TABLE.path, key, name, 10, 100, 120)
    snapshot = MemoryReader(TABLE, TieringSnapshotSplit(TABLE.path, key, name, 7, 10, 120)) if with_snapshot else None
    context = WriterInitContext(TABLE, "uuid", key, name, "round-1", "nonce")
    factory: Any = None  # nothing is written here
    return SplitTask(MemoryReader(TABLE, split), split, factory, context, snapshot=snapshot)


class Wire:
    """Where reports go; the test answers them."""

    def __init__(self) -> None:
        self.sent: list[ProgressReport] = []
        self.open: list[Callable[[ReportAnswer], None]] = []

    def send(self, report: ProgressReport, answered: Callable[[ReportAnswer], None]) -> None:
        self.sent.append(report)
        self.open.append(answered)

    def answer(self, answer: ReportAnswer = ReportAnswer.TAKEN) -> None:
        self.open.pop(0)(answer)

    def numbers(self) -> list[int]:
        """Numbers of the last report."""
        return [number for number, _ in self.sent[-1].splits]


def reading(*changed: int, position: SplitPosition = RUNNING) -> MeterReading:
    return MeterReading(RoundProgress(0, 9, len(changed), 9), dict.fromkeys(changed, position))


def reports(wire: Wire, tasks: int = 5) -> ProgressReports:
    return ProgressReports(wire.send, 1, [split_task(bucket) for bucket in range(tasks)])


def test_only_what_changed_is_sent_and_one_call_at_a_time() -> None:
    wire = Wire()
    sender = reports(wire)
    sender.pass_on(reading(*range(5)))
    assert (wire.numbers(), wire.sent[0].run, wire.sent[0].splits_told) == ([0, 1, 2, 3, 4], 1, 0)
    sender.pass_on(reading(1))
    sender.pass_on(reading(3))
    assert len(wire.sent) == 1
    wire.answer()
    assert (wire.numbers(), wire.sent[-1].splits_told) == ([1, 3], 5)
    wire.answer()
    assert len(wire.sent) == 2


def test_a_large_round_is_told_in_pages_that_each_fit_a_message() -> None:
    wire, name, executor = Wire(), "p" * 200, "e" * 255
    tasks = [split_task(bucket, name, with_snapshot=True) for bucket in range(20_000)]
    sender = ProgressReports(wire.send, 1, tasks)
    position = replace(RUNNING, executor=executor, current_offset=2**62, records=2**62)
    sender.pass_on(reading(*range(20_000), position=position))
    while wire.open:
        wire.answer()
    assert len(wire.sent) == 20_000 / REPORT_TASKS
    assert sorted(number for report in wire.sent for number, _ in report.splits) == list(range(40_000))
    assert [report.splits_told for report in wire.sent] == [page * 2 * REPORT_TASKS for page in range(len(wire.sent))]
    assignment = Assignment(7, TABLE.path, 3, 1, "round-1")
    assert progress_to_pb(assignment, "t", Phase.WRITE, wire.sent[0]).ByteSize() < MESSAGE_LIMIT / 2


def test_what_a_lost_call_carried_comes_with_the_next_reading_and_not_before() -> None:
    wire = Wire()
    sender = reports(wire)
    sender.pass_on(reading(0, 1))
    sender.pass_on(reading(2))
    wire.answer(ReportAnswer.LOST)
    assert len(wire.sent) == 1
    sender.pass_on(reading(3))
    assert (wire.numbers(), wire.sent[-1].splits_told) == ([0, 1, 2, 3], 0)


def test_a_coordinator_that_forgot_is_told_all_again() -> None:
    wire = Wire()
    sender = reports(wire)
    sender.pass_on(reading(*range(5)))
    wire.answer()
    sender.pass_on(reading(2, position=replace(RUNNING, records=41)))
    wire.answer(ReportAnswer.SEND_ALL)
    assert (wire.numbers(), wire.sent[-1].splits_told) == ([0, 1, 3, 4], 1)
    wire.answer()
    assert not wire.open


def test_a_coordinator_that_refuses_gets_no_more_reports() -> None:
    wire = Wire()
    sender = reports(wire)
    sender.pass_on(reading(*range(5)))
    wire.answer(ReportAnswer.REFUSED)
    sender.pass_on(reading(1))
    assert len(wire.sent) == 1


def test_a_transport_that_raises_harms_no_task() -> None:
    attempts = []

    def broken(report: ProgressReport, answered: Callable[[ReportAnswer], None]) -> None:
        attempts.append(report)
        raise ValueError("the channel is closed")

    sender = ProgressReports(broken, 1, [split_task()])
    meter = RoundMeter([10], lambda: 0, sender.pass_on)
    meter.report()
    meter.move(replace(RUNNING, records=9), 0)
    meter.report()
    assert len(attempts) == 2


def test_a_task_with_a_snapshot_has_two_splits_that_follow_each_other() -> None:
    task = split_task(with_snapshot=True)

    def shown(position: SplitPosition) -> list[tuple[str, int | None, float]]:
        return [(split.position.state.value, split.current_offset, split.fraction) for split in splits_of(task, position)]

    assert shown(SplitPosition()) == [("QUEUED", None, 0.0), ("QUEUED", 10, 0.0)]
    within = SplitPosition(SplitState.RUNNING, 1, "e", None, 5)
    assert shown(within) == [("RUNNING", None, 0.5), ("QUEUED", 10, 0.0)]
    assert [split.position.attempt for split in splits_of(task, within)] == [1, 1]
    assert shown(replace(within, current_offset=55, records=60)) == [("DONE", None, 1.0), ("RUNNING", 55, 0.5)]
    assert shown(replace(within, state=SplitState.FAILED)) == [("FAILED", None, 0.5), ("QUEUED", 10, 0.0)]
    assert shown(replace(within, state=SplitState.DONE)) == [("DONE", None, 1.0), ("DONE", 100, 1.0)]
    assert len({split.split.split_id for split in splits_of(task, within)}) == 2
