"""CALL sys.acquire_kv_snapshot_lease: keeps the newest KV snapshots of a table alive while somebody reads them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime

from sys_tables.declare.columns import INT, column
from sys_tables.declare.parameters import parameter
from sys_tables.declare.procedure import Call, procedure
from sys_tables.query.lookup import find_table
from tiering.coordinator.calls.kv_snapshots.acquire_kv_snapshot_lease import DEFAULT_TTL_MS, AcquireLease
from tiering.model.tables import TablePath

NAME = "acquire_kv_snapshot_lease"


@dataclass(frozen=True)
class Parameters:
    """Its arguments."""

    lease_id: str = parameter("Identifier of the lease, chosen by its owner.")
    table: TablePath = parameter("The table: db.t or cat.db.t.")
    ttl_ms: int = parameter("How long it lasts from now, in milliseconds.", default=DEFAULT_TTL_MS)


@dataclass(frozen=True)
class Output:
    """The one row it returns."""

    lease_id: str = column("The lease.")
    buckets: int = column("Number of buckets whose newest snapshot is leased now.", arrow_type=INT)
    unavailable: int = column("Number of buckets whose snapshot went before it could be leased.", arrow_type=INT)
    expires_at: datetime | None = column("When it ends unless it is renewed; NULL if nothing is leased, as after a dry run.")


@procedure(NAME, Parameters, Output, comment="Keeps the newest KV snapshots of a table alive.", mutates=True)
async def run(call: Call, arguments: Parameters) -> AsyncIterator[str | Output]:
    table = await find_table(call.handle, arguments.table)
    request = AcquireLease(arguments.lease_id, table.path, arguments.ttl_ms)
    result = await call.perform(request)
    yield Output(result.lease_id, result.buckets, result.unavailable, result.expires_at)
