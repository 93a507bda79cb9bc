"""Tables of the real Fluss cluster that all tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.clusters.fluss_tables import FlussTables
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster


@pytest.fixture(scope="module")
def tables(fluss: LocalFlussCluster) -> Iterator[FlussTables]:
    tables = FlussTables(fluss.bootstrap_servers)
    yield tables
    tables.close()
