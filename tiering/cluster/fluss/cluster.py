"""A Fluss cluster as the coordinator sees it: a tierer's view, the lake record, table options, and whether it still is the same cluster.

And as somebody sees it who only reads, such as a validation while the coordinator is stopped.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence

from tiering.clock import SystemClock
from tiering.cluster.assignments import TableAssignments
from tiering.cluster.fluss import table_options
from tiering.cluster.fluss.assigning.heartbeat import FlussAssignments
from tiering.cluster.fluss.connection_options import FlussConnection
from tiering.cluster.fluss.identity import check_identity
from tiering.cluster.fluss.lake_record import LakeRecord, path_to_pb, summary_properties
from tiering.cluster.fluss.lease_ledger import LeaseLedger
from tiering.cluster.fluss.leases import FlussLeases
from tiering.cluster.fluss.memory import FlussMemory, KnownTable
from tiering.cluster.fluss.offsets_files.clean_up import clean_up
from tiering.cluster.fluss.offsets_files.ledger import OffsetsFileLedger
from tiering.cluster.fluss.settings import FlussSettings
from tiering.cluster.fluss.source import FlussSource
from tiering.cluster.fluss.table_json import TableDescription, with_options
from tiering.cluster.fluss.tables import FlussTables
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.model.assignments import ServiceMode
from tiering.model.leases import KvSnapshotLease
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import Offsets, TableBucket, TableInfo, TablePath
from tiering.rpc.fluss import fluss_pb2 as fluss

_SET, _DELETE = 0, 1
"""`op_type` of AlterTable."""


class FlussCluster(FlussSource):
    """A `ClusterOwner` with `TableOptionSetting` and `LakeCommitCleanUp`.

    `memory` is what it keeps in the data folder; whoever opened it closes it.
    """

    def __init__(self, connection: FlussConnection, client: FlussClient, settings: FlussSettings, memory: FlussMemory) -> None:
        tables = FlussTables(client, self._check_identity, lambda: self._own_options, settings.upkeep)
        super().__init__(connection, client, settings, tables)
        self._memory = memory
        self._offsets_files = OffsetsFileLedger(memory.engine)
        self._lake_record = LakeRecord(client, self._offsets_files)
        self._leases = FlussLeases(client, LeaseLedger(memory.engine), SystemClock())
        self._known_lock = threading.Lock()
        self._known = dict(memory.known_tables())
        self._own_options = memory.table_options()
        shared = settings.mode is ServiceMode.SHARED
        self._assignments = FlussAssignments(FlussClient(connection)) if shared else None

    @property
    def assignments(self) -> TableAssignments | None:
        """As `AssigningCluster.assignments`."""
        return self._assignments

    def close(self) -> None:
        """As `SplitSource.close`."""
        if self._assignments is not None:
            self._assignments.close()
        super().close()

    def prepare_lake_commit(self, table: TableInfo, offsets: Offsets) -> Mapping[str, str]:
        """As `ClusterOwner.prepare_lake_commit`: Fluss's commit user, and an offsets file that is never registered (R6)."""
        return summary_properties(self._lake_record.prepare(table, offsets))

    def record_lake_snapshot(self, table: TableInfo, snapshot: RecordedLakeSnapshot) -> None:
        """As `ClusterOwner.record_lake_snapshot`."""
        self._lake_record.write(table, snapshot, self._living(table))

    def rewind_lake_snapshot(self, table: TableInfo, snapshot: RecordedLakeSnapshot) -> None:
        """As `ClusterOwner.rewind_lake_snapshot`. Tablet servers keep the largest offset that they were ever told."""
        self._lake_record.write(table, snapshot, self._living(table), may_go_back=True)

    def clean_up_lake_commits(self, table: TableInfo, newest_snapshot_id: int, snapshots: Mapping[int, str]) -> None:
        """As `LakeCommitCleanUp.clean_up_lake_commits`."""
        clean_up(
            self._offsets_files,
            table,
            snapshots,
            newest_snapshot_id,
            lambda snapshot_id: self._lake_record.is_registered(table, snapshot_id),
            self._settings.storage,
        )

    def leases(self) -> Sequence[KvSnapshotLease]:
        """As `LeaseListing.leases`."""
        return self._leases.leases()

    def acquire_lease(
        self, lease_id: str, ttl_ms: int, snapshots: Mapping[TableBucket, int], owner: str | None = None
    ) -> Collection[TableBucket]:
        """As `KvSnapshotLeases.acquire_lease`."""
        return self._leases.acquire_lease(lease_id, ttl_ms, snapshots, owner)

    def release_lease(self, lease_id: str, buckets: Collection[TableBucket]) -> Collection[TableBucket]:
        """As `KvSnapshotLeases.release_lease`."""
        return self._leases.release_lease(lease_id, buckets)

    def drop_lease(self, lease_id: str) -> bool:
        """As `KvSnapshotLeases.drop_lease`."""
        return self._leases.drop_lease(lease_id)

    def set_table_option(self, path: TablePath, name: str, value: str | None, *, dry_run: bool = False) -> TableInfo:
        """As `TableOptionSetting.set_table_option`: Fluss's own in Fluss, the others here."""
        table_options.check_option(name, value)
        table = self.table(path)
        if dry_run:
            options = {**{key: kept for key, kept in table.properties.items() if key != name}, **_as_option(name, value)}
            return with_options(table, options, self._settings.upkeep)
        if not table_options.is_of_fluss(name):
            self._memory.set_table_option(table.table_id, name, value)
            self._own_options = self._memory.table_options()
        elif table.properties.get(name) != value:
            request = fluss.AlterTableRequest(table_path=path_to_pb(path), ignore_if_not_exists=False)
            if value is None:
                request.config_changes.add(config_key=name, op_type=_DELETE)
            else:
                request.config_changes.add(config_key=name, config_value=table_options.in_fluss_words(name, value), op_type=_SET)
            self._client.coordinator(request)
        return self.table(path)

    def _living(self, table: TableInfo) -> frozenset[int] | None:
        """Returns ids of the table's partitions; None if it has no partition keys. Raises UnknownTable if the table id is gone (H2)."""
        partitions = self.partitions(table)
        return frozenset(partition.partition_id for partition in partitions) if table.partition_keys else None

    def _check_identity(self, descriptions: Sequence[TableDescription]) -> None:
        """Raises ClusterUnavailable for tables of another cluster; those of this one are remembered."""
        listed = _known(descriptions)
        with self._known_lock:
            check_identity(self.cluster_id, self._known, listed)
            new = [table for table in listed if table.table_id not in self._known]
            if new:
                self._memory.remember_tables(new)
                self._known.update({table.table_id: table for table in new})


class ReadOnlyFlussCluster(FlussSource):
    """A `ReadOnlyCluster`: asks the cluster's servers, and `memory`, which is closed with it, for what only that knows."""

    def __init__(self, connection: FlussConnection, client: FlussClient, settings: FlussSettings, memory: FlussMemory) -> None:
        super().__init__(connection, client, settings, FlussTables(client, self._check_identity, memory.table_options))
        self._memory = memory

    def leases(self) -> Sequence[KvSnapshotLease]:
        """As `LeaseListing.leases`: those in the ledger of the coordinator."""
        return LeaseLedger(self._memory.engine).leases(SystemClock().now())

    def close(self) -> None:
        """As `SplitSource.close`."""
        super().close()
        self._memory.close()

    def _check_identity(self, descriptions: Sequence[TableDescription]) -> None:
        """Raises ClusterUnavailable for tables of another cluster than the coordinator's."""
        check_identity(self.cluster_id, self._memory.known_tables(), _known(descriptions))


def _known(descriptions: Sequence[TableDescription]) -> list[KnownTable]:
    return [KnownTable(table.table_id, table.path, table.created_ms) for table in descriptions]


def _as_option(name: str, value: str | None) -> Mapping[str, str]:
    return {} if value is None else {name: value}
