"""A task's reports come at most twice per second, and are always true."""

from __future__ import annotations

import random
import socket
from itertools import pairwise

import pytest

from tiering.model.splits import SplitState
from tiering.round.tasks.task_reports import REPORT_MS, TaskReport, TaskReports, executor_name


class Ticks:
    def __init__(self) -> None:
        self.ms = 0

    def now_ms(self) -> int:
        return self.ms


@pytest.mark.parametrize("seed", range(20))
def test_no_attempt_reports_more_than_twice_in_any_second(seed: int) -> None:
    rng, ticks, sent = random.Random(seed), Ticks(), list[tuple[int, TaskReport]]()
    reports = TaskReports(lambda report: sent.append((ticks.ms, report)), 0, "0@here", ticks.now_ms)
    for place in range(rng.randrange(1, 400)):
        reports.begin(place)
        for batch in range(rng.randrange(5)):
            ticks.ms += rng.choice((0, 1, 30, 999, 1_000, 5_000))
            reports.advance(batch + 1, batch + 1)
        reports.end(SplitState.DONE, 9)
    reports.close()
    reports.close()
    times = [at for at, _ in sent]
    assert max(sum(start <= at < start + 1_000 for at in times) for start in times) <= 2
    assert all(later - earlier >= REPORT_MS for earlier, later in pairwise(times[:-1]))
    assert (sent[0][1].position.state, sent[-1][1].position.state) == (SplitState.RUNNING, SplitState.DONE)
    assert sent[-1][1].ended == place + 1


def test_a_report_has_the_split_at_hand_and_those_before_it() -> None:
    ticks, sent = Ticks(), list[TaskReport]()
    reports = TaskReports(sent.append, 2, "0@here", ticks.now_ms)
    for place, state in ((7, SplitState.DONE), (8, SplitState.STOPPED), (9, SplitState.DONE)):
        ticks.ms += REPORT_MS
        reports.begin(place)
        reports.advance(5, 105)
        ticks.ms += REPORT_MS
        reports.end(state, None)
    assert [(report.first, report.ended, report.place, report.position.state.value) for report in sent] == [
        (7, 0, 7, "RUNNING"),
        (7, 1, 7, "DONE"),
        (7, 1, 8, "RUNNING"),
        (7, 1, 8, "STOPPED"),
        (7, 1, 9, "RUNNING"),  # the one before was not read to its end, so that nothing is said of it
        (7, 1, 9, "DONE"),
    ]
    assert {(report.position.attempt, report.position.executor) for report in sent} == {(2, "0@here")}
    assert [(report.position.records, report.position.current_offset) for report in sent[:2]] == [(0, None), (5, 105)]


def test_a_process_that_is_no_executor_is_named_by_its_id_and_host() -> None:
    name, _, host = executor_name().partition("@")
    assert (name.isdecimal(), host) == (True, socket.gethostname())
