"""`CALL sys.drop_kv_snapshot_lease`: releases everything that a lease holds."""

from __future__ import annotations

from dataclasses import dataclass

from tiering.model.declare import INT, column, parameter
from tiering.procedures.base import LOOK_SECONDS, OPERATE_SERVICE, LeaseResult, Mutation, Pool


@dataclass(frozen=True)
class DropKvSnapshotLeaseResult(LeaseResult):
    """The dropped lease."""

    state: str = column("DROPPED.")
    buckets: int = column("Number of buckets that were released.", arrow_type=INT)


@dataclass(frozen=True)
class DropKvSnapshotLease(Mutation[DropKvSnapshotLeaseResult]):
    """The lease to drop."""

    procedure = "drop_kv_snapshot_lease"
    comment = "Releases all KV snapshots of a lease."
    requirement = OPERATE_SERVICE
    pool = Pool.LEASE
    answer_seconds = LOOK_SECONDS
    lease_id: str = parameter("Identifier of the lease, chosen by its owner.")
