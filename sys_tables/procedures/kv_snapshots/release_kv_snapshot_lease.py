"""CALL sys.release_kv_snapshot_lease: lets go of the KV snapshots of one table."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime

from sys_tables.declare.columns import INT, column
from sys_tables.declare.parameters import parameter
from sys_tables.declare.procedure import Call, procedure
from sys_tables.query.lookup import find_table
from tiering.coordinator.calls.kv_snapshots.release_kv_snapshot_lease import ReleaseLease
from tiering.model.tables import TablePath

NAME = "release_kv_snapshot_lease"


@dataclass(frozen=True)
class Parameters:
    """Its arguments."""

    lease_id: str = parameter("Identifier of the lease, chosen by its owner.")
    table: TablePath = parameter("The table: db.t or cat.db.t.")


@dataclass(frozen=True)
class Output:
    """The one row it returns."""

    lease_id: str = column("The lease.")
    state: str = column("State of what is left of the lease; RELEASED if nothing is.")
    buckets: int = column("Number of buckets that were let go.", arrow_type=INT)
    expires_at: datetime | None = column("When it ends unless it is renewed; NULL if it is gone.")


@procedure(NAME, Parameters, Output, comment="Lets go of the KV snapshots of one table.", mutates=True)
async def run(call: Call, arguments: Parameters) -> AsyncIterator[str | Output]:
    table = await find_table(call.handle, arguments.table)
    request = ReleaseLease(arguments.lease_id, table.path)
    result = await call.perform(request)
    yield Output(result.lease_id, result.state, result.buckets, result.expires_at)
