"""CALL sys.take_kv_snapshot: takes KV snapshots of a table now, and not only by its interval."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from sys_tables.declare.columns import INT, column
from sys_tables.declare.parameters import parameter
from sys_tables.declare.procedure import Call, procedure
from sys_tables.query.lookup import find_path
from tiering.coordinator.calls.kv_snapshots.take_kv_snapshot import TakeKvSnapshot
from tiering.model.tables import TablePath

NAME = "take_kv_snapshot"


@dataclass(frozen=True)
class Parameters:
    """Its arguments."""

    table: TablePath = parameter("The primary-key table: db.t or cat.db.t.")


@dataclass(frozen=True)
class Output:
    """The one row it returns."""

    table: str = column("The table, as it is spelled.")
    taken: int = column("Number of buckets of which a snapshot was taken, or would be: those that changed.", arrow_type=INT)
    buckets: int = column("Number of buckets that have a snapshot then.", arrow_type=INT)


@procedure(NAME, Parameters, Output, comment="Takes a KV snapshot of each bucket that changed since its last one.", mutates=True)
async def run(call: Call, arguments: Parameters) -> AsyncIterator[str | Output]:
    path = await find_path(call, arguments.table)
    result = await call.perform(TakeKvSnapshot(path))
    yield Output(str(result.path), result.taken, result.buckets)
