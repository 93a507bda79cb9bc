"""The way of progress from Spark's executors to the tierer: small UDP datagrams, best effort.

Spark itself tells its driver only that a task has ended. An executor therefore sends the number of records that its task has read to
the host on which the driver listens for executors, at most once a second. A datagram that is lost, or that a firewall drops, costs
nothing but that figure; no datagram is answered or waited for. Each names its round by a random token that only the round's tasks
have, so that datagrams from elsewhere are ignored.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tiering.round.progress import RoundMeter

log = structlog.get_logger(__name__)

SEND_SECONDS = 1.0
"""Between two datagrams of a task that reads on."""
TOKEN_BYTES = 16
_DATAGRAM = struct.Struct(f"!{TOKEN_BYTES}sIQ?")
"""Token of the round, index of the task, records read, whether the task has ended."""


@dataclass(frozen=True)
class ProgressAddress:
    """Where the tasks of one round send their progress. It can be pickled."""

    host: str
    port: int
    token: bytes


class ProgressSender:
    """Sends one task's progress from an executor. Never raises and never waits."""

    def __init__(self, address: ProgressAddress | None, task: int) -> None:
        self._address = address
        self._task = task
        self._due = time.monotonic() + SEND_SECONDS

    def advance(self, records: int) -> None:
        """Sends the number of records that the task has read since it began, if the last datagram is a while ago."""
        if time.monotonic() >= self._due:
            self._send(records, ended=False)
            self._due = time.monotonic() + SEND_SECONDS

    def end(self) -> None:
        """Sends that the task has ended."""
        self._send(0, ended=True)

    def _send(self, records: int, ended: bool) -> None:
        if self._address is None:
            return
        content = _DATAGRAM.pack(self._address.token, self._task, records, ended)
        with suppress(OSError):
            family, kind, protocol, _, target = socket.getaddrinfo(self._address.host, self._address.port, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind, protocol) as sender:
                sender.setblocking(False)
                sender.sendto(content, target)


class ProgressReceiver:
    """Listens on a port of its own and feeds the meters of the rounds that run. One for a tierer process."""

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
            content = listening.recv(_DATAGRAM.size + 1)
            try:
                self._take(content)
            except Exception:  # without this thread no round would show its progress any more
                log.exception("a report of progress could not be taken in")

    def _take(self, content: bytes) -> None:
        if len(content) != _DATAGRAM.size:
            return
        token, task, records, ended = _DATAGRAM.unpack(content)
        with self._lock:
            entry = self._meters.get(token)
        if entry is None or task >= len(entry[1]):
            return
        meter, order = entry
        if ended:
            meter.end(order[task])
        else:
            meter.advance(order[task], records)


def _listen(host: str) -> socket.socket | None:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.bind(address)
    except OSError as error:
        log.warning("executors cannot report their progress; rounds show the tasks that have ended", host=host, error=str(error))
        return None
    return listening
