"""CALLs about leases on KV snapshots (SYS.md). The cluster has the leases; each of these is harmless to do twice.

The effect is in the cluster before the operation's row is stored: if the coordinator dies between the two, a repeat does the
same once more, with the same end.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from tiering.cluster.base import ClusterOwner
from tiering.cluster.lease_rules import check_lease
from tiering.coordinator.calls.mutations import Mutation
from tiering.coordinator.decisions.records import EventRecord, Level
from tiering.coordinator.memory.idempotency import IdempotentOperations
from tiering.coordinator.memory.table_records import TableRecords
from tiering.errors import InvalidArgument, UnknownLease
from tiering.model.leases import KvSnapshotLease
from tiering.model.tables import TableBucket, TableInfo, TablePath, TableType

DEFAULT_TTL_MS = 6 * 60 * 60 * 1_000
"""Six hours, as Fluss has it: long enough to read a table by hand."""
EXPIRING_SHARE = 0.1
"""A lease with less than this of its time left is about to expire."""


@dataclass(frozen=True)
class LeaseResult:
    """A lease after the call. `buckets`: those the call was about; `unavailable`: those whose snapshot was not there."""

    lease_id: str
    state: str
    buckets: int
    unavailable: int
    expires_at: datetime | None


@dataclass(frozen=True)
class AcquireLease(Mutation[LeaseResult]):
    """Leases the newest KV snapshot of every bucket of a table."""

    procedure = "acquire_kv_snapshot_lease"
    result_class = LeaseResult
    lease_id: str
    path: TablePath
    ttl_ms: int = DEFAULT_TTL_MS


@dataclass(frozen=True)
class RenewLease(Mutation[LeaseResult]):
    """Makes a lease last `ttl_ms` from now; None = as long as before."""

    procedure = "renew_kv_snapshot_lease"
    result_class = LeaseResult
    lease_id: str
    ttl_ms: int | None = None


@dataclass(frozen=True)
class ReleaseLease(Mutation[LeaseResult]):
    """Lets go of all buckets of one table."""

    procedure = "release_kv_snapshot_lease"
    result_class = LeaseResult
    lease_id: str
    path: TablePath


@dataclass(frozen=True)
class DropLease(Mutation[LeaseResult]):
    """Lets go of everything."""

    procedure = "drop_kv_snapshot_lease"
    result_class = LeaseResult
    lease_id: str


LeaseCall = AcquireLease | RenewLease | ReleaseLease | DropLease


def lease_state(lease: KvSnapshotLease, now: datetime) -> str:
    """ACTIVE, EXPIRING or EXPIRED (not swept yet, and to be renewed still)."""
    left_ms = (lease.expires_at - now).total_seconds() * 1_000
    if left_ms <= 0:
        return "EXPIRED"
    return "EXPIRING" if left_ms < lease.ttl_ms * EXPIRING_SHARE else "ACTIVE"


class LeaseCalls:
    """They block."""

    def __init__(self, table_records: TableRecords, cluster: ClusterOwner, operations: IdempotentOperations) -> None:
        self._table_records = table_records
        self._cluster = cluster
        self._operations = operations
        self._one_at_a_time = threading.Lock()

    def run(self, call: LeaseCall) -> LeaseResult:
        """Does it once for one idempotency key. Raises UnknownLease, UnknownTable, InvalidArgument, ClusterUnavailable."""
        with self._one_at_a_time:
            earlier = self._operations.answer(call)
            return self._do(call) if earlier is None else earlier

    def _do(self, call: LeaseCall) -> LeaseResult:
        match call:
            case AcquireLease():
                result = self._acquire(call)
            case RenewLease():
                result = self._renew(call)
            case ReleaseLease():
                result = self._release(call)
            case DropLease():
                result = self._drop(call)
        if not call.dry_run:
            with self._table_records.changing():
                self._table_records.put(operations=self._operations.done(call, None, result), events=[self._event(call, result)])
        return result

    def _acquire(self, call: AcquireLease) -> LeaseResult:
        check_lease(call.lease_id, call.ttl_ms)
        table = self._keyed(call.path)
        snapshots = {TableBucket(table.table_id, bucket): one.snapshot_id for bucket, one in self._cluster.kv_snapshots(table).items()}
        if not snapshots:
            raise InvalidArgument(f"{call.path} has no KV snapshots", hint="The first ones come after the table's snapshot interval.")
        if call.dry_run:
            return LeaseResult(call.lease_id, "ACTIVE", len(snapshots), 0, None)
        unavailable = self._cluster.acquire_lease(call.lease_id, call.ttl_ms, snapshots, call.caller)
        return self._found(call.lease_id, len(snapshots) - len(unavailable), len(unavailable))

    def _renew(self, call: RenewLease) -> LeaseResult:
        lease = self._lease(call.lease_id)
        ttl_ms = lease.ttl_ms if call.ttl_ms is None else call.ttl_ms
        check_lease(call.lease_id, ttl_ms)
        if not call.dry_run:
            self._cluster.acquire_lease(call.lease_id, ttl_ms, {})
        return self._found(call.lease_id, len(lease.snapshots))

    def _release(self, call: ReleaseLease) -> LeaseResult:
        lease, table = self._lease(call.lease_id), self._keyed(call.path)
        mine = [one.table_bucket for one in lease.snapshots if one.table_bucket.table_id == table.table_id]
        if not mine:
            raise UnknownLease(
                f"the lease {call.lease_id!r} holds no bucket of {call.path}",
                hint="See sys.kv_snapshot_lease_buckets for what it holds.",
            )
        released: Collection[TableBucket] = mine if call.dry_run else self._cluster.release_lease(call.lease_id, mine)
        return self._found(call.lease_id, len(released), gone="RELEASED")

    def _drop(self, call: DropLease) -> LeaseResult:
        lease = self._lease(call.lease_id)
        if not call.dry_run:
            self._cluster.drop_lease(call.lease_id)
        return LeaseResult(call.lease_id, "DROPPED", len(lease.snapshots), 0, None)

    def _found(self, lease_id: str, buckets: int, unavailable: int = 0, gone: str = "EXPIRED") -> LeaseResult:
        """The lease as it is now; `gone` if it holds nothing any more."""
        lease = self._by_id().get(lease_id)
        if lease is None:
            return LeaseResult(lease_id, gone, buckets, unavailable, None)
        return LeaseResult(lease_id, lease_state(lease, self._table_records.now().wall), buckets, unavailable, lease.expires_at)

    def _lease(self, lease_id: str) -> KvSnapshotLease:
        lease = self._by_id().get(lease_id)
        if lease is None:
            raise UnknownLease(f"there is no lease {lease_id!r}", hint="See sys.kv_snapshot_leases; it may have expired.")
        return lease

    def _by_id(self) -> Mapping[str, KvSnapshotLease]:
        return {lease.lease_id: lease for lease in self._cluster.leases()}

    def _keyed(self, path: TablePath) -> TableInfo:
        table = self._cluster.table(path)
        if table.table_type is not TableType.PRIMARY_KEY:
            raise InvalidArgument(f"{path} is a log table: only primary-key tables have KV snapshots", table_path=path)
        return table

    def _event(self, call: LeaseCall, result: LeaseResult) -> EventRecord:
        path = call.path if isinstance(call, AcquireLease | ReleaseLease) else None
        return EventRecord(
            occurred_at=self._table_records.now().wall,
            level=Level.INFO,
            event_type=call.procedure.upper(),
            message=f"lease {call.lease_id}: {result.buckets} buckets, {result.state}",
            principal=call.caller,
            database_name=None if path is None else path.database_name,
            table_name=None if path is None else path.table_name,
            round_id=None,
            details={"lease_id": call.lease_id, "unavailable": result.unavailable},
        )
