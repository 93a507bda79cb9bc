"""The connections of a reading process: opened on first use, kept for later tasks, never shared with a fork.

Spark's Python workers are forked; a worker does not use the sockets and locks of its parent process.
"""

from __future__ import annotations

import os
import threading

from tiering.cluster.fluss.connection_options import FlussConnection
from tiering.cluster.fluss.wire.client import FlussClient


class _Clients:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.by_connection: dict[FlussConnection, FlussClient] = {}


_clients = _Clients()
_of_parents: list[_Clients] = []
"""Kept so that they are never closed: the sockets belong to the process before the fork."""


def executor_client(connection: FlussConnection) -> FlussClient:
    """Returns this process's client of a cluster, which lives as long as the process."""
    with _clients.lock:
        if connection not in _clients.by_connection:
            _clients.by_connection[connection] = FlussClient(connection)
        return _clients.by_connection[connection]


def _replace_clients() -> None:
    global _clients
    _of_parents.append(_clients)
    _clients = _Clients()


os.register_at_fork(after_in_child=_replace_clients)
