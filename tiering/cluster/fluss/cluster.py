"""A Fluss cluster as the coordinator sees it: a tierer's view, the lake record, table options, and the check that it is still the same
cluster.

Also a Fluss cluster for readers, such as a validation while the coordinator is stopped.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence

from tiering.clock import SystemClock
from tiering.cluster.fluss import table_options
from tiering.cluster.fluss.assignments import FlussAssignments
from tiering.cluster.fluss.lake_record import LakeRecord
from tiering.cluster.fluss.leases import FlussLeases, LeaseLedger
from tiering.cluster.fluss.memory import FlussMemory, RecordedTable
from tiering.cluster.fluss.offsets_files import OffsetsFileLedger, clean_up
from tiering.cluster.fluss.settings import FlussConnection, FlussSettings
from tiering.cluster.fluss.source import FlussSource
from tiering.cluster.fluss.table_json import TableDescription, with_options
from tiering.cluster.fluss.wire.api import path_to_pb
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.cluster.fluss.writing.definitions import FlussDefinitions
from tiering.cluster.fluss.writing.writer import FlussWriter
from tiering.cluster.writable import TableDefinitions
from tiering.errors import ClusterUnavailable
from tiering.lake.base import FLUSS_COMMIT_USER, FLUSS_COMMIT_USER_KEY, FLUSS_OFFSETS_KEY
from tiering.model.assignments import ServiceMode
from tiering.model.leases import KvSnapshotLease
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import Offsets, TableBucket, TableInfo, TablePath
from tiering.rpc.fluss import fluss_pb2 as fluss


class FlussCluster(FlussSource):
    """A `ClusterOwner` with `AssigningCluster`, `DefiningCluster`, `TableOptionSetting` and `LakeCommitCleanUp`.

    `memory` is the state in the data folder; its opener closes it.
    """

    def __init__(self, connection: FlussConnection, client: FlussClient, settings: FlussSettings, memory: FlussMemory) -> None:
        super().__init__(connection, client, settings)
        self._memory = memory
        self._offsets_files = OffsetsFileLedger(memory.engine)
        self._lake_record = LakeRecord(client, self._offsets_files)
        self._leases = FlussLeases(client, LeaseLedger(memory.engine), SystemClock())
        self._known_lock = threading.Lock()
        self._known_tables = dict(memory.known_tables())
        self._table_options = memory.table_options()
        self._writer = FlussWriter(connection, FlussClient(connection), settings)
        shared = settings.mode is ServiceMode.SHARED
        self.assignments = FlussAssignments(FlussClient(connection)) if shared else None
        """The scheduler of tables; None unless the cluster is shared."""

    @property
    def definitions(self) -> TableDefinitions:
        """Implements `DefiningCluster`, as the user of the coordinator's environment."""
        return FlussDefinitions(self._writer, self.set_table_option)

    def close(self) -> None:
        self._writer.close()
        if self.assignments is not None:
            self.assignments.close()
        super().close()

    def prepare_lake_commit(self, table: TableInfo, offsets: Offsets) -> Mapping[str, str]:
        """Returns Fluss's commit user, and the path of an offsets file that is never registered (R6)."""
        return {FLUSS_COMMIT_USER_KEY: FLUSS_COMMIT_USER, FLUSS_OFFSETS_KEY: self._lake_record.prepare(table, offsets)}

    def record_lake_snapshot(self, table: TableInfo, snapshot: RecordedLakeSnapshot) -> None:
        self._lake_record.write(table, snapshot, self._living(table))

    def rewind_lake_snapshot(self, table: TableInfo, snapshot: RecordedLakeSnapshot) -> None:
        """Registers a lake snapshot whose offsets may be lower. Tablet servers keep the highest offset that they received."""
        self._lake_record.write(table, snapshot, self._living(table), may_go_back=True)

    def clean_up_lake_commits(self, table: TableInfo, newest_snapshot_id: int, snapshots: Mapping[int, str]) -> None:
        clean_up(
            self._offsets_files,
            table,
            snapshots,
            newest_snapshot_id,
            lambda snapshot_id: self._lake_record.is_registered(table, snapshot_id),
            self._settings.storage,
        )

    def leases(self) -> Sequence[KvSnapshotLease]:
        return self._leases.leases()

    def acquire_lease(
        self, lease_id: str, ttl_ms: int, snapshots: Mapping[TableBucket, int], owner: str | None = None
    ) -> Collection[TableBucket]:
        return self._leases.acquire_lease(lease_id, ttl_ms, snapshots, owner)

    def release_lease(self, lease_id: str, buckets: Collection[TableBucket]) -> Collection[TableBucket]:
        return self._leases.release_lease(lease_id, buckets)

    def drop_lease(self, lease_id: str) -> bool:
        return self._leases.drop_lease(lease_id)

    def set_table_option(self, path: TablePath, name: str, value: str | None, *, dry_run: bool = False) -> TableInfo:
        table_options.check_option(name, value)
        table = self.table(path)
        if dry_run:
            options = {key: kept for key, kept in table.properties.items() if key != name} | ({} if value is None else {name: value})
            return with_options(table, options, self._settings.upkeep)
        if not table_options.is_of_fluss(name):
            self._memory.set_table_option(table.table_id, name, value)
            self._table_options = self._memory.table_options()
        elif table.properties.get(name) != value:
            request = fluss.AlterTableRequest(table_path=path_to_pb(path), ignore_if_not_exists=False)
            request.config_changes.append(table_options.option_change(name, value))
            self._client.coordinator(request)
        return self.table(path)

    def _living(self, table: TableInfo) -> frozenset[int] | None:
        """Returns the ids of the table's partitions; None if it has no partition keys. Raises UnknownTable if the table id does not exist
        any more (H2).
        """
        partitions = self.partitions(table)
        return frozenset(partition.partition_id for partition in partitions) if table.partition_keys else None

    def _own_options(self) -> Mapping[int, Mapping[str, str]]:
        return self._table_options

    def _check(self, descriptions: Sequence[TableDescription]) -> None:
        """Raises ClusterUnavailable for tables of another cluster; remembers new tables of this one."""
        listed = _as_known_tables(descriptions)
        with self._known_lock:
            check_identity(self.cluster_id, self._known_tables, listed)
            new = [table for table in listed if table.table_id not in self._known_tables]
            if new:
                self._memory.remember_tables(new)
                self._known_tables.update({table.table_id: table for table in new})


