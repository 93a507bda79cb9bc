"""TCP servers that take connections and never let a request end: one says nothing, another a byte now and then."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

DRIP_SECONDS = 0.1
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"


@contextmanager
def silent_server(drip: bytes = b"") -> Iterator[int]:
    """Yields the port. With `drip` each connection gets the head of an HTTP answer, and then that text every DRIP_SECONDS."""
    ended, connections = threading.Event(), []

    def drop(connection: socket.socket) -> None:
        with suppress(OSError):
            connection.sendall(HEAD)
            while not ended.wait(DRIP_SECONDS):
                connection.sendall(drip)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                connections.append(connection)
                if drip:
                    threading.Thread(target=drop, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, daemon=True).start()
        try:
            yield int(listening.getsockname()[1])
        finally:
            ended.set()
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            for connection in connections:
                connection.close()
