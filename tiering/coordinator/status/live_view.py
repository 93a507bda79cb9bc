"""`View`: one moment of all records, and the statuses computed from it. It implements `interface.CoordinatorView`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property, partial
from typing import Protocol

from tiering.access.audit import AuditEntry, AuditTrail
from tiering.access.grants import EVERYTHING, NO_POLICIES, Access, PolicyState
from tiering.access.policies.effective import EffectivePrivileges, effective_privileges, granted_on
from tiering.access.privileges import SERVICE, Privilege, Resource
from tiering.access.requirements import PrivilegeTarget, Requirement
from tiering.cluster.base import LeaseListing, TableCatalog
from tiering.cluster.capabilities import BlockingRecord, StoppedBuckets
from tiering.coordinator.decisions.moment import Moment
from tiering.coordinator.decisions.next_action import CatalogNames, next_action_against
from tiering.coordinator.decisions.records import ErrorRecord, RoundRecord, TableRecord, TiererRecord
from tiering.coordinator.memory.history import History
from tiering.coordinator.memory.open_calls import OpenCall
from tiering.coordinator.observing.lag import LagSource, partitions_of
from tiering.coordinator.observing.lake_health import HealthSource
from tiering.coordinator.observing.upkeep_needs import UpkeepExplanation
from tiering.coordinator.options import CoordinatorOptions
from tiering.coordinator.status.bucket_statuses import bucket_statuses
from tiering.coordinator.status.cells import table_status
from tiering.coordinator.status.dead_letter_rows import dead_letter_rows
from tiering.coordinator.status.effective_options import effective_options
from tiering.coordinator.status.lake_health import health_of
from tiering.coordinator.status.live_history import LiveHistory
from tiering.coordinator.status.status_columns import StatusColumns, StatusView, allowed_action
from tiering.coordinator.status.tierer_statuses import tierer_statuses
from tiering.errors import ClusterAccessDenied, UnknownDatabase, UnknownTable
from tiering.lake.health.table_health import Publication, TableHealth
from tiering.model.buckets import BucketStatus
from tiering.model.leases import KvSnapshotLease, LeasedSnapshot
from tiering.model.option import EffectiveOption
from tiering.model.reading.open_reads import OpenRead
from tiering.model.refused_records import DeadLetterRow
from tiering.model.splits import SplitProgress, SplitStatus, SplitType, TieringSnapshotSplit
from tiering.model.status import TableStatus
from tiering.model.tables import BucketKey, Partition, TableInfo, TablePath, TableType
from tiering.model.tierers import TiererStatus
from tiering.procedures.prove_table import TableProof
from tiering.procedures.validate_table import CheckResult
from tiering.union_read.plan import LakeOpener


class StatusSource(TableCatalog, LeaseListing, Protocol):
    """The part of a cluster that a view reads."""


class View:
    """The records of one moment, read-only. Names of databases and tables are read from the cluster itself, at the present.

    It returns only tables that the caller may see (`access`). A hidden table gets the same answer as a table that does not exist, after the
    same steps.
    """

    def __init__(
        self,
        moment: Moment,
        records: Mapping[int, TableRecord],
        cluster: StatusSource,
        observer: LagSource,
        columns: StatusColumns,
        history: History,
        health: HealthSource,
        *,
        tierer_connected: bool | None,
        open_calls: Sequence[OpenCall] = (),
        open_reads: Sequence[OpenRead] = (),
        tierers: Sequence[TiererRecord] = (),
        splits: Callable[[int, str], Sequence[SplitProgress]] = lambda table_id, round_id: (),
        options: CoordinatorOptions | None = None,
        validations: Callable[[], Sequence[CheckResult]] = tuple,
        proofs: Callable[[], Sequence[TableProof]] = tuple,
        assigned_format: str | None = None,
        access: Access = EVERYTHING,
        policies: Callable[[], PolicyState] = lambda: NO_POLICIES,
        known_users: Callable[[str | None], Sequence[Access]] = lambda principal: (),
        audit: AuditTrail | None = None,
        explain_upkeep: Callable[[TableRecord], UpkeepExplanation] | None = None,
        publication: Callable[[TableRecord, datetime], Publication | None] = lambda record, now: None,
        open_lake: LakeOpener | None = None,
    ) -> None:
        self._moment = moment
        self._access = access
        self._policies, self._known_users, self._audit = policies, known_users, audit
        self._records = records
        self._cluster = cluster
        self._observer = observer
        self._columns = columns
        self.history = LiveHistory(history, records, access)
        self._health = health
        self._tierer_connected = tierer_connected
        self._open_calls = open_calls
        self._open_reads = open_reads
        self._tierers = tierers
        self._splits = splits
        self._options = options
        self._validations, self._proofs = validations, proofs
        self._assigned_format = assigned_format
        self._explain_upkeep = explain_upkeep
        self._publication = publication
        self._open_lake = open_lake

    @property
    def now(self) -> datetime:
        return self._moment.wall

    def require(self, requirement: Requirement) -> None:
        if requirement.on is PrivilegeTarget.SERVICE and requirement.privilege is not None:
            self._access.require(requirement.privilege, SERVICE)

    def databases(self) -> Sequence[str]:
        databases = self._cluster.databases()
        return databases if self._access.is_unrestricted else [name for name in databases if self._sees_database(name)]

    def tables(self, database_name: str) -> Sequence[TableInfo]:
        tables = self._cluster.tables(database_name)
        if self._access.is_unrestricted:
            return tables
        visible = [table for table in tables if self._access.sees(table.path)]
        if not visible and not self._access.may(Privilege.DESCRIBE, Resource(database_name)):
            raise UnknownDatabase(f"there is no database {database_name}")
        return visible

    def table(self, path: TablePath) -> TableInfo:
        if not self._access.sees(path):
            raise UnknownTable(f"there is no table {path}")
        return self._cluster.table(path)

    def lake_location(self, table_id: int) -> str | None:
        record = self._records.get(table_id)
        return None if record is None or not self._access.sees(record.path) else record.lake.location

    def partition_counts(self, tables: Sequence[TableInfo]) -> Mapping[int, int]:
        partitioned = [self._records[info.table_id] for info in tables if info.partition_keys and info.table_id in self._records]
        live = [record for record in partitioned if record.state is not None and self._access.sees(record.path)]
        if live and not _on_event_loop():
            self._observer.refresh(live)
        observations = ((record.table_id, self._observer.observation(record.table_id)) for record in live)
        return {table_id: partitions_of(observation) for table_id, observation in observations if observation is not None}

    def _sees_database(self, name: str) -> bool:
        return self._access.may(Privilege.DESCRIBE, Resource(name)) or any(
            self._access.sees(table.path) for table in self._cluster.tables(name)
        )

    def table_statuses(self, database_name: str | None = None, table_name: str | None = None) -> Sequence[TableStatus]:
        return [self._status(record) for record in self._refreshed(database_name, table_name)]

    def buckets(self, database_name: str | None = None, table_name: str | None = None) -> Iterator[BucketStatus]:
        for record in self._refreshed(database_name, table_name):
            observation = self._observer.observation(record.table_id)
            blocking = self._blocking_records(record)
            statuses = bucket_statuses(record, observation, self._moment.wall, partial(self._partition_names, record.path), blocking)
            yield from statuses if self._reads(record.path) else (replace(status, stopped_at_record=None) for status in statuses)

    def dead_letters(self, database_name: str | None = None, table_name: str | None = None) -> Iterator[DeadLetterRow]:
        open_lake = None if _on_event_loop() else self._open_lake
        for record in self._chosen(database_name, table_name):
            rows = dead_letter_rows(record, open_lake)
            yield from rows if self._reads(record.path) else (replace(row, record=None) for row in rows)

    def lake_health(
        self, database_name: str | None = None, table_name: str | None = None, names: CatalogNames | None = None
    ) -> Iterator[TableHealth]:
        for record in self._chosen(database_name, table_name):
            explanation = None if self._explain_upkeep is None else self._explain_upkeep(record)
            publication = self._publication(record, self.now)
            yield health_of(record, self._health.observation(record), explanation, names or CatalogNames(), publication)

    def _reads(self, path: TablePath) -> bool:
        """Returns whether the caller may see values of the table's rows."""
        return self._access.may_table(Privilege.SELECT, path)

    def _blocking_records(self, record: TableRecord) -> Mapping[BucketKey, BlockingRecord]:
        """Returns the table's stopped buckets. Only a primary-key table can refuse a record of its log."""
        cluster = self._cluster
        if record.table_type != TableType.PRIMARY_KEY or not isinstance(cluster, StoppedBuckets):
            return {}
        return cluster.stopped_buckets(record.table_id)

    def splits(self, database_name: str | None = None, table_name: str | None = None, round_id: str | None = None) -> Iterator[SplitStatus]:
        for record in self._chosen(database_name, table_name):
            if record.running is not None and round_id in (None, record.running.round_id):
                yield from split_statuses(record.running, self._splits(record.table_id, record.running.round_id))

    def _partition_names(self, path: TablePath) -> Mapping[int, str]:
        """Returns partition names by id; empty for a table that was just dropped, or that the coordinator's user may not see."""
        try:
            partitions = self._cluster.partitions(self._cluster.table(path))
        except (UnknownTable, UnknownDatabase, ClusterAccessDenied):
            return {}
        return {partition.partition_id: partition.partition_name for partition in partitions}

    def _refreshed(self, database_name: str | None, table_name: str | None) -> list[TableRecord]:
        """Returns the live records with these names, sorted by path. If they are few, their logs are observed first."""
        chosen = self._chosen(database_name, table_name)
        if not _on_event_loop():
            self._observer.refresh(chosen)
        return chosen

    def _chosen(self, database_name: str | None, table_name: str | None) -> list[TableRecord]:
        chosen = (
            record
            for record in self._records.values()
            if record.state is not None and database_name in (None, record.database_name) and table_name in (None, record.table_name)
            if self._access.sees(record.path)
        )
        return sorted(chosen, key=lambda record: record.path)

    def next_action_against(self, error: ErrorRecord, names: CatalogNames) -> str | None:
        statement = next_action_against(error, self._records.get(error.table_id), names)
        return allowed_action(statement, error.database_name, error.table_name, self._access)

    def status_columns(self, names: CatalogNames | None = None) -> StatusView:
        rows, may_wait = self._columns.rows(self._records), not _on_event_loop()
        return StatusView(
            self._columns,
            rows,
            self._moment,
            self._observer,
            connected=self._tierer_connected,
            may_wait=may_wait,
            assigned_format=self._assigned_format,
            names=names,
            access=self._access,
        )

    def partitions(self, table: TableInfo) -> Sequence[Partition]:
        return self._cluster.partitions(table)

    def validations(self) -> Sequence[CheckResult]:
        """Returns the results. `details` contain values of keys, so they are None for a caller without SELECT."""
        visible = [result for result in self._validations() if self._access.sees_name(result.database_name, result.table_name)]
        paths = (TablePath(result.database_name, result.table_name) for result in visible)
        return [result if self._reads(path) else replace(result, details=None) for result, path in zip(visible, paths, strict=True)]

    def proofs(self) -> Sequence[TableProof]:
        """Returns the proofs. A difference names keys, and a reader's message may name values, so a caller without SELECT gets neither."""
        visible = [proof for proof in self._proofs() if self._access.sees_name(proof.database_name, proof.table_name)]
        return [proof if self._reads(TablePath(proof.database_name, proof.table_name)) else _without_values(proof) for proof in visible]

    def leases(self) -> Sequence[KvSnapshotLease]:
        """Returns each lease with its visible snapshots. Leases without a visible snapshot are only for callers with OPERATE."""
        leases = self._cluster.leases()
        if self._access.is_unrestricted:
            return leases
        operates = self._access.may(Privilege.OPERATE, SERVICE)
        shown = (replace(lease, snapshots=self._visible_snapshots(lease)) for lease in leases)
        return [lease for lease in shown if lease.snapshots or operates]

    def _visible_snapshots(self, lease: KvSnapshotLease) -> tuple[LeasedSnapshot, ...]:
        records = ((snapshot, self._records.get(snapshot.table_bucket.table_id)) for snapshot in lease.snapshots)
        return tuple(snapshot for snapshot, record in records if record is not None and self._access.sees(record.path))

    def open_calls(self) -> Sequence[OpenCall]:
        """Returns the caller's own CALLs; all CALLs for callers with OPERATE."""
        if self._access.may(Privilege.OPERATE, SERVICE):
            return self._open_calls
        return [call for call in self._open_calls if call.principal == self._access.identity.principal]

    def open_reads(self) -> Sequence[OpenRead]:
        return [read for read in self._open_reads if self._access.sees(read.moment.path)]

    def tierers(self) -> Sequence[TiererStatus]:
        return tierer_statuses(self._moment, self._tierers, self._records.values())

    def policies(self) -> PolicyState:
        return self._policies()

    def effective_privileges(
        self, principal: str | None = None, database_name: str | None = None, table_name: str | None = None
    ) -> Iterator[EffectivePrivileges]:
        own = self._access
        others = self._known_users(principal) if own.may(Privilege.ADMIN, SERVICE) else ()
        databases = [name for name in self.databases() if database_name in (None, name)]
        paths = self._paths(databases, table_name)
        for access in (own, *(access for access in others if access.identity.principal != own.identity.principal)):
            if principal in (None, access.identity.principal):
                yield from effective_privileges(access, databases, paths, is_caller=access is own)

    def may_call(self, requirement: Requirement) -> bool:
        privilege = requirement.privilege
        if privilege is None or self._access.is_unrestricted:
            return True
        if requirement.on is PrivilegeTarget.SERVICE:
            return self._access.may(privilege, SERVICE)
        # Most callers may call it for a lake table, which needs no request to the cluster: actions then work while the cluster is away.
        if granted_on(self._access, (privilege,), [record.path for record in self._records.values()])[privilege].any():
            return True
        granted = granted_on(self._access, (Privilege.DESCRIBE, privilege), self._cluster_paths)
        if granted[Privilege.DESCRIBE].any():
            return bool(granted[privilege].any())
        return any(self._may_database(privilege, name) for name in self._cluster.databases())

    @cached_property
    def _cluster_paths(self) -> Sequence[TablePath]:
        return [table.path for table in self._cluster.tables()]

    def _may_database(self, privilege: Privilege, name: str) -> bool:
        return all(self._access.may(needed, Resource(name)) for needed in (Privilege.DESCRIBE, privilege))

    def _paths(self, databases: Sequence[str], table_name: str | None = None) -> list[TablePath]:
        return [table.path for name in databases for table in self.tables(name) if table_name in (None, table.path.table_name)]

    def audit(self) -> Iterator[AuditEntry]:
        return iter(()) if self._audit is None else self._audit.entries()

    def options(self) -> Sequence[EffectiveOption]:
        return effective_options(self._options)

    def _status(self, record: TableRecord) -> TableStatus:
        lag, connected = self._observer.lag(record), self._tierer_connected
        return table_status(record, self._moment, lag, tierer_connected=connected, assigned_format=self._assigned_format)