class ReadOnlyFlussCluster(FlussSource):
    """A `ReadOnlyCluster`: reads from the cluster's servers, and from `memory` what only the coordinator knows. `close` also closes
    `memory`.
    """

    def __init__(self, connection: FlussConnection, client: FlussClient, settings: FlussSettings, memory: FlussMemory) -> None:
        super().__init__(connection, client, settings)
        self._memory = memory

    def leases(self) -> Sequence[KvSnapshotLease]:
        return LeaseLedger(self._memory.engine).leases(SystemClock().now())

    def close(self) -> None:
        super().close()
        self._memory.close()

    def _own_options(self) -> Mapping[int, Mapping[str, str]]:
        return self._memory.table_options()

    def _check(self, descriptions: Sequence[TableDescription]) -> None:
        """Raises ClusterUnavailable for tables of a cluster other than the coordinator's."""
        check_identity(self.cluster_id, self._memory.known_tables(), _as_known_tables(descriptions))


def _as_known_tables(descriptions: Sequence[TableDescription]) -> list[RecordedTable]:
    return [RecordedTable(table.table_id, table.path, table.created_ms) for table in descriptions]


CLOCK_SKEW_MS = 600_000
"""Maximum difference between the clocks of two coordinators of one cluster, because creation times come from them."""


# A Fluss cluster has no name. Its table ids increase and are never reused. So another cluster can be recognized: a table id belongs to
# another table there, or a table with a low id was created late.
def check_identity(cluster_id: str, known_tables: Mapping[int, RecordedTable], listed: Iterable[RecordedTable]) -> None:
    """Raises ClusterUnavailable if a listed table cannot belong to the cluster whose tables are `known_tables`."""
    newest = max(known_tables.values(), key=lambda table: table.table_id, default=None)
    for table in listed:
        former = known_tables.get(table.table_id)
        if former is not None and former != table:
            raise _another(cluster_id, f"its table {table.path} has the id {table.table_id}, which is that of {_described(former)}")
        is_late = newest is not None and former is None and table.table_id < newest.table_id
        if is_late and newest is not None and table.created_ms > newest.created_ms + CLOCK_SKEW_MS:
            raise _another(cluster_id, f"its table {table.path} has the id {table.table_id}, but was created after {_described(newest)}")


def _described(table: RecordedTable) -> str:
    return f"{table.path} (id {table.table_id}, created at {table.created_ms} ms)"


def _another(cluster_id: str, why: str) -> ClusterUnavailable:
    return ClusterUnavailable(
        f"another Fluss cluster answers where {cluster_id!r} was: {why}",
        hint="Nothing is tiered from it. Start Lakeward with the address of the former cluster (--fluss). For the new cluster, use another "
        "data folder and another --fluss-cluster-id.",
        cluster_id=cluster_id,
    )
