"""A CoordinatorHandle that holds plain values: what the services show is what a test put there."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import pyarrow as pa

from support.worlds.memory_store import MemoryStore
from sys_tables.query.reading import RowColumns
from tiering.access.privileges import Privilege
from tiering.access.requirements import Requirement
from tiering.coordinator.interface import CatalogNames, CheckResult, EffectivePrivileges, ErrorRecord, History, TableProof
from tiering.coordinator.lake_repair.reconciler import action_of
from tiering.coordinator.memory.open_calls import OpenCall, OpenCalls
from tiering.errors import ClusterUnavailable, UnknownDatabase, UnknownTable
from tiering.lake.health.table_health import TableHealth
from tiering.model.buckets import BucketStatus
from tiering.model.declare import schema_of
from tiering.model.leases import KvSnapshotLease
from tiering.model.option import EffectiveOption
from tiering.model.reading.open_reads import OpenRead
from tiering.model.splits import SplitStatus
from tiering.model.status import TableStatus, promise_of
from tiering.model.tables import Partition, TableInfo, TablePath, TableType
from tiering.model.tierers import TiererStatus
from tiering.procedures.acquire_kv_snapshot_lease import AcquireKvSnapshotLease
from tiering.procedures.base import CallRequest, Progress, ResultT
from tiering.procedures.drop_kv_snapshot_lease import DropKvSnapshotLease
from tiering.procedures.reconcile_lake import ReconcileLake, ReconcileLakeResult
from tiering.procedures.release_kv_snapshot_lease import ReleaseKvSnapshotLease
from tiering.procedures.renew_kv_snapshot_lease import RenewKvSnapshotLease
from tiering.procedures.retry_tiering import RetryTiering, RetryTieringResult
from tiering.procedures.tier_table import TierTable, TierTableResult

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
FLIGHT_COLUMNS = pa.schema([pa.field("flight", pa.int64(), nullable=False), pa.field("carrier", pa.string())])

TierSteps = AsyncGenerator[Progress | TierTableResult, None]


def table_info(path: str, **changes: Any) -> TableInfo:
    """A log table with two columns and four buckets, tiered."""
    database_name, table_name = path.split(".")
    values: dict[str, Any] = {
        "table_id": 1,
        "path": TablePath(database_name, table_name),
        "table_type": TableType.LOG,
        "schema": FLIGHT_COLUMNS,
        "bucket_count": 4,
        "created_at": NOON,
        "lake_enabled": True,
    }
    return TableInfo(**(values | changes))


def table_status(path: str, **changes: Any) -> TableStatus:
    """A table at rest that was never tiered: all that may be unknown is None. Its promise follows from its other values."""
    database_name, table_name = path.split(".")
    values: dict[str, Any] = dict.fromkeys(TableStatus.__dataclass_fields__)
    values |= {
        "database_name": database_name,
        "table_name": table_name,
        "status": "Scheduled",
        "tiering_epoch": 0,
        "table_id": 1,
        "table_type": "LOG",
        "lake_format": "iceberg",
        "status_since": NOON,
        "status_source": "coordinator",
        "freshness_ms": 180_000,
        "error_count": 0,
        "consecutive_failures": 0,
        "paused": False,
        "observed_time": NOON,
    }
    values |= changes
    promise = promise_of(values["lag_ms"], values["freshness_ms"], values["status"], paused=values["paused"])
    return TableStatus(**({**values, "promise": promise} | changes))


@dataclass(frozen=True)
class MemoryView:
    """CoordinatorView over values; remembers what it was asked for."""

    now: datetime
    lake_locations: Mapping[int, str] = field(default_factory=dict, kw_only=True)
    partition_numbers: Mapping[int, int] = field(default_factory=dict, kw_only=True)
    infos: Sequence[TableInfo]
    statuses: Sequence[TableStatus]
    empty_databases: Sequence[str]
    lookups: list[tuple[str | None, str | None]]
    cluster_answers: bool = True
    calls: Sequence[OpenCall] = ()
    all_leases: Sequence[KvSnapshotLease] = ()
    all_partitions: Sequence[Partition] = ()
    all_tierers: Sequence[TiererStatus] = ()
    all_options: Sequence[EffectiveOption] = ()
    history: History = field(default_factory=MemoryStore)

    def require(self, requirement: Requirement) -> None:
        """Every caller may read every table."""

    def partitions(self, table: TableInfo) -> Sequence[Partition]:
        return self.all_partitions

    def leases(self) -> Sequence[KvSnapshotLease]:
        return self.all_leases

    def validations(self) -> Sequence[CheckResult]:
        return ()

    def effective_privileges(
        self, principal: str | None = None, database_name: str | None = None, table_name: str | None = None
    ) -> Iterator[EffectivePrivileges]:
        everything = ", ".join(Privilege)
        for path in (TablePath(status.database_name, status.table_name) for status in self.statuses):
            if database_name in (None, path.database_name) and table_name in (None, path.table_name):
                yield EffectivePrivileges(principal, None, path.database_name, path.table_name, everything, is_caller=True)

    def may_call(self, requirement: Requirement) -> bool:
        return True

    def proofs(self) -> Sequence[TableProof]:
        return ()

    def buckets(self, database_name: str | None = None, table_name: str | None = None) -> Iterator[BucketStatus]:
        return iter(())

    def lake_health(
        self, database_name: str | None = None, table_name: str | None = None, names: CatalogNames | None = None
    ) -> Iterator[TableHealth]:
        return iter(())

    def splits(self, database_name: str | None = None, table_name: str | None = None, round_id: str | None = None) -> Iterator[SplitStatus]:
        return iter(())

    def tierers(self) -> Sequence[TiererStatus]:
        return self.all_tierers

    def options(self) -> Sequence[EffectiveOption]:
        return self.all_options

    def open_reads(self) -> Sequence[OpenRead]:
        return ()

    def open_calls(self) -> Sequence[OpenCall]:
        return self.calls

    def databases(self) -> Sequence[str]:
        if not self.cluster_answers:
            raise ClusterUnavailable("the cluster does not answer")
        return sorted({info.path.database_name for info in self.infos} | set(self.empty_databases))

    def tables(self, database_name: str) -> Sequence[TableInfo]:
        self.lookups.append((database_name, None))
        if database_name not in self.databases():
            raise UnknownDatabase(f"there is no database {database_name!r}")
        return sorted((info for info in self.infos if info.path.database_name == database_name), key=lambda info: info.path)

    def lake_location(self, table_id: int) -> str | None:
        return self.lake_locations.get(table_id)

    def partition_counts(self, tables: Sequence[TableInfo]) -> Mapping[int, int]:
        return {info.table_id: self.partition_numbers[info.table_id] for info in tables if info.table_id in self.partition_numbers}

    def table(self, path: TablePath) -> TableInfo:
        for info in self.tables(path.database_name):
            if info.path == path:
                return info
        raise UnknownTable(f"there is no table {path}")

    def status_columns(self, names: CatalogNames | None = None) -> RowColumns:
        return RowColumns(self.table_statuses(), schema_of(TableStatus))

    def next_action_against(self, error: ErrorRecord, names: CatalogNames) -> str | None:
        return None

    def table_statuses(self, database_name: str | None = None, table_name: str | None = None) -> Sequence[TableStatus]:
        self.lookups.append((database_name, table_name))
        wanted = (s for s in self.statuses if database_name in (None, s.database_name) and table_name in (None, s.table_name))
        return sorted(wanted, key=lambda status: (status.database_name, status.table_name))


@dataclass
class MemoryCoordinator:
    """CoordinatorHandle and CoordinatorControl. `tier` is the effect of TierTable; `calls` are its requests, `others` the rest."""

    infos: Iterable[TableInfo] = ()
    statuses: Iterable[TableStatus] = ()
    empty_databases: Sequence[str] = ()
    now: datetime = NOON
    tier: Callable[[TierTable], TierSteps] | None = None
    calls: list[TierTable] = field(default_factory=list)
    others: list[CallRequest[Any]] = field(default_factory=list)
    lookups: list[tuple[str | None, str | None]] = field(default_factory=list)
    cluster_answers: bool = True
    leases: Sequence[KvSnapshotLease] = ()
    partitions: Sequence[Partition] = ()

    def __post_init__(self) -> None:
        self.open_calls = OpenCalls(lambda: self.now)

    @property
    def control(self) -> MemoryCoordinator:
        return self

    def view(self) -> MemoryView:
        infos, statuses, calls = list(self.infos), list(self.statuses), self.open_calls.list()
        return MemoryView(
            self.now, infos, statuses, self.empty_databases, self.lookups, self.cluster_answers, calls, self.leases, self.partitions
        )

    async def knows(self, idempotency_key: str, caller: str) -> bool:
        return False

    async def perform(self, request: CallRequest[ResultT]) -> ResultT:
        answer = _answer(request)
        self.others.append(request)
        return cast(ResultT, answer)

    def perform_with_progress(self, request: CallRequest[ResultT]) -> AsyncGenerator[Progress | ResultT, None]:
        if not isinstance(request, TierTable):
            return self._answered(request)
        self.calls.append(request)
        return cast("AsyncGenerator[Progress | ResultT, None]", (self.tier or nothing_to_do)(request))

    async def _answered(self, request: CallRequest[ResultT]) -> AsyncGenerator[Progress | ResultT, None]:
        yield await self.perform(request)


def _answer(request: CallRequest[Any]) -> object:
    match request:
        case ReconcileLake():
            action = action_of(request.action).value
            outcome = "would_reconcile" if request.dry_run else "reconciled"
            return ReconcileLakeResult(request.path, action, "r9", 77, outcome, {"0": 5, "1": 6}, records_left_out=3)
        case AcquireKvSnapshotLease() | RenewKvSnapshotLease() | ReleaseKvSnapshotLease() | DropKvSnapshotLease():
            return request.result_class(request.lease_id, "ACTIVE", 4, 1, NOON)
        case RetryTiering():
            return RetryTieringResult(request.path, "Pending", None)
    raise AssertionError(f"no test asks for {request} here")


async def nothing_to_do(call: TierTable) -> TierSteps:
    """One line of progress, then EMPTY."""
    yield Progress(f"looking at {call.path}")
    yield TierTableResult(call.path, None, "EMPTY", 3, None, 0, 0, 0, 0, 0, 0, 12)
