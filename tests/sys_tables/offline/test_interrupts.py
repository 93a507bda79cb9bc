"""Ctrl-C ends a query of the offline engine, also one that has not begun yet."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
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


@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupt_before_the_query_begins_ends_it() -> None:
    gave_up = threading.Event()
    with duckdb.connect() as connection:

        def give_up() -> None:
            gave_up.set()
            connection.interrupt()

        timer = threading.Timer(60, give_up)
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            queried(cast(Any, BeginsLate(connection)), LONG)
        timer.cancel()
    assert not gave_up.is_set()
