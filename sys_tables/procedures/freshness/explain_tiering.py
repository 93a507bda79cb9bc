"""CALL sys.explain_tiering: the splits that a round would read now, and why there is none. Changes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from sys_tables.declare.columns import INT, column
from sys_tables.declare.parameters import parameter
from sys_tables.declare.procedure import Call, procedure
from sys_tables.query.lookup import find_table
from tiering.coordinator.calls.freshness.explain_tiering import ExplainTiering
from tiering.model.tables import TablePath

NAME = "explain_tiering"


@dataclass(frozen=True)
class Parameters:
    """Its arguments."""

    table: TablePath = parameter("The table: db.t or cat.db.t.")


@dataclass(frozen=True)
class Output:
    """A row a reason, then a row a split, or a bucket without one."""

    split_type: str | None = column("LOG or SNAPSHOT; NULL = about the table, or a bucket of which nothing is read.")
    partition_name: str | None = column("Partition of the bucket.")
    bucket_id: int | None = column("Bucket; NULL = about the table as a whole.", arrow_type=INT)
    snapshot_id: int | None = column("KV snapshot that a SNAPSHOT split reads.")
    starting_offset: int | None = column("First offset that the split reads.")
    stopping_offset: int | None = column("Offset before which it stops; of a SNAPSHOT split the offset that the snapshot stands for.")
    records: int | None = column("Records of the log that it reads; NULL = not known.")
    decision: str = column("begin, wait, refuse, running, note for the table; read, skip, refuse for a bucket.")
    reason: str = column("Why.")


@procedure(NAME, Parameters, Output, comment="Shows what a round would read now, and all that keeps one from beginning.", mutates=False)
async def run(call: Call, arguments: Parameters) -> AsyncIterator[str | Output]:
    table = await find_table(call.handle, arguments.table)
    result = await call.perform(ExplainTiering(table.path))
    for line in result.lines:
        yield Output(**(vars(line) | {"decision": line.decision.value}))
