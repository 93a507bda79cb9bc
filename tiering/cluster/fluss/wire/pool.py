"""The connections of one client: one a server, opened when it is first asked, and anew after it broke."""

from __future__ import annotations

import threading
from collections import defaultdict

from tiering.cluster.fluss.connection_options import FlussConnection, ServerAddress
from tiering.cluster.fluss.wire.connection import ServerConnection
from tiering.errors import ClusterUnavailable


class ConnectionPool:
    """Safe for several threads; a server that does not answer holds up only those who ask it."""

    def __init__(self, options: FlussConnection) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._opening: defaultdict[ServerAddress, threading.Lock] = defaultdict(threading.Lock)
        self._connections: dict[ServerAddress, ServerConnection] = {}
        self._closed = False

    def connection(self, address: ServerAddress) -> ServerConnection:
        """An open connection. Raises what `ServerConnection` raises, ClusterUnavailable after `close`."""
        with self._lock:
            opening = self._opening[address]
        with opening:
            with self._lock:
                known = self._connections.get(address)
            if known is not None and known.is_open:
                return known
            fresh = ServerConnection(address, self._options)
            with self._lock:
                if not self._closed:
                    self._connections[address] = fresh
                    return fresh
            fresh.close()
            raise ClusterUnavailable("the client of the Fluss cluster was closed")

    def close(self) -> None:
        """Ends all of them; whoever waits for an answer gets ClusterUnavailable."""
        with self._lock:
            self._closed = True
            connections = list(self._connections.values())
        for connection in connections:
            connection.close()
