"""CALL sys.validate_table: DuckDB proves that a lake table equals its log (DESIGN 11); a row a check."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass

from sys_tables.declare.parameters import parameter
from sys_tables.declare.procedure import Call, procedure
from sys_tables.query.lookup import find_table
from sys_tables.tables.validation_results import ValidationResultRow, row_of
from tiering.coordinator.calls.validate_table import ValidateTable
from tiering.model.call_results import Progress
from tiering.model.tables import TablePath

NAME = "validate_table"


@dataclass(frozen=True)
class Parameters:
    """Its arguments."""

    table: TablePath = parameter("The table: db.t or cat.db.t.")
    level: str = parameter("counts: rows per bucket. offsets: each offset once. rows: all values too.", default="offsets")
    snapshot_id: int | None = parameter("A lake snapshot; the newest if not given.", default=None)


@procedure(NAME, Parameters, ValidationResultRow, comment="Proves with DuckDB that a lake table equals its log.", mutates=False)
async def run(call: Call, arguments: Parameters) -> AsyncIterator[str | ValidationResultRow]:
    table = await find_table(call.handle, arguments.table)
    request = ValidateTable(table.path, arguments.level, arguments.snapshot_id)
    steps = call.perform_with_progress(request)
    async with aclosing(steps):
        async for step in steps:
            if isinstance(step, Progress):
                yield step.message
            else:
                for result in step:
                    yield row_of(result)
