"""How many requests for a table may be held at a time, of one peer and of all.

A held request costs memory, a stream and a look at every tick. One too many is not refused but answered at once, without a
table: its tierer asks again after a second, as it does while it is busy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

MAX_HELD = 2_000
"""Held requests of all peers: twice as many as tierers are known at a time."""

MAX_HELD_PER_PEER = 200
"""Held requests of one address: all tierers of one machine, or of the proxy that they share."""


class HeldRequestLimit:
    """Counts held requests by peer. Belongs to one event loop."""

    def __init__(self) -> None:
        self._by_host: Counter[str] = Counter()

    @contextmanager
    def room(self, peer: str) -> Iterator[bool]:
        """Whether one more may be held; if so, it counts while the block runs. `peer` is gRPC's name of a connection."""
        host = host_of(peer)
        free = self._by_host[host] < MAX_HELD_PER_PEER and self._by_host.total() < MAX_HELD
        if free:
            self._by_host[host] += 1
        try:
            yield free
        finally:
            if free:
                self._by_host[host] -= 1
            if not self._by_host[host]:
                del self._by_host[host]


def host_of(peer: str) -> str:
    """The peer without its port, of which each connection has another: `ipv4:127.0.0.1:1` and `ipv6:%5B::1%5D:1` are peers."""
    scheme, _, address = peer.partition(":")
    host, _, _ = address.rpartition(":") if scheme in ("ipv4", "ipv6") else (address, "", "")
    return f"{scheme}:{host}"
