"""CALL sys.drop_kv_snapshot_lease: lets go of everything that a lease holds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime

from sys_tables.declare.columns import INT, column
from sys_tables.declare.parameters import parameter
from sys_tables.declare.procedure import Call, procedure
from tiering.coordinator.calls.kv_snapshots.drop_kv_snapshot_lease import DropLease

NAME = "drop_kv_snapshot_lease"


@dataclass(frozen=True)
class Parameters:
    """Its arguments."""

    lease_id: str = parameter("Identifier of the lease, chosen by its owner.")


@dataclass(frozen=True)
class Output:
    """The one row it returns."""

    lease_id: str = column("The lease.")
    state: str = column("DROPPED.")
    buckets: int = column("Number of buckets that were let go.", arrow_type=INT)
    expires_at: datetime | None = column("When it ends unless it is renewed; NULL if it is gone.")


@procedure(NAME, Parameters, Output, comment="Lets go of everything that a lease holds.", mutates=True)
async def run(call: Call, arguments: Parameters) -> AsyncIterator[str | Output]:
    result = await call.perform(DropLease(arguments.lease_id))
    yield Output(result.lease_id, result.state, result.buckets, result.expires_at)
