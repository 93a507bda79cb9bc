"""A real Fluss cluster whose log segments are small and move to remote storage within seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.clusters.fluss_tables import FlussTables
from support.running.fluss_health import watched
from tiering.cli.fluss_server.configuration import ClusterSettings
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster, local_cluster

SMALL_SEGMENTS = {"log.segment.file-size": "64kb", "log.index.interval-size": "1kb", "remote.log.task-interval-duration": "1s"}


@pytest.fixture(scope="package")
def fluss_of_small_segments(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFlussCluster]:
    with local_cluster(tmp_path_factory.mktemp("fluss"), ClusterSettings(server_properties=SMALL_SEGMENTS)) as cluster, watched(cluster):
        yield cluster


@pytest.fixture
def cluster(fluss_of_small_segments: LocalFlussCluster) -> LocalFlussCluster:
    return fluss_of_small_segments


@pytest.fixture(scope="package")
def tables(fluss_of_small_segments: LocalFlussCluster) -> Iterator[FlussTables]:
    tables = FlussTables(fluss_of_small_segments.bootstrap_servers)
    try:
        yield tables
    finally:
        tables.close()
