"""The connections of one client: one for each server, opened on first use, and again after it broke."""

from __future__ import annotations

import threading
from collections import defaultdict

from tiering.cluster.fluss.settings import FlussConnection, ServerAddress
from tiering.cluster.fluss.wire.connection import ServerConnection
from tiering.errors import ClusterUnavailable


class ConnectionPool:
    """Safe to use from several threads; a server that does not answer blocks only its own callers."""

    def __init__(self, options: FlussConnection) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._opening: defaultdict[ServerAddress, threading.Lock] = defaultdict(threading.Lock)
        self._connections: dict[ServerAddress, ServerConnection] = {}
        self._closed = False

    def connection(self, address: ServerAddress) -> ServerConnection:
        """Returns an open connection. Raises the errors of `ServerConnection`, ClusterUnavailable after `close`."""
        with self._lock:
            opening = self._opening[address]
        with opening:
            with self._lock:
                existing = self._connections.get(address)
            if existing is not None and existing.is_open:
                return existing
            fresh = ServerConnection(address, self._options)
            with self._lock:
                if not self._closed:
                    self._connections[address] = fresh
                    return fresh
            fresh.close()
            raise ClusterUnavailable("the client of the Fluss cluster was closed")

    def close(self) -> None:
        """Closes all connections; a caller that waits for an answer gets ClusterUnavailable."""
        with self._lock:
            self._closed = True
            connections = list(self._connections.values())
        for connection in connections:
            connection.close()
