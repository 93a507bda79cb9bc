"""CALL sys.explain_upkeep: what the next upkeep of a lake table would do, and why it waits. Changes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from sys_tables.declare.columns import INT, column
from sys_tables.declare.parameters import parameter
from sys_tables.declare.procedure import Call, procedure
from sys_tables.query.lookup import find_table
from tiering.coordinator.calls.upkeep.explain_upkeep import ExplainUpkeep
from tiering.model.tables import TablePath

NAME = "explain_upkeep"


@dataclass(frozen=True)
class Parameters:
    """Its arguments."""

    table: TablePath = parameter("The table: db.t or cat.db.t.")


@dataclass(frozen=True)
class Output:
    """Rows about the table, then a row for each bucket of which files would be rewritten."""

    decision: str = column(
        "begin, wait, running, nothing: the next upkeep round; last: the latest one; option: one in effect; rewrite: files of a bucket; "
        "left: bytes for later rounds; note."
    )
    partition_name: str | None = column("Partition of the bucket.")
    bucket_id: int | None = column("Bucket; NULL = about the table as a whole.", arrow_type=INT)
    files: int | None = column("Files that would be rewritten.")
    bytes: int | None = column("Their size.")
    reason: str = column("Why, or what.")


@procedure(NAME, Parameters, Output, comment="Shows what the next upkeep of a lake table would do, and why it waits.", mutates=False)
async def run(call: Call, arguments: Parameters) -> AsyncIterator[str | Output]:
    table = await find_table(call.handle, arguments.table)
    result = await call.perform(ExplainUpkeep(table.path))
    for line in result.lines:
        yield Output(line.decision.value, line.partition_name, line.bucket_id, line.files, line.bytes, line.reason)
