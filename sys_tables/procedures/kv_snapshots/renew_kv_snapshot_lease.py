"""CALL sys.renew_kv_snapshot_lease: makes a lease on KV snapshots last longer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime

from sys_tables.declare.columns import INT, column
from sys_tables.declare.parameters import parameter
from sys_tables.declare.procedure import Call, procedure
from tiering.coordinator.calls.kv_snapshots.renew_kv_snapshot_lease import RenewLease

NAME = "renew_kv_snapshot_lease"


@dataclass(frozen=True)
class Parameters:
    """Its arguments."""

    lease_id: str = parameter("Identifier of the lease, chosen by its owner.")
    ttl_ms: int | None = parameter("How long it lasts from now, in milliseconds; as long as before if not given.", default=None)


@dataclass(frozen=True)
class Output:
    """The one row it returns."""

    lease_id: str = column("The lease.")
    state: str = column("ACTIVE, or EXPIRED if it was gone before it could be renewed.")
    buckets: int = column("Number of buckets it holds.", arrow_type=INT)
    expires_at: datetime | None = column("When it ends unless it is renewed; NULL if it is gone.")


@procedure(NAME, Parameters, Output, comment="Makes a lease on KV snapshots last longer.", mutates=True)
async def run(call: Call, arguments: Parameters) -> AsyncIterator[str | Output]:
    result = await call.perform(RenewLease(arguments.lease_id, arguments.ttl_ms))
    yield Output(result.lease_id, result.state, result.buckets, result.expires_at)
