"""sys.procedures: what can be called, from the procedures' own definitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import system_table
from tiering.access.requirements import EVERY_CALLER, Requirement
from tiering.coordinator.interface import CoordinatorView
from tiering.model.declare import column
from tiering.model.sql_types import column_list


@dataclass(frozen=True)
class ParameterItem:
    """One parameter of a procedure."""

    name: str = column("Name of the parameter, for named arguments.")
    type: str = column("Spark SQL type of the parameter.")
    required: bool = column("Whether a call must pass the parameter.")
    default: str | None = column("Default value, as a literal.")
    comment: str = column("Meaning of the parameter.")


@dataclass(frozen=True)
class ProcedureRow:
    """One procedure."""

    procedure_name: str = column("Name of the procedure, which is called as CALL <catalog>.sys.<name>(...).")
    parameters: tuple[ParameterItem, ...] = column("Parameters, in the order of positional arguments.")
    output: str = column("Columns of the result.")
    privilege: str = column(
        "The privilege that a caller needs, and on what; NONE: it is enough to be known. Without a policy file all is allowed."
    )
    description: str = column("Description of the procedure.")
    allowed: bool = column(
        "Whether the caller may call it for at least one table that the caller may describe, or on the service. Before the first such "
        "table: for the tables of a database."
    )


@system_table("procedures", ProcedureRow, requires=EVERY_CALLER, comment="The procedures that can be called, with parameters and output.")
def rows(view: CoordinatorView, scan: ScanRequest) -> Iterator[ProcedureRow]:
    allowed: dict[Requirement, bool] = {}
    for procedure in scan.procedures:
        requirement = procedure.request_class.requirement
        if requirement not in allowed:
            allowed[requirement] = view.may_call(requirement)
        parameters = tuple(ParameterItem(p.name, p.type, p.required, p.default, p.comment) for p in procedure.parameters)
        output, is_allowed = column_list(procedure.output_schema), allowed[requirement]
        yield ProcedureRow(procedure.name, parameters, output, procedure.privilege, procedure.comment, is_allowed)
