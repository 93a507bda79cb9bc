"""Ctrl-C ends a query of the offline engine, also one that has not begun yet."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, cast

import duckdb
import pytest

from support.running.processes import wait_for
from sys_tables.offline.answers import queried

LONG = "SELECT count(*) FROM range(9999999999999) AS t(i) WHERE i % 7 = 1"


def functions(frame: FrameType | None) -> Iterator[str]:
    """Names of the functions that a thread is in."""
    while frame is not None:
        yield frame.f_code.co_name
        frame = frame.f_back


class ToldOfTheEnd:
    """A connection with an event for the end of its query."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self.ended = threading.Event()

    def execute(self, sql: str) -> duckdb.DuckDBPyConnection:
        try:
            return self._connection.execute(sql)
        finally:
            self.ended.set()

    def interrupt(self) -> None:
        self._connection.interrupt()


class BeginsLate:
    """A connection whose query begins once the first interrupt is over."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._interrupted = threading.Event()

    def execute(self, sql: str) -> duckdb.DuckDBPyConnection:
        main = threading.main_thread().ident or 0
        wait_for("the main thread waits for the query", lambda: "result" in functions(sys._current_frames()[main]))
        signal.pthread_kill(main, signal.SIGINT)
        self._interrupted.wait()
        return self._connection.execute(sql)

    def interrupt(self) -> None:
        self._connection.interrupt()
        self._interrupted.set()


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, also where a shell script started the tests in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def gave_up() -> Iterator[Callable[[duckdb.DuckDBPyConnection], threading.Event]]:
    """Ends the query of a connection after a minute, and says with an event that it did."""
    timers: list[threading.Timer] = []

    def watch(connection: duckdb.DuckDBPyConnection) -> threading.Event:
        event = threading.Event()

        def give_up() -> None:
            event.set()
            connection.interrupt()

        timers.append(threading.Timer(60, give_up))
        timers[-1].start()
        return event

    yield watch
    for timer in timers:
        timer.cancel()


@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupt_before_the_query_begins_ends_it(gave_up: Callable[[duckdb.DuckDBPyConnection], threading.Event]) -> None:
    with duckdb.connect() as connection:
        late = gave_up(connection)
        with pytest.raises(KeyboardInterrupt):
            queried(cast(Any, BeginsLate(connection)), LONG)
    assert not late.is_set()


def test_an_interrupt_while_the_thread_of_the_query_starts_ends_it(
    gave_up: Callable[[duckdb.DuckDBPyConnection], threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def start_interrupted(thread: threading.Thread) -> None:
        start(thread)
        if thread.name.startswith("duckdb"):
            wait_for("the query runs", lambda: "execute" in functions(sys._current_frames().get(thread.ident or 0)))
            raise KeyboardInterrupt

    with duckdb.connect() as connection:
        late, observed = gave_up(connection), ToldOfTheEnd(connection)
        monkeypatch.setattr(threading.Thread, "start", start_interrupted)
        with pytest.raises(KeyboardInterrupt):
            queried(cast(Any, observed), LONG)
        assert observed.ended.wait(60)
    assert not late.is_set()


def test_an_interrupt_before_the_thread_of_the_query_starts_runs_no_query(monkeypatch: pytest.MonkeyPatch) -> None:
    def start_interrupted(thread: threading.Thread) -> None:
        raise KeyboardInterrupt

    with duckdb.connect() as connection:
        observed = ToldOfTheEnd(connection)
        monkeypatch.setattr(threading.Thread, "start", start_interrupted)
        with pytest.raises(KeyboardInterrupt):
            queried(cast(Any, observed), LONG)
        assert not observed.ended.is_set()
