"""One database of a real Fluss cluster: the coordinator's view of it, and what makes its tables and writes to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from support.clusters.fluss_owner import settings_of
from support.running.fluss_health import restart_coordinators
from tiering.cluster.fluss.cluster import FlussCluster
from tiering.cluster.fluss.memory import FlussMemory
from tiering.cluster.fluss.settings import FlussConnection
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.cluster.fluss.writing.writer import FlussWriter
from tiering.cluster.writable import AppendedRange, Rows, TableSpec
from tiering.errors import ClusterUnavailable
from tiering.model.schema.changes import SchemaChange
from tiering.model.tables import TableInfo, TablePath


class FlussDatabase(FlussCluster):
    """Sees no other database, so that a coordinator over it meets no table of another test. `folder` is what `cluster/` is elsewhere."""

    remembers_writers = False

    def __init__(self, servers: str, folder: Path, database: str, writer: FlussWriter) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        connection = FlussConnection.parse(servers)
        self._memory_of_folder = FlussMemory(folder)
        super().__init__(connection, FlussClient(connection), settings_of(servers), self._memory_of_folder)
        self._database = database
        self._shared_writer = writer

    def close(self) -> None:
        super().close()
        self._memory_of_folder.close()

    def databases(self) -> Sequence[str]:
        return [name for name in super().databases() if name == self._database]

    def tables(self, database_name: str | None = None) -> Sequence[TableInfo]:
        if database_name is None and not self.databases():
            return []
        return super().tables(database_name or self._database)

    def check_options(self, properties: Mapping[str, str]) -> None:
        self._shared_writer.check_options(properties)

    def create_database(self, name: str, ignore_if_exists: bool = False) -> None:
        self._shared_writer.create_database(name, ignore_if_exists)

    def create_table(self, path: TablePath, spec: TableSpec, ignore_if_exists: bool = False) -> TableInfo:
        try:
            self._shared_writer.create_table(path, spec, ignore_if_exists)
        except ClusterUnavailable:  # the coordinator of 0.9.1 at times never hears of a table, which then gets no leader
            restart_coordinators()
            self._shared_writer.create_table(path, spec, ignore_if_exists=True)
        return self.table(path)

    def drop_table(self, path: TablePath) -> None:
        self._shared_writer.drop_table(path)

    def alter_table(self, path: TablePath, set_properties: Mapping[str, str], changes: Sequence[SchemaChange] = ()) -> TableInfo:
        self._shared_writer.alter_table(path, set_properties, changes)
        return self.table(path)

    def drop_partition(self, path: TablePath, partition_name: str) -> None:
        self._shared_writer.drop_partition(path, partition_name)

    def append(self, path: TablePath, rows: Rows, writer_id: str, sequence: int) -> Sequence[AppendedRange]:
        return self._shared_writer.append(path, rows, writer_id, sequence)

    def upsert(self, path: TablePath, rows: Rows, writer_id: str, sequence: int) -> Sequence[AppendedRange]:
        return self._shared_writer.upsert(path, rows, writer_id, sequence)

    def delete(self, path: TablePath, keys: Rows, writer_id: str, sequence: int) -> Sequence[AppendedRange]:
        return self._shared_writer.delete(path, keys, writer_id, sequence)
