"""Connects the coordinator, tierers and validations to a Fluss cluster: its entry in `tiering.cluster.registry`.

Each process needs only one part of it, so every function imports what it needs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from tiering.cluster.base import ReadOnlyCluster, SplitSource
from tiering.cluster.fluss.remote_storage import REMOTE_FILE_PROPERTIES
from tiering.cluster.fluss.settings import (
    BOOTSTRAP_SERVERS,
    CLUSTER_ID,
    MODE,
    USERNAME_VARIABLE,
    FlussConnection,
    FlussSettings,
    read_settings,
)
from tiering.cluster.registry import NO_PROPERTIES, STATE_URL, ClusterAddress, ClusterKind, HostedCluster
from tiering.cluster.writable import WritableCluster
from tiering.errors import ClusterAccessDenied, ClusterUnavailable, SetupError
from tiering.extras import install_hint
from tiering.model.tables import TableInfo

if TYPE_CHECKING:
    from tiering.cluster.fluss.cluster import FlussCluster
    from tiering.cluster.fluss.memory import FlussMemory

_log = structlog.get_logger(__name__)

NEEDED_MODULES = ("google_crc32c", "rocksdict")
"""Modules of the extra `fluss`. Writing to Fluss needs pyfluss as well."""


class FlussKind:
    """A `ClusterKind`: a cluster with its own servers. The folder has the coordinator's state about it."""

    @contextmanager
    def host(self, folder: Path, settings: Mapping[str, str], check_lake: Callable[[TableInfo], None]) -> Iterator[HostedCluster]:
        """Opens the cluster for the coordinator.

        Raises SetupError if the extra `fluss` is missing, the folder belongs to another cluster id, the cluster refuses the login or lacks
        calls, or at the first start does not answer. At later starts an unavailable cluster is waited for.
        """
        _check_extra()
        from tiering.cluster.fluss.cluster import FlussCluster
        from tiering.cluster.fluss.memory import FlussMemory
        from tiering.cluster.fluss.wire.client import FlussClient

        chosen = read_settings(settings)
        properties = chosen.as_text()
        with closing(FlussMemory(folder, url=settings.get(STATE_URL))) as memory:
            is_first_start = _check_cluster_id(memory, chosen.cluster_id)
            connection = _connection(chosen)
            with closing(FlussCluster(connection, FlussClient(connection), chosen, memory)) as cluster:
                _check_reachable(cluster, chosen, is_first_start=is_first_start)
                for name in (CLUSTER_ID, BOOTSTRAP_SERVERS, MODE, *REMOTE_FILE_PROPERTIES):
                    memory.set_fact(name, properties.get(name, ""))
                yield HostedCluster(cluster, properties=properties)

    def connect(self, address: ClusterAddress) -> SplitSource:
        """Connects to the cluster's own servers, as the user of the tierer's environment."""
        _check_extra()
        from tiering.cluster.fluss.source import FlussSource
        from tiering.cluster.fluss.wire.client import FlussClient

        settings = read_settings({**address.properties, CLUSTER_ID: address.cluster_id})
        connection = _connection(settings)
        return FlussSource(connection, FlussClient(connection), settings)

    def open_writer(self, address: ClusterAddress) -> AbstractContextManager[WritableCluster]:
        """Opens a writer to the cluster's own servers, as the user of the command's environment."""
        _check_extra()
        from tiering.cluster.fluss.writing.writer import fluss_writer

        settings = read_settings({**address.properties, CLUSTER_ID: address.cluster_id})
        return fluss_writer(_connection(settings), settings)

    def is_in(self, folder: Path) -> bool:
        """Returns whether the folder has the state of a Fluss cluster."""
        from tiering.cluster.fluss.memory import FILE_NAME

        return (folder / FILE_NAME).is_file()

    def open_read_only(self, folder: Path, properties: Mapping[str, str] = NO_PROPERTIES) -> ReadOnlyCluster:
        """Opens the cluster's own servers for reading, at the address that the coordinator used last.

        A login is sent only to servers that `properties` name. Only with these, an S3 address is taken from the folder, because requests to
        it would be signed.
        """
        _check_extra()
        from tiering.cluster.fluss.cluster import ReadOnlyFlussCluster
        from tiering.cluster.fluss.memory import FlussMemory
        from tiering.cluster.fluss.wire.client import FlussClient

        memory = FlussMemory(folder, read_only=True)
        try:
            names = (BOOTSTRAP_SERVERS, CLUSTER_ID, MODE, *(REMOTE_FILE_PROPERTIES if properties.get(BOOTSTRAP_SERVERS) else ()))
            remembered = {name: memory.fact(name) or "" for name in names}
            settings = read_settings({**remembered, **{name: value for name, value in properties.items() if value}})
            connection = _connection(settings)
            if not properties.get(BOOTSTRAP_SERVERS):
                connection = replace(connection, username=None)
            return ReadOnlyFlussCluster(connection, FlussClient(connection), settings, memory)
        except BaseException:
            memory.close()
            raise

    def preload(self) -> None:
        """Imports the readers of splits; does nothing if the extra is not installed."""
        if not missing_modules():
            import tiering.cluster.fluss.kv.snapshot_reader
            import tiering.cluster.fluss.log.reader  # noqa: F401


def _connection(settings: FlussSettings) -> FlussConnection:
    return FlussConnection.parse(",".join(settings.bootstrap_servers), os.environ.get(USERNAME_VARIABLE))


def missing_modules() -> list[str]:
    """Returns the modules of the extra that are not installed."""
    return [name for name in NEEDED_MODULES if find_spec(name) is None]


def _check_extra() -> None:
    """Raises SetupError naming the package to install."""
    missing = missing_modules()
    if missing:
        raise SetupError(
            f"a Fluss cluster needs Python packages that are not installed: {', '.join(missing)}",
            hint=f"{install_hint('fluss')} pyfluss, which `lakeward ingest` needs to write to Fluss, has no wheel for Python 3.13: "
            "use Python 3.11 or 3.12 for that.",
        )


def _check_cluster_id(memory: FlussMemory, cluster_id: str) -> bool:
    """Returns whether this is the first start. Raises SetupError if the folder belongs to another cluster."""
    former_id = memory.fact(CLUSTER_ID)
    if former_id is not None and former_id != cluster_id:
        raise SetupError(
            f"this data folder belongs to the Fluss cluster {former_id!r}, but --fluss-cluster-id names {cluster_id!r}",
            hint="A cluster's id never changes: every lake table contains it. Use the former id, or another data folder with --data.",
        )
    return former_id is None


def _check_reachable(cluster: FlussCluster, settings: FlussSettings, *, is_first_start: bool) -> None:
    """Lists the cluster's tables once, which also shows whether it is the same cluster as before. Raises SetupError."""
    try:
        cluster.tables()
    except ClusterAccessDenied as error:
        raise SetupError(error.message, hint=error.hint) from error
    except ClusterUnavailable as error:
        is_another = error.ids.get("cluster_id") is not None
        if is_first_start or is_another:
            raise SetupError(error.message, hint=error.hint or "Check that the Fluss cluster runs at that address.") from error
        _log.warning("the Fluss cluster does not answer; going on until it does", servers=settings.bootstrap_servers, error=error.message)


CLUSTER_KIND: ClusterKind = FlussKind()
