"""Sends progress from Spark's executors to the tierer in small UDP datagrams, best effort.

Spark itself informs its driver only of ended tasks. An executor therefore sends its task's reports (`task_reports`) to the host on which
the driver listens for executors. A datagram that is lost, or dropped by a firewall, costs only that figure. No datagram is answered or
waited for, and a late or repeated one reduces no figure. Each datagram names its round by a random token that only the round's tasks have,
so datagrams from other senders are ignored.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import structlog
from google.protobuf.message import DecodeError

from tiering.model.splits import SplitPosition, SplitState
from tiering.round.tasks.task_reports import TaskReport
from tiering.rpc.v1.coordinator_pb2 import PbTaskReport
from tiering.wire.codec import Codec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tiering.round.progress import RoundMeter

log = structlog.get_logger(__name__)

TOKEN_BYTES = 16
_DATAGRAM_BYTES = 1_024
"""Upper bound of a datagram. The name of the executor has the most of it."""
_EXECUTOR_CHARACTERS = 200
_REPORT = Codec(TaskReport, PbTaskReport, beside=("token",))


@dataclass(frozen=True)
class ProgressAddress:
    """The address to which the tasks of one round send their progress. It can be pickled."""

    host: str
    port: int
    token: bytes


def send_report(address: ProgressAddress | None, report: TaskReport) -> None:
    """Sends a task's report from an executor. Never raises and never waits."""
    if address is None:
        return
    with suppress(OSError):
        family, kind, protocol, _, target = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as sender:
            sender.setblocking(False)
            sender.sendto(_encoded(address.token, report), target)


def _encoded(token: bytes, report: TaskReport) -> bytes:
    position = replace(report.position, executor=(report.position.executor or "")[:_EXECUTOR_CHARACTERS] or None)
    return _REPORT.to_pb(replace(report, position=position), token=token).SerializeToString()


def _decoded(content: bytes) -> tuple[bytes, TaskReport]:
    """Returns token and report. Raises ValueError or DecodeError for content that is not a progress datagram."""
    if len(content) > _DATAGRAM_BYTES:
        raise ValueError("the datagram is not a progress report")
    message = PbTaskReport.FromString(content)
    return message.token, _REPORT.from_pb(message)


class ProgressReceiver:
    """Listens on its own port and updates the meters of running rounds. One for a tierer process."""

    def __init__(self, bind_host: str, host: str, new_token: Callable[[], bytes]) -> None:
        self._host = host
        self._new_token = new_token
        self._lock = threading.Lock()
        self._meters: dict[bytes, tuple[RoundMeter, Sequence[int]]] = {}
        self._socket = _listen(bind_host)
        if self._socket is not None:
            threading.Thread(target=self._receive, args=(self._socket,), name="progress", daemon=True).start()

    @contextmanager
    def during(self, meter: RoundMeter, order: Sequence[int]) -> Iterator[ProgressAddress | None]:
        """Yields the address for a round's tasks while it runs; None if nothing can be received. `order` has the meter's index of each
        task.
        """
        if self._socket is None:
            yield None
            return
        token = self._new_token()
        with self._lock:
            self._meters[token] = (meter, order)
        try:
            yield ProgressAddress(self._host, self._socket.getsockname()[1], token)
        finally:
            with self._lock:
                del self._meters[token]

    def _receive(self, listening: socket.socket) -> None:
        while True:
            content = listening.recv(_DATAGRAM_BYTES + 1)
            try:
                self._take(content)
            except Exception:  # without this thread no round would show its progress any more
                log.exception("a progress report could not be processed")

    def _take(self, content: bytes) -> None:
        try:
            token, report = _decoded(content)
        except (ValueError, DecodeError):
            return
        with self._lock:
            entry = self._meters.get(token)
        if entry is None or max(report.place, report.first + report.ended - 1) >= len(entry[1]):
            return
        meter, order = entry
        position = report.position
        if report.ended:
            ended = SplitPosition(SplitState.DONE, position.attempt, position.executor)
            meter.move(ended, *order[report.first : report.first + report.ended])
        meter.move(position, order[report.place])


def _listen(host: str) -> socket.socket | None:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.bind(address)
    except OSError as error:
        log.warning("executors cannot report their progress; rounds show only the number of ended tasks", host=host, error=str(error))
        return None
    return listening
