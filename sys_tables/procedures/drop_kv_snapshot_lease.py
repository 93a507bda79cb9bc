"""CALL sys.drop_kv_snapshot_lease: lets go of everything that a lease holds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime

from sys_tables.declare.columns import INT, column
from sys_tables.declare.parameters import parameter
from sys_tables.declare.procedure import Call, procedure
from tiering.coordinator.interface import DropLease

NAME = "drop_kv_snapshot_lease"


@dataclass(frozen=True)
class Parameters:
    """What it takes."""

    lease_id: str = parameter("Identifier of the lease, chosen by its owner.")


@dataclass(frozen=True)
class Output:
    """The one row it returns."""

    lease_id: str = column("The lease.")
    state: str = column("DROPPED.")
    buckets: int = column("Number of buckets that were let go.", arrow_type=INT)
    expires_at: datetime | None = column("When it ends unless it is renewed; NULL if it is gone.")


@procedure(NAME, Parameters, Output, comment="Lets go of everything that a lease holds.", mutates=True)
async def run(call: Call, given: Parameters) -> AsyncIterator[str | Output]:
    result = await call.handle.control.lease(DropLease(given.lease_id, **call.asked))
    yield Output(result.lease_id, result.state, result.buckets, result.expires_at)