def _without_values(proof: TableProof) -> TableProof:
    return replace(proof, details=None, readers=tuple(replace(reader, note=None) for reader in proof.readers))


def _on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def split_statuses(running: RoundRecord, splits: Iterable[SplitProgress]) -> Iterator[SplitStatus]:
    """Yields one status per split of the round. A KV snapshot has no starting offset: it replaces the log up to its stopping offset."""
    for progress in splits:
        split, position = progress.split, progress.position
        is_snapshot = isinstance(split, TieringSnapshotSplit)
        yield SplitStatus(
            round_id=running.round_id,
            split_id=split.split_id,
            split_type=SplitType.SNAPSHOT if is_snapshot else SplitType.LOG,
            database_name=running.database_name,
            table_name=running.table_name,
            partition_name=split.partition_name,
            bucket_id=split.bucket.bucket_id,
            snapshot_id=split.snapshot_id if isinstance(split, TieringSnapshotSplit) else None,
            starting_offset=None if isinstance(split, TieringSnapshotSplit) else split.starting_offset,
            stopping_offset=split.log_offset_of_snapshot if isinstance(split, TieringSnapshotSplit) else split.stopping_offset,
            current_offset=progress.current_offset,
            backlog_offset=split.backlog_offset,
            fraction_completed=progress.fraction,
            executor=position.executor,
            attempt=position.attempt,
            state=position.state,
        )
