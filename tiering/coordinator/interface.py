"""What the coordinator offers inside its own process: to the gRPC services and to the system tables.

Reads (`CoordinatorView`) see one moment and never wait for tiering. Controls (`CoordinatorControl`) are coroutines:
a CALL may wait for minutes and must not hold a thread.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, Self, TypeAlias, runtime_checkable

from tiering.coordinator.calls.lease_calls import DEFAULT_TTL_MS as DEFAULT_LEASE_TTL_MS
from tiering.coordinator.calls.lease_calls import AcquireLease, DropLease, LeaseCall, LeaseResult, ReleaseLease, RenewLease, lease_state
from tiering.coordinator.calls.mutations import (
    CallOptions,
    CancelResult,
    CancelTiering,
    PauseResult,
    PauseTiering,
    ResetErrors,
    ResetResult,
    ResumeTiering,
    RetryResult,
    RetryTiering,
)
from tiering.coordinator.calls.open_calls import OpenCall, OpenCalls
from tiering.coordinator.calls.requests import ReconcileLake, ReconcileResult, SweepLake, TierTable
from tiering.coordinator.calls.skip_record import SkipRecord, SkipRecordResult
from tiering.coordinator.calls.validate_table import ValidateTable
from tiering.model.call_results import Progress, SweepResult, TierTableResult
from tiering.model.leases import KvSnapshotLease
from tiering.model.status import TableStatus
from tiering.model.tables import Partition, TableInfo, TablePath
from tiering.validate.results import CheckResult

__all__ = [
    "DEFAULT_LEASE_TTL_MS",
    "AcquireLease",
    "CallOptions",
    "CheckResult",
    "CoordinatorControl",
    "CoordinatorHandle",
    "CoordinatorView",
    "DropLease",
    "LeaseCall",
    "LeaseResult",
    "Progress",
    "ReconcileLake",
    "ReconcileResult",
    "ReleaseLease",
    "RenewLease",
    "RetryResult",
    "RetryTiering",
    "SkipRecord",
    "SkipRecordResult",
    "SweepLake",
    "SweepResult",
    "TierTable",
    "TierTableResult",
    "ValidateTable",
    "lease_state",
]


AnyArray: TypeAlias = Any
"""A pyarrow array. Its stubs ask for the type of the elements, which only a schema knows, at run time."""


@runtime_checkable
class Columns(Protocol):
    """Rows of one moment, by column. Columns are made when they are asked for; what was taken is of the same moment."""

    @property
    def num_rows(self) -> int: ...

    def column(self, name: str) -> AnyArray:
        """All rows' values of one column."""
        ...

    def take(self, indices: AnyArray) -> Self:
        """The rows at these indices, in that order."""
        ...


class CoordinatorView(Protocol):
    """A read-only look at one moment. Cheap to make; methods may be called from any thread."""

    @property
    def now(self) -> datetime:
        """The moment, UTC."""
        ...

    def databases(self) -> Sequence[str]:
        """Real databases, sorted; without `sys`."""
        ...

    def tables(self, database_name: str) -> Sequence[TableInfo]:
        """Tables of one database, sorted. Raises UnknownDatabase."""
        ...

    def table(self, path: TablePath) -> TableInfo:
        """Raises UnknownTable, UnknownDatabase."""
        ...

    def lake_location(self, table_id: int) -> str | None:
        """Where the table's lake copy is stored, as last seen; None = not seen. Asks nobody."""
        ...

    def partition_counts(self, tables: Sequence[TableInfo]) -> Mapping[int, int]:
        """By table id the number of partitions of those that are partitioned, as last seen; for few tables it looks anew.

        Tables that nobody looks at are left out: those that are not tiered.
        """
        ...

    def table_statuses(self, database_name: str | None = None, table_name: str | None = None) -> Sequence[TableStatus]:
        """One status a lake table, sorted by path; exact names narrow it. Unknown names give none."""
        ...

    def status_columns(self) -> Columns:
        """The statuses of all lake tables, sorted by path: a column for each field of TableStatus."""
        ...

    def partitions(self, table: TableInfo) -> Sequence[Partition]:
        """Partitions of a table now. Raises UnknownTable."""
        ...

    def leases(self) -> Sequence[KvSnapshotLease]:
        """All leases on KV snapshots, by id."""
        ...

    def validations(self) -> Sequence[CheckResult]:
        """What validations found, the newest first."""
        ...

    def open_calls(self) -> Sequence[OpenCall]:
        """CALLs under way, the oldest first."""
        ...


class CoordinatorControl(Protocol):
    """What may be asked of the coordinator. Errors are of `tiering.errors`."""

    def tier_table(self, call: TierTable) -> AsyncGenerator[Progress | TierTableResult]:
        """Zero or more progress lines, then exactly one result. Closing the iterator ends the wait, not the round.

        Raises UnknownTable, LakeDisabled, TablePaused, InvalidArgument; the round's own error if it failed.
        """
        ...

    async def reconcile_lake(self, call: ReconcileLake) -> ReconcileResult:
        """Makes a lake table that failed its base check for good one to build on again.

        Raises CannotReconcile, UnknownTable, InvalidArgument, CommitOutcomeUnknown (call again), LakeUnavailable.
        """
        ...

    async def retry_tiering(self, call: RetryTiering) -> RetryResult:
        """Ends a failed table's back-off; also of one that failed for good. Raises UnknownTable."""
        ...

    async def knows(self, idempotency_key: str) -> bool:
        """Whether the key names an operation already."""
        ...

    def validate_table(self, call: ValidateTable) -> AsyncGenerator[str | CheckResult, None]:
        """Lines of progress, then a row a check. Closing the iterator ends the validation. Raises InvalidArgument, LakeUnavailable."""
        ...

    async def lease(self, call: LeaseCall) -> LeaseResult:
        """Acquires, renews, releases or drops a lease on KV snapshots. Raises UnknownLease, UnknownTable, InvalidArgument."""
        ...

    async def pause_tiering(self, call: PauseTiering) -> PauseResult:
        """The table is not assigned any more; a running round ends normally. Raises UnknownTable, InvalidArgument."""
        ...

    async def resume_tiering(self, call: ResumeTiering) -> PauseResult:
        """Ends a pause. Raises UnknownTable."""
        ...

    async def cancel_tiering(self, call: CancelTiering) -> CancelResult:
        """Asks a running round to end without a commit. Raises InvalidArgument for one that has not begun."""
        ...

    async def reset_errors(self, call: ResetErrors) -> ResetResult:
        """Counts a table's errors anew. Raises UnknownTable."""
        ...

    async def skip_record(self, call: SkipRecord) -> SkipRecordResult:
        """Leaves out the record at which a bucket stands. Raises UnknownTable, UnknownPartition, InvalidArgument."""
        ...

    async def sweep_lake(self, call: SweepLake) -> Sequence[SweepResult]:
        """Deletes what dead rounds left; a result a table. Raises UnknownTable, InvalidArgument."""
        ...


class CoordinatorHandle(Protocol):
    """Both together, as the services get them."""

    @property
    def control(self) -> CoordinatorControl: ...

    @property
    def open_calls(self) -> OpenCalls:
        """Where a service that takes CALLs says which are under way."""
        ...

    def view(self) -> CoordinatorView:
        """Now."""
        ...
