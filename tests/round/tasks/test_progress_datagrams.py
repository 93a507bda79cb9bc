"""Progress over loopback sockets: it reaches the meter of its round, and nothing else does."""

from __future__ import annotations

import itertools
import pickle
import socket

import pytest
from structlog.testing import capture_logs

from support.running.processes import wait_for
from tiering.model.rounds import RoundProgress
from tiering.round.progress import RoundMeter
from tiering.round.tasks.progress_datagrams import SEND_SECONDS, TOKEN_BYTES, ProgressAddress, ProgressReceiver, ProgressSender

_numbers = itertools.count(1)


def new_token() -> bytes:
    return next(_numbers).to_bytes(TOKEN_BYTES, "big")


@pytest.fixture(scope="module")
def receiver() -> ProgressReceiver:
    return ProgressReceiver("127.0.0.1", "127.0.0.1", new_token)


@pytest.fixture
def meter() -> RoundMeter:
    return RoundMeter([100, 50], lambda: 0, lambda progress: None)


def test_what_a_task_sends_reaches_the_meter_under_the_meters_own_number(receiver: ProgressReceiver, meter: RoundMeter) -> None:
    with receiver.during(meter, order=[1, 0]) as address:
        sender = ProgressSender(pickle.loads(pickle.dumps(address)), task=0)
        sender.end()
        wait_for("the end of the second task", lambda: meter.progress == RoundProgress(1, 2, 50, 150))


def test_a_task_sends_no_more_than_a_datagram_a_second(
    receiver: ProgressReceiver, meter: RoundMeter, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("tiering.round.tasks.progress_datagrams.time.monotonic", lambda: now[0])
    with receiver.during(meter, order=[0, 1]) as address:
        sender = ProgressSender(address, task=0)
        sender.advance(10)
        now[0] += SEND_SECONDS
        sender.advance(20)
        sender.advance(30)
        wait_for("one datagram", lambda: meter.progress.records_done == 20)


def test_datagrams_of_no_round_are_ignored(receiver: ProgressReceiver, meter: RoundMeter) -> None:
    with receiver.during(meter, order=[0, 1]) as address:
        assert address is not None
        ProgressSender(ProgressAddress(address.host, address.port, b"?" * TOKEN_BYTES), task=0).end()
        ProgressSender(ProgressAddress(address.host, address.port, address.token), task=7).end()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            for content in (b"", b"x", bytes(2_000)):
                stranger.sendto(content, (address.host, address.port))
        ProgressSender(address, task=1).end()
        wait_for("the one that counts", lambda: meter.progress == RoundProgress(1, 2, 50, 150))
    ProgressSender(address, task=0).end()
    with receiver.during(RoundMeter([1], lambda: 0, lambda progress: None), order=[0]) as next_address:
        assert next_address is not None
        assert next_address.token != address.token
    assert meter.progress == RoundProgress(1, 2, 50, 150)


def test_an_executor_that_cannot_send_goes_on() -> None:
    ProgressSender(None, task=0).end()
    ProgressSender(ProgressAddress("host.invalid", 9, b"?" * TOKEN_BYTES), task=0).end()


def test_a_driver_that_cannot_listen_warns_and_gives_no_address(meter: RoundMeter) -> None:
    with capture_logs() as logs:
        deaf = ProgressReceiver("203.0.113.1", "203.0.113.1", new_token)
    assert [entry["log_level"] for entry in logs] == ["warning"]
    with deaf.during(meter, order=[0, 1]) as address:
        assert address is None
