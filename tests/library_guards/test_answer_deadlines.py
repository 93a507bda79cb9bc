"""A caller goes on in time, whatever its library waits for."""

from __future__ import annotations

import threading
import time

import pytest

from tiering.library_guards.answer_deadlines import AnswerDeadlines

LONG = 30.0


def test_an_answer_in_time_and_an_error_are_passed_on() -> None:
    deadlines = AnswerDeadlines("the oracle")
    assert deadlines.within(LONG, "sum", lambda: 1 + 1) == 2
    with pytest.raises(ZeroDivisionError):
        deadlines.within(LONG, "ratio", lambda: 1 // 0)
    with pytest.raises(KeyboardInterrupt):
        deadlines.within(LONG, "panic", _interrupt)


def _interrupt() -> None:
    raise KeyboardInterrupt


def test_a_late_answer_costs_one_deadline_and_one_thread_and_no_other_caller() -> None:
    deadlines, hangs, threads = AnswerDeadlines("the oracle"), threading.Event(), []

    def hang() -> None:
        threads.append(threading.current_thread())
        hangs.wait(LONG)

    with pytest.raises(TimeoutError, match=r"the oracle has not answered within 0\.05 s"):
        deadlines.within(0.05, "sales.orders", hang)
    started = time.monotonic()
    with pytest.raises(TimeoutError, match="the oracle has not answered a request of 0 s ago yet"):
        deadlines.within(LONG, "sales.orders", hang)
    assert deadlines.within(LONG, "sales.other", lambda: "prompt") == "prompt"
    assert time.monotonic() - started < LONG / 2
    hangs.set()
    [thread] = threads
    thread.join(LONG)
    assert deadlines.within(LONG, "sales.orders", lambda: "again") == "again"


def test_a_question_within_a_question_is_its_part() -> None:
    deadlines = AnswerDeadlines("the oracle")
    threads = deadlines.within(LONG, "outer", lambda: (threading.get_ident(), deadlines.within(0.0, "outer", threading.get_ident)))
    assert threads[0] == threads[1]
