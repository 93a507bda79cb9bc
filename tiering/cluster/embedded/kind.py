"""Hosts, connects and reads the embedded cluster: its entry in `tiering.cluster.registry`.

Each process needs only one part of it, so every function imports what it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

from tiering.cluster.base import ReadOnlyCluster, SplitSource
from tiering.cluster.registry import NO_PROPERTIES, ClusterAddress, ClusterKind, HostedCluster
from tiering.cluster.writable import WritableCluster
from tiering.model.tables import TableInfo


class EmbeddedKind:
    """A `ClusterKind`: a folder that the coordinator's process owns, serves on its own port, and maintains."""

    @contextmanager
    def host(self, folder: Path, settings: Mapping[str, str], check_lake: Callable[[TableInfo], None]) -> Iterator[HostedCluster]:
        """Hosts the cluster; there are no settings. Raises SetupError if the folder is in use, not writable, or of a newer version."""
        from tiering.cluster.embedded.maintenance import running_maintenance
        from tiering.cluster.embedded.rpc.service import add_to_server
        from tiering.cluster.embedded.storage import EmbeddedStorage

        with EmbeddedStorage(folder, check_lake=check_lake) as storage:
            storage.ask_before_cut(lambda table_id: False)  # until the coordinator has loaded its tables
            storage.keep_for_reads(lambda table_id: None)
            with running_maintenance(storage.maintenance):
                yield HostedCluster(storage, lambda server: add_to_server(server, storage))

    def connect(self, address: ClusterAddress) -> SplitSource:
        """Connects to the coordinator, which serves the cluster itself."""
        from tiering.cluster.embedded.rpc.client import RemoteEmbeddedCluster

        return RemoteEmbeddedCluster(address.uri)

    def open_writer(self, address: ClusterAddress) -> AbstractContextManager[WritableCluster]:
        """Opens a writer of rows through the coordinator."""
        from tiering.cluster.embedded.rpc.client import RemoteEmbeddedCluster

        return closing(RemoteEmbeddedCluster(address.uri))

    def is_in(self, folder: Path) -> bool:
        """Returns whether the folder contains an embedded cluster."""
        from tiering.cluster.embedded.metadata.database import FILE_NAME

        return (folder / FILE_NAME).is_file()

    def open_read_only(self, folder: Path, properties: Mapping[str, str] = NO_PROPERTIES) -> ReadOnlyCluster:
        """Opens the folder for reading only; there are no properties."""
        from tiering.cluster.embedded.stored_cluster import ReadOnlyEmbeddedCluster

        return ReadOnlyEmbeddedCluster(folder)

    def preload(self) -> None:
        """Imports the readers of splits."""
        import tiering.cluster.embedded.kv.snapshot_files
        import tiering.cluster.embedded.log.split_reader  # noqa: F401


CLUSTER_KIND: ClusterKind = EmbeddedKind()
