"""Progress over loopback sockets: it reaches the meter of its round, and nothing else does."""

from __future__ import annotations

import itertools
import pickle
import random
import socket
from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from support.running.processes import wait_for
from tiering.model.rounds import RoundProgress
from tiering.model.splits import SplitPosition, SplitState
from tiering.round.progress import RoundMeter
from tiering.round.tasks.progress_datagrams import TOKEN_BYTES, ProgressAddress, ProgressReceiver, send_report
from tiering.round.tasks.task_reports import TaskReport

_numbers = itertools.count(1)


def new_token() -> bytes:
    return next(_numbers).to_bytes(TOKEN_BYTES, "big")


@pytest.fixture(scope="module")
def receiver() -> ProgressReceiver:
    return ProgressReceiver("127.0.0.1", "127.0.0.1", new_token)


@pytest.fixture
def meter() -> RoundMeter:
    return RoundMeter([100, 50], lambda: 0, lambda progress: None)


def report(place: int, state: SplitState = SplitState.DONE, *, records: int = 0, attempt: int = 0, ended: int = 0) -> TaskReport:
    """Returns the report of a task that begins at place 0, or at its only place."""
    position = SplitPosition(state, attempt, "3@worker-\u00e9", records if records else None, records)
    return TaskReport(0 if ended else place, ended, place, position)


def test_what_a_task_sends_reaches_the_meter_under_the_meters_own_number(receiver: ProgressReceiver, meter: RoundMeter) -> None:
    with receiver.during(meter, order=[1, 0]) as address:
        address = pickle.loads(pickle.dumps(address))
        send_report(address, report(1, SplitState.RUNNING, records=70))
        wait_for("the first task", lambda: meter.position(0) == SplitPosition(SplitState.RUNNING, 0, "3@worker-\u00e9", 70, 70))
        send_report(address, report(0))
        wait_for("the end of the second task", lambda: meter.progress == RoundProgress(1, 2, 120, 150))


def test_splits_that_ended_before_the_one_at_hand_are_done(receiver: ProgressReceiver, meter: RoundMeter) -> None:
    with receiver.during(meter, order=[0, 1]) as address:
        send_report(address, report(1, SplitState.RUNNING, records=10, ended=1, attempt=2))
        wait_for("both", lambda: meter.progress == RoundProgress(1, 2, 110, 150))
        assert meter.position(0) == SplitPosition(SplitState.DONE, 2, "3@worker-\u00e9")


def test_lost_repeated_and_overtaken_datagrams_take_no_figure_back(receiver: ProgressReceiver) -> None:
    """Every order of a task's datagrams, with any of them missing or twice."""
    sent = [report(0, SplitState.RUNNING, records=records) for records in (10, 40, 90)]
    sent += [report(0, SplitState.RUNNING, records=5, attempt=1), report(0, SplitState.DONE, records=100, attempt=1)]
    shuffled = random.Random(7)
    for _ in range(20):
        heard: list[SplitPosition] = []
        meter = RoundMeter([100], lambda: 0, lambda reading: None)
        with receiver.during(meter, order=[0]) as address:
            for datagram in shuffled.choices(sent, k=8):
                send_report(address, datagram)
                heard.append(meter.position(0))
            send_report(address, sent[-1])
            wait_for("the last one", lambda: meter.position(0).state is SplitState.DONE)  # noqa: B023
        heard.append(meter.position(0))
        for earlier, later in pairwise(heard):
            assert earlier.attempt <= later.attempt
            if earlier.attempt == later.attempt:
                assert (earlier.records, earlier.current_offset or 0) <= (later.records, later.current_offset or 0)
        assert (heard[-1].attempt, heard[-1].records) == (1, 100)


def test_datagrams_of_no_round_are_ignored(receiver: ProgressReceiver, meter: RoundMeter) -> None:
    with receiver.during(meter, order=[0, 1]) as address:
        assert address is not None
        send_report(ProgressAddress(address.host, address.port, b"?" * TOKEN_BYTES), report(0))
        send_report(address, report(7))
        send_report(address, report(0, SplitState.RUNNING, ended=3))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            for content in (b"", b"x", bytes(2_000), address.token, address.token + b"\xff" * 40):
                stranger.sendto(content, (address.host, address.port))
        send_report(address, report(1))
        wait_for("the one that counts", lambda: meter.progress == RoundProgress(1, 2, 50, 150))
    send_report(address, report(0))
    with receiver.during(RoundMeter([1], lambda: 0, lambda reading: None), order=[0]) as next_address:
        assert next_address is not None
        assert next_address.token != address.token
    assert meter.progress == RoundProgress(1, 2, 50, 150)


def test_an_executor_that_cannot_send_goes_on() -> None:
    send_report(None, report(0))
    send_report(ProgressAddress("host.invalid", 9, b"?" * TOKEN_BYTES), report(0))


def test_a_driver_that_cannot_listen_warns_and_gives_no_address(meter: RoundMeter) -> None:
    with capture_logs() as logs:
        deaf = ProgressReceiver("203.0.113.1", "203.0.113.1", new_token)
    assert [entry["log_level"] for entry in logs] == ["warning"]
    with deaf.during(meter, order=[0, 1]) as address:
        assert address is None
