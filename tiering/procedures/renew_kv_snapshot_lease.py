"""`CALL sys.renew_kv_snapshot_lease`: extends a lease on KV snapshots."""

from __future__ import annotations

from dataclasses import dataclass

from tiering.model.declare import INT, column, parameter
from tiering.procedures.base import LOOK_SECONDS, OPERATE_SERVICE, LeaseResult, Mutation, Pool


@dataclass(frozen=True)
class RenewKvSnapshotLeaseResult(LeaseResult):
    """The renewed lease."""

    state: str = column("ACTIVE, or EXPIRED if it ended before it could be renewed.")
    buckets: int = column("Number of buckets it holds.", arrow_type=INT)


@dataclass(frozen=True)
class RenewKvSnapshotLease(Mutation[RenewKvSnapshotLeaseResult]):
    """The lease to renew."""

    procedure = "renew_kv_snapshot_lease"
    comment = "Extends a lease on KV snapshots."
    requirement = OPERATE_SERVICE
    pool = Pool.LEASE
    answer_seconds = LOOK_SECONDS
    lease_id: str = parameter("Identifier of the lease, chosen by its owner.")
    ttl_ms: int | None = parameter("How long the lease lasts from now, in milliseconds. NULL = as long as before.", default=None)
