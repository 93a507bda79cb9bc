"""CALL sys.validate_table: DuckDB proves that a lake table equals its log (DESIGN 11); a row a check."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass

from sys_tables.declare.parameters import parameter
from sys_tables.declare.procedure import Call, procedure
from sys_tables.query.lookup import find_table
from sys_tables.tables.validation_results import ValidationResultRow, row_of
from tiering.coordinator.interface import ValidateTable
from tiering.model.tables import TablePath

NAME = "validate_table"


@dataclass(frozen=True)
class Parameters:
    """What it takes."""

    table: TablePath = parameter("The table: db.t or cat.db.t.")
    level: str = parameter("counts: rows per bucket. offsets: each offset once. rows: all values too.", default="offsets")
    snapshot_id: int | None = parameter("A lake snapshot; the newest if not given.", default=None)


@procedure(NAME, Parameters, ValidationResultRow, comment="Proves with DuckDB that a lake table equals its log.", mutates=False)
async def run(call: Call, given: Parameters) -> AsyncIterator[str | ValidationResultRow]:
    table = await find_table(call.handle, given.table)
    request = ValidateTable(table.path, given.level, given.snapshot_id, call.caller)
    async with aclosing(call.handle.control.validate_table(request)) as steps:
        async for step in steps:
            yield step if isinstance(step, str) else row_of(step)
