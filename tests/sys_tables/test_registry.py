from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import sys_tables
from support.services.sys_catalog import registry_with
from support.values.own_procedure import procedure
from sys_tables.declare.procedure import Call, Procedure
from sys_tables.declare.system_table import SystemTable, system_table
from sys_tables.registry import Registry, default_registry
from tiering.access.requirements import EVERY_CALLER
from tiering.errors import UnknownProcedure, UnknownTable
from tiering.model.declare import column
from tiering.procedures.registry import declarations


@dataclass(frozen=True)
class Row:
    colour: str = column("Its name.")


@dataclass(frozen=True)
class NoParameters:
    pass


def table(name: str) -> SystemTable:
    @system_table(name, Row, requires=EVERY_CALLER, comment="Colours.")
    def rows(view: Any, scan: Any) -> list[Row]:
        return []

    return rows


def paint(name: str, mutates: bool) -> Procedure:
    @procedure(name, NoParameters, Row, comment="Paints.", mutates=mutates)
    async def run(call: Call, parameters: Any) -> AsyncIterator[str | Row]:
        yield Row("red")

    return run


def modules(package: str) -> list[str]:
    return sorted(file.stem for file in (Path(sys_tables.__file__).parent / package).rglob("[!_]*.py"))


def test_the_default_registry_finds_the_modules() -> None:
    registry = default_registry()
    assert [table.name for table in registry.tables] == modules("tables")
    assert [procedure.name for procedure in registry.procedures] == [name for name in declarations() if name != "sweep_lake"]
    assert {"lake_tiering_status", "tables"} <= set(modules("tables"))


def test_every_definition_is_whole() -> None:
    for definition in default_registry().tables:
        assert definition.comment.endswith("."), definition.name
        assert definition.schema.names, definition.name
    for procedure_definition in default_registry().procedures:
        assert procedure_definition.comment.endswith("."), procedure_definition.name
        assert all(parameter.comment.endswith(".") for parameter in procedure_definition.parameters), procedure_definition.name
        assert procedure_definition.output_schema.names, procedure_definition.name


def test_what_is_added_is_found_whatever_its_case_and_leaves_the_rest_alone() -> None:
    default = default_registry()
    more = registry_with(tables=[table("colours")], procedures=[paint("paint", mutates=False)])
    assert more.table("COLOURS").comment == "Colours."
    assert more.procedure("Paint").comment == "Paints."
    assert more.table("tables") is default.table("tables")
    assert "colours" not in [definition.name for definition in default.tables]


def test_unknown_names_list_the_known() -> None:
    registry = Registry([table("colours"), table("shapes")])
    with pytest.raises(UnknownTable, match=r"sys\.colors") as of_table:
        registry.table("colors")
    with pytest.raises(UnknownProcedure, match=r"sys\.paint") as of_procedure:
        registry.procedure("paint")
    assert of_table.value.hint == "The system tables are: colours, shapes."
    assert of_procedure.value.hint == "There are no procedures."


def test_a_name_is_defined_once_and_in_lower_case() -> None:
    with pytest.raises(ValueError, match="'colours' is defined twice"):
        registry_with(tables=[table("colours"), table("colours")])
    with pytest.raises(ValueError, match="'Colours' is not lower-case"):
        Registry([table("Colours")])


def test_only_a_procedure_that_changes_something_can_be_tried_or_repeated() -> None:
    changing, reading = paint("paint", mutates=True), paint("look", mutates=False)
    assert [parameter.name for parameter in changing.parameters] == ["dry_run", "idempotency_key"]
    assert reading.parameters == ()
    pausing, helping = default_registry().procedure("pause_tiering"), default_registry().procedure("help")
    assert (pausing.privilege, helping.privilege) == ("OPERATE on the table", "NONE")
