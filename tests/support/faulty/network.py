"""A network between a tierer and its coordinator that a test takes away, hangs, or cuts in the middle of an answer: a TCP proxy."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

CHUNK_BYTES = 65_536
CUT_FROM_BYTES = 40
"""A shorter piece is a control frame of HTTP/2 and no part of an answer."""
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: a close that the other side sees as a reset, and not as an end."""


@dataclass(frozen=True)
class _Pair:
    """One connection through the proxy."""

    client: socket.socket
    server: socket.socket

    def reset(self) -> None:
        for end in (self.client, self.server):
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class FaultyNetwork:
    """Leads to the service at `port`; passes everything on until it is told otherwise. Use it as a context."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.cuts = 0
        """Answers that were cut in the middle."""
        self._changed = threading.Condition()
        self._down = self._hanging = self._closed = False
        self._until_cut: int | None = None
        self._pairs: list[_Pair] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def uri(self) -> str:
        """Where the tierer finds its coordinator."""
        return f"127.0.0.1:{self._listening.getsockname()[1]}"

    def drop(self) -> None:
        """Resets every connection, and each new one at once, until `heal`."""
        with self._changed:
            self._down = True
            self._reset_all()

    def hang(self) -> None:
        """Blocks all bytes until `heal`, without an error on either side."""
        with self._changed:
            self._hanging = True

    def heal(self) -> None:
        """From now on everything comes through. Connections that hung are gone, as behind a router that forgot them."""
        with self._changed:
            if self._hanging:
                self._reset_all()
            self._down = self._hanging = False
            self._changed.notify_all()

    def cut_answer(self, passed: int = 0) -> None:
        """Lets `passed` answers of the coordinator through, then half of the next answer, and ends its connection."""
        with self._changed:
            self._until_cut = passed

    def reset(self) -> None:
        """Ends the connections that there are; new ones come through."""
        with self._changed:
            self._reset_all()

    def close(self) -> None:
        """Ends all connections."""
        with self._changed:
            self._closed = True
            self._reset_all()
            self._changed.notify_all()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _reset_all(self) -> None:
        for pair in self._pairs:
            pair.reset()
        self._pairs.clear()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                with suppress(OSError):
                    self._connect(client)

    def _connect(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self.port))
        except OSError:
            client.close()
            raise
        pair = _Pair(client, server)
        with self._changed:
            if self._down or self._closed:
                pair.reset()
                return
            self._pairs.append(pair)
        for source, target in ((client, server), (server, client)):
            threading.Thread(target=self._pass_on, args=(pair, source, target), daemon=True).start()

    def _pass_on(self, pair: _Pair, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(CHUNK_BYTES):
                if self._is_cut(pair, source, piece):
                    target.sendall(piece[: len(piece) // 2])
                    break
                target.sendall(piece)
        pair.reset()

    def _is_cut(self, pair: _Pair, source: socket.socket, piece: bytes) -> bool:
        """Waits while the network hangs."""
        with self._changed:
            self._changed.wait_for(lambda: not self._hanging or self._closed)
            if source is pair.client or self._until_cut is None or len(piece) < CUT_FROM_BYTES:
                return False
            is_cut = self._until_cut == 0
            self._until_cut = None if is_cut else self._until_cut - 1
            self.cuts += is_cut
            return is_cut
