"""What the tests of real Fluss clusters share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.clusters.fluss_tables import FlussTables
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster


@pytest.fixture
def tables(fluss: LocalFlussCluster) -> Iterator[FlussTables]:
    """Makes tables in the shared cluster, and writes to them."""
    tables = FlussTables(fluss.bootstrap_servers)
    yield tables
    tables.close()
