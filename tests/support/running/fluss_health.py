"""A coordinator of Fluss 0.9.1 that gives no table a leader any more, and its restart.

It misses, at times, that a table was made. A partition of such a table then ends in a NullPointerException, and what it left half done
makes every later table fail, for ever, with the sentence below. A restart reads everything anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tiering.cli.fluss_server.local_cluster import LocalFlussCluster

STUCK = b"NotifyLeaderAndIsr batch request from coordinator to tablet server is not empty while creating a new one"
SEED = b'because "this.tablePath" is null'
"""What comes before it."""


class _Watch:
    def __init__(self, cluster: LocalFlussCluster) -> None:
        self.cluster = cluster
        self._read = 0

    def restart_if_stuck(self) -> None:
        log = self.cluster.coordinator.log
        with log.open("rb") as file:
            file.seek(self._read if log.stat().st_size >= self._read else 0)
            text = file.read()
            self._read = file.tell()
        if self.cluster.coordinator.is_running and (STUCK in text or SEED in text):
            self.cluster.coordinator.kill()
            self.cluster.coordinator.start()
            self.cluster.wait_ready()


_watched: list[_Watch] = []


@contextmanager
def watched(cluster: LocalFlussCluster) -> Iterator[LocalFlussCluster]:
    """While the block runs, `restart_stuck_coordinators` looks after the cluster's."""
    watch = _Watch(cluster)
    _watched.append(watch)
    try:
        yield cluster
    finally:
        _watched.remove(watch)


def restart_stuck_coordinators() -> None:
    """Between tests: one test may fail of it, not all that follow."""
    for watch in _watched:
        watch.restart_if_stuck()
