"""Two defects of the servers of Fluss 0.9.1, and how tests live with them.

The coordinator misses, at times, that a table was made just after another was dropped: that table gets no leader. A partition of such a
table then ends in a NullPointerException, and what it left half done makes every later table fail, for ever, with the sentence below. A
restart reads everything anew. A tablet server misses, at times, that a table got a column. What fails of one of the two runs again, and
nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tiering.cli.fluss_server.local_cluster import LocalFlussCluster

STUCK = b"NotifyLeaderAndIsr batch request from coordinator to tablet server is not empty while creating a new one"
SEED = b'because "this.tablePath" is null'
"""Bytes before it."""
OF_FLUSS = (
    r"bucket [\d/]+ of \S+ has no leader now",
    r"server \d+ is not leader or follower for TableBucket",
    r"Invalid schema id: \d+, latest schema id: \d+",
)
"""The sentences of these defects, as exceptions say them."""
AGAIN = pytest.mark.flaky(reruns=2, only_rerun=list(OF_FLUSS))


def asks_fluss(item: pytest.Item) -> bool:
    """Whether a test is of a real Fluss cluster, by its name, parameters or fixtures. AGAIN takes 40 ms a test, so only these have it."""
    return any("fluss" in name for name in (item.nodeid, *getattr(item, "fixturenames", ())))


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
            self.restart()

    def restart(self) -> None:
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


def restart_coordinators() -> None:
    """Restarts the coordinators, so that they know each table and partition that was created."""
    for watch in _watched:
        watch.restart()
