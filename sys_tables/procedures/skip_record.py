"""CALL sys.skip_record: leaves out the record at which a bucket stands (docs/reference.md)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from sys_tables.declare.columns import INT, column
from sys_tables.declare.parameters import parameter
from sys_tables.declare.procedure import Call, procedure
from sys_tables.query.lookup import find_path
from tiering.coordinator.calls.skip_record import SkipRecord
from tiering.model.tables import TablePath

NAME = "skip_record"


@dataclass(frozen=True)
class Parameters:
    """Its arguments."""

    table: TablePath = parameter("The table: db.t or cat.db.t.")
    bucket_id: int = parameter("The bucket that stands, as its error says.")
    offset: int = parameter("The offset at which it stands; no other record can be skipped.")
    partition: str | None = parameter("The partition's name, if the table is partitioned.", default=None)
    reason: str | None = parameter("Why; kept with the event.", default=None)


@dataclass(frozen=True)
class Output:
    """The one row it returns."""

    table: str = column("The table, as it is spelled.")
    partition_name: str | None = column("The partition; NULL if the table has none.")
    bucket_id: int = column("The bucket.", arrow_type=INT)
    offset: int = column("Offset of the record.")
    value: str = column("The record as text, cut; empty for a caller without SELECT.")
    outcome: str = column("skipped, already_skipped, or would_skip for a dry run.")


@procedure(NAME, Parameters, Output, comment="Leaves out the record at which a bucket stands.", mutates=True)
async def run(call: Call, arguments: Parameters) -> AsyncIterator[str | Output]:
    path = await find_path(call, arguments.table)
    request = SkipRecord(path, arguments.bucket_id, arguments.offset, arguments.partition, arguments.reason)
    result = await call.perform(request)
    yield Output(str(result.path), result.partition_name, result.bucket_id, result.offset, result.value, result.outcome)
