"""The coordinator's interface inside its own process, for the gRPC services and the system tables.

Reads (`CoordinatorView`) show one moment and never wait for tiering. Anything that changes state or takes time is a request that
`CoordinatorControl` performs: `calls/` has one module per procedure with its request, its result and its effect.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from tiering.access.audit import AuditEntry
from tiering.access.grants import PolicyState
from tiering.access.policies.effective import EffectivePrivileges
from tiering.access.requirements import Requirement
from tiering.coordinator.decisions.next_action import CatalogNames
from tiering.coordinator.decisions.records import ErrorRecord, EventRecord, LakeCommitRecord, RoundRecord
from tiering.coordinator.memory.history import History, HistoryKind, HistoryRange, TablePathOrNone
from tiering.coordinator.memory.open_calls import OpenCall, OpenCalls
from tiering.lake.health.table_health import TableHealth
from tiering.model.buckets import BucketStatus
from tiering.model.leases import KvSnapshotLease
from tiering.model.option import EffectiveOption
from tiering.model.reading.matching import Columns
from tiering.model.reading.open_reads import OpenRead
from tiering.model.refused_records import DeadLetterRow
from tiering.model.splits import SplitStatus
from tiering.model.status import TableStatus
from tiering.model.tables import Partition, TableInfo, TablePath
from tiering.model.tierers import TiererStatus
from tiering.procedures.base import CallRequest, Progress, ResultT
from tiering.procedures.prove_table import TableProof
from tiering.procedures.validate_table import CheckResult

__all__ = [
    "CallHandle",
    "CatalogNames",
    "CheckResult",
    "CoordinatorControl",
    "CoordinatorHandle",
    "CoordinatorView",
    "EffectivePrivileges",
    "ErrorRecord",
    "EventRecord",
    "History",
    "HistoryKind",
    "HistoryRange",
    "LakeCommitRecord",
    "NamesView",
    "OpenCall",
    "OpenCalls",
    "RoundRecord",
    "TablePathOrNone",
    "TableProof",
]


class NamesView(Protocol):
    """The meaning of names at one moment: the part of a `CoordinatorView` that resolves statements."""

    @property
    def now(self) -> datetime:
        """The moment, UTC."""

    def databases(self) -> Sequence[str]:
        """Returns the real databases, sorted; without `sys`."""

    def tables(self, database_name: str) -> Sequence[TableInfo]:
        """Returns the tables of one database, sorted. Raises UnknownDatabase."""

    def table_statuses(self, database_name: str | None = None, table_name: str | None = None) -> Sequence[TableStatus]:
        """Returns one status per lake table, sorted by path. Exact names narrow the result; unknown names give no status."""


class CoordinatorView(NamesView, Protocol):
    """A read-only view of one moment. It is cheap to create, and any thread may call its methods.

    It omits tables that the caller may not see. `require` checks privileges on the service: `tierers`, `policies` and `audit` do not.
    """

    def require(self, requirement: Requirement) -> None:
        """Raises AccessDenied if the requirement is about the service, and the caller does not meet it."""

    def table(self, path: TablePath) -> TableInfo:
        """Returns the table. Raises UnknownTable, UnknownDatabase."""

    def lake_location(self, table_id: int) -> str | None:
        """Returns the last observed location of the table's lake copy; None if there is none. It does no I/O."""

    def partition_counts(self, tables: Sequence[TableInfo]) -> Mapping[int, int]:
        """Returns the number of partitions of partitioned tables by table id, as last observed. A few tables are observed now.

        Tables that are not tiered are omitted, because they are not observed.
        """

    def status_columns(self, names: CatalogNames | None = None) -> Columns:
        """Returns the statuses of all lake tables, sorted by path, with a column per field of TableStatus.

        `names`: the reader's catalogs.
        """

    def next_action_against(self, error: ErrorRecord, names: CatalogNames) -> str | None:
        """Returns the statement against one kind of error of a table; None if that error does not block the table now."""

    def partitions(self, table: TableInfo) -> Sequence[Partition]:
        """Returns the present partitions of a table. Raises UnknownTable."""

    def leases(self) -> Sequence[KvSnapshotLease]:
        """Returns all leases on KV snapshots, by id."""

    def validations(self) -> Sequence[CheckResult]:
        """Returns the results of validations, the newest first."""

    def proofs(self) -> Sequence[TableProof]:
        """Returns the proofs of tables, the newest first."""

    def open_calls(self) -> Sequence[OpenCall]:
        """Returns the CALLs in progress, the oldest first."""

    def open_reads(self) -> Sequence[OpenRead]:
        """Returns the open reads of data tables, the oldest first."""

    def buckets(self, database_name: str | None = None, table_name: str | None = None) -> Iterator[BucketStatus]:
        """Yields how far the lake is with each bucket, by path, partition and bucket. Exact names narrow the result."""

    def dead_letters(self, database_name: str | None = None, table_name: str | None = None) -> Iterator[DeadLetterRow]:
        """Yields the dead letters, by path, partition, bucket and offset. Reads the dead-letter tables. Exact names narrow the result."""

    def lake_health(
        self, database_name: str | None = None, table_name: str | None = None, names: CatalogNames | None = None
    ) -> Iterator[TableHealth]:
        """Yields the last observed health of the lake tables, by path, without reading a lake. `names`: the reader's catalogs."""

    def splits(self, database_name: str | None = None, table_name: str | None = None, round_id: str | None = None) -> Iterator[SplitStatus]:
        """Yields the progress of the running rounds' splits, by path and in the order of the plans. Exact names and ids narrow it."""

    def tierers(self) -> Sequence[TiererStatus]:
        """Returns the tierer processes, by id; none while no coordinator runs."""

    def policies(self) -> PolicyState:
        """Returns the policies in force."""

    def effective_privileges(
        self, principal: str | None = None, database_name: str | None = None, table_name: str | None = None
    ) -> Iterator[EffectivePrivileges]:
        """Yields what the caller may do, and for ADMIN what other users may do, on tables that the caller may describe.

        Exact names narrow it. The groups of a user whom the service does not know are unknown.
        """

    def may_call(self, requirement: Requirement) -> bool:
        """Returns whether the caller may make a call with this requirement for at least one table that the caller may describe, or on
        the service. Without such a table: whether the caller has the privilege on a database.
        """

    def audit(self) -> Iterator[AuditEntry]:
        """Yields the audit trail, the newest entry first."""

    def options(self) -> Sequence[EffectiveOption]:
        """Returns the options in force, by scope and name."""

    @property
    def history(self) -> History:
        """Stored history: rounds, commits and events."""


class CoordinatorControl(Protocol):
    """Performs requests. Its methods are coroutines, because a CALL may wait for minutes and must not hold a thread.

    Errors are classes of `tiering.errors`; the effect of each request documents its own.
    """

    async def perform(self, request: CallRequest[ResultT]) -> ResultT:
        """Performs the request, once per idempotency key."""

    def perform_with_progress(self, request: CallRequest[ResultT]) -> AsyncGenerator[Progress | ResultT, None]:
        """Performs the request, and yields any number of progress lines, then exactly one result. Closing the iterator ends the wait."""

    async def knows(self, idempotency_key: str, caller: str) -> bool:
        """Returns whether the key already names an operation of the caller."""


class CallHandle(Protocol):
    """The parts that a CALL needs: the coordinator's control, and the meaning of names."""

    @property
    def control(self) -> CoordinatorControl: ...

    @property
    def open_calls(self) -> OpenCalls:
        """The register in which a service enters the CALLs that it processes."""

    def view(self) -> NamesView:
        """Returns a view of the present moment."""


class CoordinatorHandle(CallHandle, Protocol):
    """Control and view together, as services get them."""

    def view(self) -> CoordinatorView:
        """Returns a view of the present moment."""
