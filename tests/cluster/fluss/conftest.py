"""Tables of the real Fluss cluster, and a JVM with the client of Fluss 1.0, that all tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.clusters.fluss_tables import FlussTables
from support.fluss_client.client_jar import FlussFormats
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster


@pytest.fixture(scope="module")
def tables(fluss: LocalFlussCluster) -> Iterator[FlussTables]:
    tables = FlussTables(fluss.bootstrap_servers)
    yield tables
    tables.close()


@pytest.fixture(scope="module")
def formats() -> Iterator[FlussFormats]:
    with FlussFormats() as formats:
        yield formats
