"""`CALL sys.release_kv_snapshot_lease`: releases all KV snapshots of one table that a lease holds."""

from __future__ import annotations

from dataclasses import dataclass

from tiering.model.declare import INT, column, parameter
from tiering.model.tables import TablePath
from tiering.procedures.base import LOOK_SECONDS, OPERATE_SERVICE, LeaseResult, Mutation, Pool


@dataclass(frozen=True)
class ReleaseKvSnapshotLeaseResult(LeaseResult):
    """The lease after the release."""

    state: str = column("State of the lease; RELEASED if it has no KV snapshot any more.")
    buckets: int = column("Number of buckets that were released.", arrow_type=INT)


@dataclass(frozen=True)
class ReleaseKvSnapshotLease(Mutation[ReleaseKvSnapshotLeaseResult]):
    """The lease, and the table whose snapshots it releases."""

    procedure = "release_kv_snapshot_lease"
    comment = "Releases the KV snapshots of one table."
    requirement = OPERATE_SERVICE
    pool = Pool.LEASE
    answer_seconds = LOOK_SECONDS
    lease_id: str = parameter("Identifier of the lease, chosen by its owner.")
    path: TablePath = parameter("The table: db.t or cat.db.t.", name="table")
