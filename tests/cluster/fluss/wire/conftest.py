"""Clients of the real cluster, each closed after its test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.cluster.fluss.settings import FlussConnection
from tiering.cluster.fluss.wire.client import FlussClient

Opened = Callable[[FlussConnection], FlussClient]


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Opens clients that are closed when the test ends."""
    with ExitStack() as stack:

        def open_client(connection: FlussConnection) -> FlussClient:
            client = FlussClient(connection)
            stack.callback(client.close)
            return client

        yield open_client


@pytest.fixture
def client(fluss: LocalFlussCluster, opened: Opened) -> FlussClient:
    """A client of the shared cluster."""
    return opened(FlussConnection.parse(fluss.bootstrap_servers))
