"""What the coordinator offers inside its own process: to the gRPC services and to the system tables.

Reads (`CoordinatorView`) see one moment and never wait for tiering. Whatever changes something, or takes its time, is a request that
`CoordinatorControl` performs: `calls/` has one module a procedure with its request, its result and its effect.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, Self, TypeAlias, runtime_checkable

from tiering.access.audit import AuditEntry
from tiering.access.grants import PolicyState
from tiering.coordinator.decisions.next_action import CatalogNames
from tiering.coordinator.decisions.records import ErrorRecord, EventRecord, LakeCommitRecord, RoundRecord
from tiering.coordinator.memory.history import History, HistoryRange
from tiering.coordinator.memory.open_calls import OpenCall, OpenCalls
from tiering.coordinator.requests import CallRequest, ResultT
from tiering.lake.health.table_health import TableHealth
from tiering.model.buckets import BucketStatus
from tiering.model.call_results import Progress
from tiering.model.effective_options import EffectiveOption
from tiering.model.leases import KvSnapshotLease
from tiering.model.splits import SplitStatus
from tiering.model.status import TableStatus
from tiering.model.tables import Partition, TableInfo, TablePath
from tiering.model.tierers import TiererStatus
from tiering.validate.results import CheckResult

__all__ = [
    "CallHandle",
    "CatalogNames",
    "CheckResult",
    "Columns",
    "CoordinatorControl",
    "CoordinatorHandle",
    "CoordinatorView",
    "ErrorRecord",
    "EventRecord",
    "History",
    "HistoryRange",
    "LakeCommitRecord",
    "NamesView",
    "OpenCall",
    "OpenCalls",
    "RoundRecord",
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


class NamesView(Protocol):
    """What names mean at one moment: the part of a `CoordinatorView` with which statements are resolved."""

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

    def table_statuses(self, database_name: str | None = None, table_name: str | None = None) -> Sequence[TableStatus]:
        """One status a lake table, sorted by path; exact names narrow it. Unknown names give none."""
        ...


class CoordinatorView(NamesView, Protocol):
    """A read-only look at one moment. Cheap to make; methods may be called from any thread."""

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

    def status_columns(self, names: CatalogNames | None = None) -> Columns:
        """The statuses of all lake tables, sorted by path: a column for each field of TableStatus. `names`: the reader's."""
        ...

    def next_action_against(self, error: ErrorRecord, names: CatalogNames) -> str | None:
        """The statement that helps against a kind of error of a table, if that is what holds the table up now."""
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

    def buckets(self, database_name: str | None = None, table_name: str | None = None) -> Iterator[BucketStatus]:
        """How far the lake is with each bucket of the lake tables, by path, partition and bucket; exact names narrow it."""
        ...

    def lake_health(
        self, database_name: str | None = None, table_name: str | None = None, names: CatalogNames | None = None
    ) -> Iterator[TableHealth]:
        """How good the lake tables are to read, as observed last, by path; exact names narrow it. Asks no lake. `names`: the reader's."""
        ...

    def splits(self, database_name: str | None = None, table_name: str | None = None, round_id: str | None = None) -> Iterator[SplitStatus]:
        """How far the running rounds are with their splits, by path and in the order of the plans; exact names and ids narrow it."""
        ...

    def tierers(self) -> Sequence[TiererStatus]:
        """The processes that tier, by id; none while no coordinator runs."""
        ...

    def policies(self) -> PolicyState:
        """The policies in force. Raises AccessDenied to whoever is no ADMIN."""
        ...

    def audit(self) -> Iterator[AuditEntry]:
        """Who did what, the newest first. Raises AccessDenied to whoever is no ADMIN."""
        ...

    def options(self) -> Sequence[EffectiveOption]:
        """The options that are in force, by scope and name."""
        ...

    @property
    def history(self) -> History:
        """What is stored of the past: rounds, commits and events."""
        ...


class CoordinatorControl(Protocol):
    """What may be asked of the coordinator. Coroutines: a CALL may wait for minutes and must not hold a thread.

    Errors are of `tiering.errors`; the effect of each request says which it raises.
    """

    async def perform(self, request: CallRequest[ResultT]) -> ResultT:
        """Does what the request asks for, once for its idempotency key."""
        ...

    def perform_with_progress(self, request: CallRequest[ResultT]) -> AsyncGenerator[Progress | ResultT, None]:
        """The same: any number of progress lines, then exactly one result. Closing the iterator ends the wait."""
        ...

    async def knows(self, idempotency_key: str, caller: str) -> bool:
        """Whether the key names an operation of the caller already."""
        ...


class CallHandle(Protocol):
    """What a CALL works with: the coordinator's control, and what names mean."""

    @property
    def control(self) -> CoordinatorControl: ...

    @property
    def open_calls(self) -> OpenCalls:
        """Where a service that takes CALLs enters those under way."""
        ...

    def view(self) -> NamesView:
        """Now."""
        ...


class CoordinatorHandle(CallHandle, Protocol):
    """Control and view together, as the services get them."""

    def view(self) -> CoordinatorView:
        """Now."""
        ...
