"""`CALL sys.acquire_kv_snapshot_lease`: keeps the newest KV snapshot of every bucket of a table alive."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tiering.model.declare import INT, column, parameter
from tiering.model.tables import TablePath
from tiering.procedures.base import LOOK_SECONDS, OPERATE_TABLE, LeaseResult, Mutation, Pool

DEFAULT_TTL_MS = 6 * 60 * 60 * 1_000
"""Default duration of a lease: six hours, as in Fluss, which is enough to read a table by hand."""


@dataclass(frozen=True)
class AcquireKvSnapshotLeaseResult(LeaseResult):
    """The acquired lease."""

    buckets: int = column("Number of buckets whose newest snapshot is leased now.", arrow_type=INT)
    unavailable: int = column("Number of buckets whose snapshot was deleted before it could be leased.", arrow_type=INT)
    expires_at: datetime | None = column("When the lease ends unless it is renewed; NULL if nothing is leased, as after a dry run.")


@dataclass(frozen=True)
class AcquireKvSnapshotLease(Mutation[AcquireKvSnapshotLeaseResult]):
    """The lease to acquire. `lease_id` names a lease of this caller only."""

    procedure = "acquire_kv_snapshot_lease"
    comment = "Keeps the newest KV snapshots of a table alive."
    requirement = OPERATE_TABLE
    pool = Pool.LEASE
    answer_seconds = LOOK_SECONDS
    lease_id: str = parameter("Identifier of the lease, chosen by its owner.")
    path: TablePath = parameter("The table: db.t or cat.db.t.", name="table")
    ttl_ms: int = parameter("Duration from now, in milliseconds.", default=DEFAULT_TTL_MS)
