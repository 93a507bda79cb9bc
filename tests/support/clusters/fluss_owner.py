"""The coordinator's and a tierer's view of a real Fluss cluster, opened on a folder of a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tiering.cluster.fluss.cluster import FlussCluster
from tiering.cluster.fluss.memory import FlussMemory
from tiering.cluster.fluss.settings import FlussConnection, FlussSettings
from tiering.cluster.fluss.source import FlussSource
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.model.assignments import ServiceMode

CLUSTER_ID = "fluss-of-tests"


@contextmanager
def opened_owner(bootstrap_servers: str, folder: Path, mode: ServiceMode = ServiceMode.EXCLUSIVE) -> Iterator[FlussCluster]:
    """The coordinator's view; `folder` is what a data folder has as `cluster/`."""
    folder.mkdir(parents=True, exist_ok=True)
    connection, settings = FlussConnection.parse(bootstrap_servers), settings_of(bootstrap_servers, mode)
    memory, client = FlussMemory(folder), FlussClient(connection)
    owner = FlussCluster(connection, client, settings, memory)
    try:
        yield owner
    finally:
        owner.close()
        memory.close()


@contextmanager
def opened_source(bootstrap_servers: str, mode: ServiceMode = ServiceMode.EXCLUSIVE) -> Iterator[FlussSource]:
    """A tierer's view."""
    connection = FlussConnection.parse(bootstrap_servers)
    source = FlussSource(connection, FlussClient(connection), settings_of(bootstrap_servers, mode))
    try:
        yield source
    finally:
        source.close()


def settings_of(bootstrap_servers: str, mode: ServiceMode = ServiceMode.EXCLUSIVE) -> FlussSettings:
    return FlussSettings(tuple(bootstrap_servers.split(",")), CLUSTER_ID, mode)
