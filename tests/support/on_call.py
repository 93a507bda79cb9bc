"""A person on call: reads `next_action` of a table, runs exactly that, and looks again, until nothing is named."""

from __future__ import annotations

import ast
import asyncio
import re
from collections.abc import Callable
from dataclasses import replace

from support.worlds.lake_world import LakeWorld
from sys_tables.declare.procedure import Call, is_row
from sys_tables.declare.scan import ScanRequest
from sys_tables.registry import default_registry
from tiering.coordinator.decisions.next_action import CatalogNames
from tiering.coordinator.server.coordinator import Coordinator
from tiering.model.tables import TableInfo, TablePath
from tiering.procedures.arguments import ProcedureInput

REGISTRY = default_registry()
LOOK_MS = 60_000
"""A machine that is busy may take long."""
STATEMENTS = 4
"""More follow one another for no table."""
_CALL = re.compile(r"CALL (?P<catalog>\w+)\.sys\.(?P<procedure>\w+)\((?P<arguments>.*)\)")
_RENAME = re.compile(r"ALTER TABLE lake\.(?P<database>\w+)\.(?P<table>\w+) RENAME TO (?P<name>\w+)")
_NULLABLE = re.compile(r"ALTER TABLE lake\.(?P<table>[\w.]+) ALTER COLUMN (?P<column>\w+) DROP NOT NULL")
_SET_SNAPSHOT = re.compile(r"CALL lake\.system\.set_current_snapshot\('(?P<table>[\w.]+)', (?P<snapshot>\d+)\)")

LakeStatement = Callable[[str], object]
"""Runs a statement about the lake's catalog."""


def next_action(coordinator: Coordinator, table: TableInfo, names: CatalogNames | None = None) -> str | None:
    """The cell of `sys.lake_tiering_status`, after a look at the failed tables."""
    coordinator.repair_inspector.inspect_all(patience_ms=LOOK_MS)
    scan = ScanRequest() if names is None else ScanRequest(names=names)
    rows = REGISTRY.table("lake_tiering_status").rows(coordinator.view(), scan)
    paths = zip(rows.column("database_name").to_pylist(), rows.column("table_name").to_pylist(), strict=True)  # type: ignore[union-attr]
    place = list(paths).index((table.path.database_name, table.path.table_name))
    statement: str | None = rows.column("next_action").to_pylist()[place]  # type: ignore[union-attr]
    return statement


def call(coordinator: Coordinator, statement: str) -> list[object]:
    """Runs a CALL as the service does; its rows."""
    match = _CALL.fullmatch(statement)
    assert match is not None, statement
    procedure = REGISTRY.procedure(match["procedure"])
    values = ast.literal_eval(f"({match['arguments']},)")
    named = [(parameter.name, value) for parameter, value in zip(procedure.parameters, values, strict=False)]
    arguments = replace(ProcedureInput(procedure.name, procedure.parameters, named).read(procedure.request_class), caller="ann")

    async def run() -> list[object]:
        running = procedure.run(Call(coordinator, REGISTRY.procedures), arguments)
        return [step async for step in running if is_row(step)]

    return asyncio.run(run())


def in_lake(world: LakeWorld) -> LakeStatement:
    """The lake's statements that need no Spark: a table gets another name, another snapshot as its head, or a nullable column."""

    def run(statement: str) -> None:
        if (match := _RENAME.fullmatch(statement)) is not None:
            world.by_hand.rename(TablePath(match["database"], match["table"]), match["name"])
            return
        if (match := _NULLABLE.fullmatch(statement)) is not None:
            with world.iceberg_catalog().load_table(match["table"]).update_schema() as update:
                update.update_column(match["column"], required=False)
            return
        match = _SET_SNAPSHOT.fullmatch(statement)
        assert match is not None, statement
        loaded = world.iceberg_catalog().load_table(match["table"])
        loaded.manage_snapshots().set_current_snapshot(int(match["snapshot"])).commit()

    return run


def follow(coordinator: Coordinator, table: TableInfo, run_in_lake: LakeStatement, names: CatalogNames | None = None) -> list[str]:
    """The statements that were named, and run, one after the other."""
    ran: list[str] = []
    while (statement := next_action(coordinator, table, names)) is not None:
        assert len(ran) < STATEMENTS, ran
        call(coordinator, statement) if ".sys." in statement else run_in_lake(statement)
        ran.append(statement)
    return ran
